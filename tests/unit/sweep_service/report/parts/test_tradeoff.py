"""Objective against retained entropy, and the Pareto front."""

import pytest

from sweep_service.report.model import TradeoffPoint
from sweep_service.report.parts.tradeoff import best_of_both, tradeoff
from sweep_service.report.statistics.differences import mean_interval
from sweep_service.report.sweep_facts import Facts
from tests.unit.sweep_service.report.report_points import tuned
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from tests.unit.sweep_service.report.report_worlds import ending


def point(name: str, objective: float, entropy: float) -> TradeoffPoint:
    bounds = dict.fromkeys(("objective_low", "objective_high", "entropy_low", "entropy_high"))
    return TradeoffPoint(config_id=name, objective=objective, entropy_kept=entropy, n=1, on_front=False, **bounds)


def test_both_coordinates_come_from_the_same_trials() -> None:
    facts = Facts(sweep_inputs())
    points = {point.config_id: point for point in tradeoff(facts)}
    assert list(points) == list(facts.rows)
    for id_, row in facts.rows.items():
        stage = "confirm" if row.confirm else "tune"
        trials = [trial for trial in facts.trials_of(id_) if trial.stage == stage]
        kept = [t.entropy_end / t.entropy_start for t in trials if t.entropy_end and t.entropy_start]
        found, expected = points[id_], mean_interval(kept)
        assert found.n == len(trials)
        assert found.entropy_kept == pytest.approx(expected.mean)
        assert (found.entropy_low is None) == (stage == "tune")  # two tune seeds
        if row.confirm:
            assert (found.objective, found.objective_low) == (row.confirm.mean, row.confirm.low)
            assert found.entropy_low == pytest.approx(expected.low)
        else:
            assert (found.objective, found.objective_low) == (row.tune.mean, None)


def test_the_front_is_what_nothing_beats() -> None:
    points = [
        point("best", 0.9, 0.3),
        point("worse in both", 0.8, 0.2),
        point("as good, less entropy", 0.9, 0.2),
        point("trade", 0.7, 0.5),
        point("its twin", 0.7, 0.5),
        point("as much entropy, worse", 0.6, 0.5),
        point("most entropy", 0.1, 0.9),
    ]
    assert best_of_both(points) == {"best", "trade", "its twin", "most entropy"}


def test_trials_that_failed_or_have_no_entropy_are_left_out() -> None:
    fate = ending(lambda config, trial: config.number == 0 and trial.seed == 0, step=100)
    facts = Facts(sweep_inputs(fate=fate, confirmed=False))
    assert tradeoff(facts)[0].n == 1
    assert tradeoff(tuned({"loss.beta1": [0.0, 1.0]}, lambda *_: 0.5)) == []
