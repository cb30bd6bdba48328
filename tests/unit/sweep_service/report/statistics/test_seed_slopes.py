"""Slopes seed by seed, against figures worked by hand, a regression with dummies, and simulation."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols

from sweep_service.report.statistics.differences import mean_interval
from sweep_service.report.statistics.seed_slopes import SettingPoint, seed_slopes


def points(rows: Sequence[tuple[int, str, float, float]]) -> list[SettingPoint]:
    return [SettingPoint(*row) for row in rows]


def test_slopes_worked_by_hand() -> None:
    found = seed_slopes(
        points(
            [
                (0, "a", 0, 1.0), (0, "a", 1, 3.0), (0, "b", 0, 10.0), (0, "b", 2, 10.0),
                (1, "a", 0, 0.0), (1, "a", 1, 2.0), (1, "b", 0, 0.0), (1, "b", 2, 1.0),
            ]
        )
    )  # fmt: skip
    # products (0.5 * 2, 1 * 0) and (0.5 * 2, 1 * 1); squares 0.5 and 2
    assert found.by_seed == pytest.approx({0: 1 / 2.5, 1: 2 / 2.5})
    assert found.partial == 0


def test_the_mean_over_seeds_of_one_design_is_the_regression_with_seeds_and_groups() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (seed, group, setting, float(rng.normal() + seed + len(group)))
        for seed, (group, setting) in itertools.product(
            range(5), [("a", 0.0), ("a", 1.0), ("a", 3.0), ("b", 0.0), ("b", 2.0)]
        )
    ]
    found = mean_interval([*seed_slopes(points(rows)).by_seed.values()])
    frame = pd.DataFrame(rows, columns=["seed", "group", "setting", "result"])
    assert found.mean == pytest.approx(ols("result ~ setting + C(seed):C(group)", frame).fit().params["setting"])


def test_a_seed_without_variation_has_no_slope() -> None:
    found = seed_slopes(points([(0, "a", 1.0, 1.0), (0, "b", 2.0, 2.0), (1, "a", 1.0, 1.0), (1, "a", 1.0, 2.0)]))
    assert found == ({}, 0)
    assert seed_slopes([]) == ({}, 0)


def test_a_fragment_of_a_seed_is_left_out() -> None:
    whole = [(seed, "a", setting, setting) for seed in (0, 1) for setting in (0.0, 0.5, 1.0)]
    found = seed_slopes(points([*whole, (2, "a", 0.0, 0.0), (2, "a", 0.5, 9.0)]))
    assert found.by_seed == pytest.approx({0: 1.0, 1: 1.0})
    assert found.partial == 1


@pytest.mark.parametrize("seeds", [3, 5])
def test_the_interval_covers_with_noisy_groups_and_missing_trials(seeds: int) -> None:
    """Group "b" has five times the noise, and one trial in ten is missing; 4,000 runs."""
    rng = np.random.default_rng(1)
    design = [(group, setting) for group in "abc" for setting in (0.0, 1.0, 2.0)]
    covered: list[bool] = []
    for _ in range(4000):
        noise, kept = rng.normal(size=(seeds, 9)), rng.random((seeds, 9)) > 0.1
        rows = [
            (seed, group, setting, float(noise[seed, n]) * (5 if group == "b" else 1))
            for seed in range(seeds)
            for n, (group, setting) in enumerate(design)
            if kept[seed, n]
        ]
        found = mean_interval([*seed_slopes(points(rows)).by_seed.values()])
        if found.low is not None and found.high is not None:
            covered.append(found.low <= 0 <= found.high)
    assert len(covered) > 3500
    assert np.mean(covered) >= 0.94
