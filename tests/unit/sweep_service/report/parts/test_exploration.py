"""Main effects and response surface, against statsmodels, closed forms and simulation."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from sweep_service.report.model import Effect, Exploration
from sweep_service.report.parts.exploration import _analyse, exploration
from sweep_service.report.parts.factors import code
from sweep_service.report.parts.tuned_points import fit_seeds, tuned_points
from tests.unit.sweep_service.report.report_points import Score, tuned

B1, B2, EPSILON, LR = "loss.beta1", "loss.beta2", "loss.epsilon", "optimizer.learning_rate"
GRID = {B1: [0.0, 0.5, 1.0], B2: [0.25, 0.5, 1.0]}


def noisy(score: Score, sd: float, seed: int = 0) -> Score:
    """The score with noise that depends on the params and the seed."""

    def scored(params: Mapping[str, Any], at: int) -> float | None:
        key = [seed, at, *(round(1e6 * value) for value in params.values())]
        value = score(params, at)
        return None if value is None else float(value + np.random.default_rng(key).normal(0, sd))

    return scored


def effect(found: Exploration | None, name: str) -> Effect:
    return next(effect for effect in found.effects if effect.name == name)


def test_effects_of_an_unbalanced_design_are_those_of_a_type_ii_analysis() -> None:
    rng = np.random.default_rng(3)
    points = [
        {B1: float(b1), B2: float(b2), EPSILON: float(e)}
        for b1, b2, e in {
            (rng.choice([0, 0.5, 1]), rng.choice([0.25, 0.5, 0.75, 1]), rng.choice([0.1, 0.2])) for _ in range(19)
        }
    ]
    space = {B1: [0.0, 0.5, 1.0], B2: [0.25, 0.5, 0.75, 1.0], EPSILON: [0.1, 0.2]}
    score = noisy(lambda params, _: 0.5 - 0.1 * params[B1] + 0.05 * params[EPSILON], 0.02)
    found = exploration(tuned(space, score, points=points))
    table = pd.DataFrame([[p[B1], p[B2], p[EPSILON], score(p, 0)] for p in points], columns=["a", "b", "e", "y"])
    model = ols("y ~ C(a) + C(b) + C(e)", table).fit()
    expected = anova_lm(model, typ=2)
    for column, name in (("a", B1), ("b", B2), ("e", EPSILON)):
        assert effect(found, name).f == pytest.approx(expected.loc[f"C({column})", "F"])
        assert effect(found, name).p == pytest.approx(expected.loc[f"C({column})", "PR(>F)"])
    assert (found.error_sd, found.error_df) == (pytest.approx(np.sqrt(model.mse_resid)), model.df_resid)


def test_levels_are_means_of_the_grid_with_the_interval_of_their_contrast() -> None:
    score = noisy(lambda params, _: 0.8 - 0.3 * params[B1], 0.02)
    found = exploration(tuned(GRID, score))
    table = np.array([[score({B1: b1, B2: b2}, 0) for b2 in GRID[B2]] for b1 in GRID[B1]])
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    half = stats.t.ppf(0.975, 4) * np.sqrt((rest**2).sum() / 4 / 3 * 2 / 3)  # a level's mean minus the mean of three
    levels = effect(found, B1).levels
    assert [level.mean for level in levels] == pytest.approx(table.mean(axis=1))
    assert [level.configs for level in levels] == [3, 3, 3]
    assert [level.high - level.mean for level in levels if level.high is not None] == pytest.approx([half] * 3)
    ends = table.mean(axis=1)[[0, 2]]
    t = (ends[1] - ends[0]) / np.sqrt((rest**2).sum() / 4 * 2 / 3)
    assert effect(found, B1).trend_p == pytest.approx(2 * stats.t.sf(abs(t), 4))


def test_levels_are_adjusted_for_what_a_hole_leaves_unbalanced() -> None:
    points = [{B1: b1, B2: b2} for b1 in GRID[B1] for b2 in GRID[B2] if (b1, b2) != (1.0, 0.25)]
    found = exploration(tuned(GRID, noisy(lambda p, _: p[B2], 1e-4), points=points))
    assert [level.mean for level in effect(found, B1).levels] == pytest.approx([0.625] * 3, abs=1e-3)
    assert effect(found, B1).levels[2].configs == 2
    assert "β1: no effect can be told from noise" in "".join(found.text)


def test_the_strongest_effect_is_told_first_with_direction_size_and_error() -> None:
    found = exploration(tuned(GRID, noisy(lambda p, _: 0.9 - 0.31 * p[B1], 0.01)))
    assert found.text[0].startswith("β1: higher is worse: from 0 to 1 the mean falls by 0.3")
    assert "trend p < 0.001" in found.text[0]
    assert "interaction with 4 df" in found.text[0]
    assert "With 4 df only large effects show" in found.text[3]
    assert "not a verdict" in found.text[-1]


def test_a_middle_value_that_is_best_is_no_direction() -> None:
    found = exploration(tuned(GRID, noisy(lambda p, _: 0.9 - (p[B1] - 0.5) ** 2, 0.005)))
    assert found.text[0].startswith("β1: best at 0.5 (")


@pytest.mark.parametrize(("points", "power"), [(2, 0.21), (4, 0.59), (6, 0.88)])
def test_one_seed_of_a_grid_finds_trends_with_the_power_that_is_promised(points: int, power: float) -> None:
    """Noise of a config: seed sd 1.5 points and evaluation sd 0.8; effects from the lowest to the highest value."""
    rng, runs, found = np.random.default_rng(points), 600, 0
    facts = tuned(GRID, lambda *_: 0.5)
    for _ in range(runs):
        drawn = [
            replace(point, values={0: point.params[B1] * points + rng.normal(0, np.hypot(1.5, 0.8))})
            for point in tuned_points(facts)
        ]
        analysis = _analyse(drawn, facts)
        p = next(effect.trend_p for effect in analysis.effects if effect.name == B1)
        found += p is not None and p < 0.05
    assert found / runs == pytest.approx(power, abs=0.055)  # 2.7 standard errors at 0.5


def test_a_seed_that_one_config_misses_moves_no_mean() -> None:
    def score(params: Mapping[str, Any], seed: int) -> float | None:
        return None if seed == 1 and params[B1] == 0.5 else 0.5 + 0.2 * params[B1] - 0.4 * seed

    found = exploration(tuned({B1: [0.0, 0.5, 1.0], B2: 1.0}, score, seeds=(0, 1)))
    assert [level.mean for level in effect(found, B1).levels] == pytest.approx([0.3, 0.4, 0.5])


def test_one_parameter_is_held_against_the_spread_over_seeds() -> None:
    score = noisy(lambda p, seed: 0.5 + 0.3 * p[B1] + 0.1 * seed, 0.01)
    facts = tuned({B1: [0.0, 0.5, 1.0], B2: 1.0}, score, seeds=(0, 1, 2))
    found = exploration(facts)
    table = np.array([[score({B1: b1, B2: 1.0}, seed) for seed in range(3)] for b1 in (0.0, 0.5, 1.0)])
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    error = (rest**2).sum() / 4
    assert (found.error_df, found.error_sd) == (4, pytest.approx(np.sqrt(error / 3)))
    assert effect(found, B1).f == pytest.approx(3 * table.mean(axis=1).var(ddof=1) / error)
    assert "error: spread over seeds with 4 df" in found.text[0]


def test_nothing_is_claimed_without_degrees_of_freedom() -> None:
    found = exploration(tuned({B1: [0.0, 0.5, 1.0], B2: 1.0}, lambda p, _: p[B1]))
    assert effect(found, B1).p is None
    assert [level.low for level in effect(found, B1).levels] == [None] * 3
    assert found.error_df == 0
    assert "nothing is left to say how sure that is" in found.text[0]


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_equal_results_are_no_finding(value: float) -> None:
    found = exploration(tuned(GRID, lambda *_: value, seeds=(0, 1)))
    assert effect(found, B1).p is None
    assert found.surface is None
    assert f"β1: {value:.3f} at every value." in found.text


def test_parameters_that_change_together_cannot_be_told_apart() -> None:
    points = [{B1: b, B2: b, EPSILON: e} for b in (0.25, 0.5, 1.0) for e in (0.1, 0.2, 0.3)]
    space = {B1: [0.25, 0.5, 1.0], B2: [0.25, 0.5, 1.0], EPSILON: [0.1, 0.2, 0.3]}
    found = exploration(tuned(space, noisy(lambda p, _: p[B1] + p[EPSILON], 0.01), points=points))
    assert effect(found, B1).df == effect(found, B2).df == 0
    assert (effect(found, EPSILON).p or 1) < 0.001
    assert sum("cannot be told from theirs" in text for text in found.text) == 2
    assert found.surface is None


def test_words_are_factors_without_order() -> None:
    space = {"loss.name": ["ce_gppo", "gppo", "grpo"], LR: [1e-6, 2e-6, 4e-6]}
    level = {"ce_gppo": 0.6, "gppo": 0.5, "grpo": 0.3}
    found = exploration(tuned(space, _named(level), training={"loss": {"name": "gppo"}}))
    loss = effect(found, "loss.name")
    assert loss.trend_p is None
    assert [item.text for item in loss.levels] == ["ce_gppo", "gppo", "grpo"]
    assert found.text[0].startswith("loss: best at ce_gppo (0.6")


def _named(level: dict[str, float]) -> Score:
    def score(params: Mapping[str, Any], _: int) -> float:
        key = [round(1e9 * params[LR]), len(params["loss.name"])]
        return level[params["loss.name"]] + float(np.random.default_rng(key).normal(0, 0.01))

    return score


def test_a_random_search_is_read_as_trends_on_the_scale_of_its_search() -> None:
    rng = np.random.default_rng(1)
    space = {B1: {"type": "float", "low": 0, "high": 1}, LR: {"type": "float", "low": 1e-6, "high": 1e-4, "log": True}}
    points = [{B1: float(rng.random()), LR: float(10 ** rng.uniform(-6, -4))} for _ in range(25)]
    score = noisy(lambda p, _: 0.5 - 0.2 * (np.log10(p[LR]) + 5) ** 2 - 0.1 * p[B1], 0.005)
    found = exploration(tuned(space, score, points=points))
    lr, b1 = effect(found, LR), effect(found, B1)
    assert (lr.kind, lr.df, len(lr.levels)) == ("trend", 2, 5)
    assert sum(level.configs for level in lr.levels) == 25
    best = max(lr.levels, key=lambda level: level.mean)
    assert 5e-6 < best.value < 2e-5
    drop = b1.levels[0].mean - b1.levels[-1].mean
    width = b1.levels[-1].value - b1.levels[0].value
    assert drop == pytest.approx(0.1 * width, abs=0.02)
    surface = found.surface
    assert surface.at[LR] == pytest.approx(1e-5, rel=0.1)
    assert surface.terms["(log10 lr)²"] == pytest.approx(-0.2, abs=0.02)


def test_few_points_of_many_values_are_fitted_as_trends() -> None:
    rng = np.random.default_rng(0)
    space = {B1: [0.0, 0.25, 0.5, 0.75, 1.0], B2: [0.2, 0.4, 0.6, 0.8, 1.0], EPSILON: [0.1, 0.15, 0.2, 0.25, 0.3]}
    points = [{name: float(rng.choice(values)) for name, values in space.items()} for _ in range(10)]
    found = exploration(tuned(space, noisy(lambda p, _: p[B1], 0.01), points=points))
    assert {effect.kind for effect in found.effects} == {"trend"}
    assert found.error_df >= 2
    assert found.text[0].startswith("β1: higher is better")


def test_the_surface_finds_a_top_inside_and_covers_its_height() -> None:
    space = {B1: [0.0, 0.25, 0.5, 0.75, 1.0], B2: [0.0, 0.5, 1.0, 1.5, 2.0]}

    def truth(params: Mapping[str, Any], _: int = 0) -> float:
        x, y = params[B1] - 0.4, params[B2] - 1.2
        return 0.7 - 0.5 * x * x - 0.1 * y * y + 0.1 * x * y

    found = exploration(tuned(space, noisy(truth, 0.003)))
    surface = found.surface
    assert surface.at == {B1: pytest.approx(0.4, abs=0.05), B2: pytest.approx(1.2, abs=0.15)}
    assert surface.low < 0.7 < surface.high
    assert surface.residual_df == 25 - 6
    b1, b2 = 0.3, 0.9
    t = surface.terms
    by_terms = t["1"] + t["β1"] * b1 + t["β2"] * b2 + t["β1²"] * b1**2 + t["β2²"] * b2**2 + t["β1 β2"] * b1 * b2
    assert by_terms == pytest.approx(truth({B1: b1, B2: b2}), abs=0.004)
    assert "edge" not in surface.text


def test_the_surface_says_when_its_top_is_on_the_edge() -> None:
    found = exploration(tuned(GRID, noisy(lambda p, _: 0.5 + 0.2 * p[B1] - 0.3 * (p[B2] - 0.6) ** 2, 0.002)))
    surface = found.surface
    assert surface.at[B1] == 1.0
    assert "on the edge of what was tried in β1:" in surface.text


def test_noise_is_no_surface() -> None:
    found = exploration(tuned(GRID, noisy(lambda *_: 0.5, 0.02, seed=5)))
    assert "cannot be told from a flat one" in found.surface.text


def test_products_go_first_where_degrees_of_freedom_are_few() -> None:
    points = [{B1: b1, B2: b2} for b1 in GRID[B1] for b2 in GRID[B2]][:8]
    found = exploration(tuned(GRID, noisy(lambda p, _: p[B1], 0.02), points=points))
    assert "β1 β2" not in found.surface.terms
    assert found.surface.residual_df == 3


def test_collapsed_configs_count_and_are_told_and_the_rest_is_read_without_them() -> None:
    space = {B1: [0.0, 0.25, 0.5, 1.0], B2: [0.25, 0.5, 1.0]}
    score = noisy(lambda p, _: 0.1 if p[B1] == 1 else 0.8 + 0.05 * p[B2], 0.003)
    found = exploration(tuned(space, score, collapsed=lambda p: p[B1] == 1))
    text = "\n".join(found.text)
    assert "3 of them had a collapsed or diverged trial" in text
    assert effect(found, B1).levels[-1].mean < 0.2
    assert "Without the 3 configs that had a collapsed or diverged trial: β2: higher is better" in text


@pytest.mark.parametrize("together", [0.0, 0.2])
def test_what_main_effects_leave_is_held_against_the_seeds(together: float) -> None:
    told = 0
    for seed in range(10):
        score = noisy(lambda p, _: 0.5 + 0.1 * p[B1] + together * (p[B1] - 0.5) * (p[B2] - 0.6), 0.005, seed)
        found = exploration(tuned(GRID, score, seeds=(0, 1, 2)))
        told += found is not None and "Main effects do not say it all" in " ".join(found.text)
    assert told == 10 if together else told <= 3  # 5 % of false alarms


def test_nothing_to_explore() -> None:
    assert exploration(tuned({B1: [0.0, 1.0], B2: 1.0}, lambda *_: 0.5)) is None
    assert exploration(tuned({B1: 0.5, B2: 1.0}, lambda *_: 0.5)) is None
    assert exploration(tuned(GRID, lambda *_: None)) is None


def test_baselines_are_no_points_of_the_space() -> None:
    found = exploration(tuned({B1: [0.25, 0.5, 1.0], B2: [0.5, 1.0]}, lambda p, _: p[B2] or 0, baselines=True))
    assert [level.text for level in effect(found, B2).levels] == ["0.5", "1"]


def test_a_missing_seed_leaves_the_variance_of_a_two_way_fit() -> None:
    results = [{0: 0.1, 1: 0.5, 2: 0.2}, {0: 0.3, 2: 0.6}, {0: 0.2, 1: 0.1, 2: 0.4}, {1: 0.9, 2: 0.3}]
    table = pd.DataFrame(
        [(c, s, v) for c, values in enumerate(results) for s, v in values.items()], columns=list("csv")
    )
    model = ols("v ~ C(c) + C(s)", table).fit()
    found = fit_seeds(results)
    assert (found.variance, found.df) == (pytest.approx(model.mse_resid), model.df_resid)
    everywhere = pd.DataFrame([(c, s) for c in range(4) for s in range(3)], columns=list("cs"))
    assert found.means == pytest.approx(model.predict(everywhere).to_numpy().reshape(4, 3).mean(axis=1))


def test_columns_of_every_coding_have_mean_zero() -> None:
    facts = tuned({B1: [0.0, 0.25, 0.5, 1.0], B2: 1.0}, lambda *_: 0.5)
    distribution = facts.inputs.sweep.spec.space.root[B1]
    for coding in ("factor", "quadratic", "linear"):
        found = code(B1, [0.0, 0.25, 0.25, 1.0, 0.5], distribution, coding)
        assert found.columns.mean(axis=0) == pytest.approx(0)
