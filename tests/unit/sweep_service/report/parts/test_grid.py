"""Cells of the heat map: places, holes, means, intervals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sweep_service.report.model import Cell, Grid
from sweep_service.report.parts.grid import grid
from sweep_service.report.sweep_facts import Facts
from tests.unit.sweep_service.report.report_points import tuned
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs

B1, B2, EPSILON, LR = "loss.beta1", "loss.beta2", "loss.epsilon", "optimizer.learning_rate"
SPACE = {B1: [1.0, 0.5, 0.0], B2: [0.5, 1.0]}


def by_betas(params: Mapping[str, Any], seed: int) -> float:
    noise = np.random.default_rng([seed, round(100 * params[B1]), round(100 * params[B2])]).normal(0, 0.02)
    return float(0.6 + 0.1 * params[B2] - 0.2 * params[B1] + 0.05 * seed + noise)


def cell(found: Grid | None, x: str, y: str, facet: str | None = None) -> Cell:
    (one,) = [cell for cell in found.cells if (cell.x, cell.y, cell.facet) == (x, y, facet)]
    return one


def test_values_are_in_the_order_of_numbers_and_every_combination_is_there() -> None:
    found = grid(tuned(SPACE, by_betas))
    assert (found.x, found.y, found.facet) == (B1, B2, None)
    assert (found.xs, found.ys, found.facets, found.others) == (["0", "0.5", "1"], ["0.5", "1"], [], [])
    assert [(cell.x, cell.y) for cell in found.cells] == [(x, y) for y in found.ys for x in found.xs]
    assert cell(found, "0.5", "1").mean == pytest.approx(by_betas({B1: 0.5, B2: 1.0}, 0))
    assert cell(found, "0.5", "1").half_width is None  # one tune seed


def test_the_interval_is_the_pooled_one_of_config_and_seed() -> None:
    found = grid(tuned(SPACE, by_betas, seeds=(0, 1, 2)))
    table = np.array([[by_betas({B1: a, B2: b}, s) for s in range(3)] for a in (0, 0.5, 1) for b in (0.5, 1)])
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    half = stats.t.ppf(0.975, 10) * np.sqrt((rest**2).sum() / 10 / 3)
    assert [cell.half_width for cell in found.cells] == pytest.approx([half] * 6)
    assert {(cell.n, cell.planned) for cell in found.cells} == {(3, 3)}


def test_a_collapsed_config_stands_on_its_own_spread() -> None:
    def score(params: Mapping[str, Any], seed: int) -> float:
        return 0.2 * seed if params[B1] == 1 else by_betas(params, seed)

    calm = grid(tuned(SPACE, score, seeds=(0, 1, 2), collapsed=lambda params: params[B1] == 1))
    own = stats.t.ppf(0.975, 2) * 0.2 / np.sqrt(3)
    assert cell(calm, "1", "1").half_width == pytest.approx(own)
    other = cell(calm, "0", "1").half_width
    assert other < own / 2
    two = grid(tuned(SPACE, score, seeds=(0, 1), collapsed=lambda params: params[B1] == 1))
    assert cell(two, "1", "1").half_width is None


def test_holes_are_what_was_not_tried_and_what_gave_no_result() -> None:
    tried = [{B1: b1, B2: b2} for b1, b2 in ((0.0, 0.5), (0.0, 1.0), (0.5, 0.5), (1.0, 1.0))]
    found = grid(tuned(SPACE, lambda p, _: None if p[B1] == 1 else 0.5, points=tried, seeds=(0, 1)))
    hole, failed = cell(found, "0.5", "1"), cell(found, "1", "1")
    assert (hole.config_id, hole.mean, hole.n, hole.planned) == (None, None, 0, 0)
    assert failed.config_id is not None
    assert (failed.mean, failed.half_width, failed.n, failed.planned) == (None, None, 0, 2)


def test_the_baseline_has_its_cell_and_dapo_has_none() -> None:
    found = grid(tuned(SPACE, lambda p, _: 0.7 if p[B2] == 0 else 0.5, baselines=True))
    assert found.ys == ["0", "0.5", "1"]
    assert cell(found, "0", "0").mean == pytest.approx(0.7)
    assert sum(cell.config_id is not None for cell in found.cells) == 7


def test_a_baseline_that_differs_in_what_is_fixed_has_no_cell() -> None:
    found = grid(tuned({B1: [0.0, 0.5], LR: [1e-6, 2e-6], B2: 1.0}, lambda *_: 0.5, baselines=True))
    assert (found.x, found.y) == (B1, LR)
    assert len({cell.config_id for cell in found.cells}) == 4  # β2 = 0 is another plane


def test_epsilon_is_the_facet_and_further_parameters_are_averaged() -> None:
    space = SPACE | {EPSILON: [0.2, 0.1], LR: [1e-6, 2e-6]}
    found = grid(tuned(space, lambda p, _: p[EPSILON] + 1e5 * p[LR], seeds=(0, 1)))
    assert (found.facet, found.facets, found.others) == (EPSILON, ["0.1", "0.2"], [LR])
    one = cell(found, "0", "1", "0.2")
    assert one.mean == pytest.approx(0.2 + 0.15)
    assert (one.n, one.planned) == (4, 4)
    best = next(config for config in tuned(space, lambda *_: 0.5).inputs.configs if config.id == one.config_id)
    assert best.params == {B1: 0.0, B2: 1.0, EPSILON: 0.2, LR: 2e-6}


def test_a_mean_over_configs_has_the_interval_of_that_mean() -> None:
    def score(params: Mapping[str, Any], seed: int) -> float:
        return by_betas(params, seed) + 1e3 * params[LR]

    space = SPACE | {EPSILON: [0.1, 0.2]}
    single = grid(tuned(space | {LR: 1e-6}, score, seeds=(0, 1)))
    double = grid(tuned(space | {LR: [1e-6, 2e-6]}, score, seeds=(0, 1)))
    one, two = cell(single, "0", "1", "0.1").half_width, cell(double, "0", "1", "0.1").half_width
    ratio = stats.t.ppf(0.975, 23) / stats.t.ppf(0.975, 11) / np.sqrt(2) * np.sqrt(22 / 23)
    assert two / one == pytest.approx(ratio)  # the same spread twice, over 23 instead of 11 degrees of freedom


def test_words_are_in_the_order_of_the_space_and_close_numbers_stay_apart() -> None:
    space = {"loss.name": ["grpo", "gppo"], LR: [1.00001e-6, 1.00002e-6]}
    found = grid(tuned(space, lambda *_: 0.5, training={"loss": {"name": "gppo"}}))
    assert (found.x, found.xs) == ("loss.name", ["grpo", "gppo"])
    assert found.ys == ["1.00001e-06", "1.00002e-06"]


def test_no_grid_without_two_listed_parameters() -> None:
    assert grid(tuned({B1: [0.0, 1.0], B2: 1.0}, lambda *_: 0.5)) is None
    rng = np.random.default_rng(0)
    space = {B1: [0.0, 1.0], LR: {"type": "float", "low": 1e-6, "high": 1e-5}}
    many = [{B1: float(i % 2), LR: float(rng.uniform(1e-6, 1e-5))} for i in range(13)]
    assert grid(tuned(space, lambda *_: 0.5, points=many)) is None
    assert grid(tuned(space, lambda *_: 0.5, points=many[:12])) is not None


def test_cells_have_confirm_means_and_entropies() -> None:
    facts = Facts(sweep_inputs({"space": SPACE}))
    found = grid(facts)
    one = next(cell for cell in found.cells if cell.config_id == facts.best.id)
    assert one.confirm == facts.best.confirm.mean
    tune = [t for t in facts.trials_of(facts.best.id) if t.stage == "tune"]
    kept = [t.entropy_end / t.entropy_start for t in tune if t.entropy_end and t.entropy_start]
    assert one.entropy_kept == pytest.approx(np.mean(kept))
