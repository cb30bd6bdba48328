"""Forecasts from recorded grids whose answers are plain, and how runs become a grid."""

import numpy as np
import pytest

from sweep_service.stopping.forecast import Recorded, forecasts, kept_grid, recorded_runs
from sweep_service.stopping.replay import Grid
from sweep_service.sweep.plan import StoppingForecast
from tests.unit.sweep_service.stopping.test_table import rows

STEPS = [0, 10, 20, 30, 40]


def apart(contenders: int, seeds: int, gap: float) -> Recorded:
    """Contenders whose results lie this far apart, the last one best; seeds differ by a thousandth."""
    rng = np.random.default_rng(1)
    values = [
        [[0.1, *[0.3 + gap * place + 0.001 * rng.normal()] * 4] for _ in range(seeds)] for place in range(contenders)
    ]
    return recorded_runs("planted runs", STEPS, values, 3, 1000)


def told(recorded: Recorded, contenders: int = 12, seeds: int = 8, rule: object = None) -> dict[str, StoppingForecast]:
    spec, *_ = rows(rule, seeds={"tune": [*range(seeds)], "confirm": {"top_k": 2, "seeds": [100, 101, 102]}})
    return {one.rule: one for one in forecasts(spec, recorded, contenders, hours=100.0, share=0.8)}


def test_what_lies_far_apart_is_dropped_and_nothing_is_lost() -> None:
    found = told(apart(12, 8, 0.05))
    assert list(found) == ["none", "paired", "rungs"]
    assert (found["none"].hours, found["none"].most_hours) == (pytest.approx(100), pytest.approx(100))
    # three seeds of 12, then 2 that go on
    assert found["paired"].hours == pytest.approx(20 + 80 * (12 * 3 + 2 * 5) / 96, abs=1)
    assert found["rungs"].hours < 20 + 80 * 0.45
    assert [one.loses_best for one in found.values()] == [0, 0, 0]


def test_what_is_alike_is_kept_by_what_proves_and_lost_by_nobody() -> None:
    found = told(apart(12, 8, 0.0))
    assert found["paired"].hours > 95
    assert found["rungs"].hours < 60
    assert found["rungs"].loses_best == 0, "all are as good"


def test_a_grid_that_misleads_at_first_loses_its_best() -> None:
    values = [
        [[0.5 + 0.04 * (seed < 4) * (one > 0) + 0.1 * (seed >= 4) * (one == 0)] * 5 for seed in range(8)]
        for one in range(12)
    ]
    grid = Grid(values, [[9] * 8] * 12, 3)
    assert told(Recorded("planted", grid))["rungs"].loses_best > 0.3


def test_the_spec_s_own_rule_is_among_them() -> None:
    found = told(apart(12, 8, 0.05), rule={"rule": "asha", "reduction": 4})
    assert list(found) == ["none", "paired", "rungs", "asha"]
    assert 80 < found["asha"].hours < 100, "whoever comes first goes on, and here the best come last"


@pytest.mark.parametrize(("contenders", "seeds"), [(40, 8), (12, 20), (3, 4)], ids=str)
def test_sweeps_of_other_sizes_are_replayed_as_far_as_the_grid_goes(contenders: int, seeds: int) -> None:
    for one in told(apart(12, 8, 0.05), contenders, seeds).values():
        assert 20 < one.hours <= 100


def test_runs_that_lose_their_answers_or_diverge_are_ended() -> None:
    sound, lost, diverged = [0.5, 0.6, 0.6, 0.6, 0.6], [0.5, 0.6, 0.0, 0.0, 0.0], [0.5, 0.6, 0.7]
    grid = recorded_runs("", STEPS, [[sound], [lost], [diverged]], 3, 1000).grid
    assert [seeds[0] for seeds in grid.ended_CS] == [5, 3, 2]
    assert [grid.is_ruined(place, 0) for place in range(3)] == [False, True, True]
    assert grid.means() == [pytest.approx(0.6), 0, 0]
    assert [len(seeds[0]) for seeds in grid.values_CSE] == [4, 4, 4]


def test_the_kept_grid_is_whole_and_some_of_it_collapses() -> None:
    recorded = kept_grid()
    assert recorded.size == (12, 8)
    ruined = [recorded.grid.is_ruined(one, seed) for one in range(12) for seed in range(8)]
    assert 0 < sum(ruined) < 48
    assert 0.3 < max(recorded.grid.means()) < 1
