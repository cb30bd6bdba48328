"""Summaries that claim nothing, by hand-worked numbers."""

from typing import Any

import numpy as np
import pytest

from sweep_service.report.parts.descriptive import descriptive, improvement, interquartile_mean
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Stage, TrialState
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import NO_BASELINE, ending, every


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.3], 0.3),
        ([0.1, 0.3], 0.2),
        ([0.0, 1.0, 5.0], (0.25 * 0 + 1 + 0.25 * 5) / 1.5),
        ([9.0, 1.0, 2.0, -9.0], 1.5),
        ([0.0, 1.0, 2.0, 3.0, 100.0], (0.75 * 1 + 2 + 0.75 * 3) / 2.5),
        ([0.0, 1, 2, 3, 4, 5, 6, 700], 3.5),
    ],
)
def test_interquartile_mean_counts_cut_values_in_part(values: list[float], expected: float) -> None:
    assert interquartile_mean(values) == pytest.approx(expected)


def test_improvement_counts_pairs_and_halves_ties() -> None:
    assert improvement(np.array([1.0, 3.0]), np.array([0.0, 1.0, 2.0])) == pytest.approx((1.5 + 3) / 6)


def test_profiles_and_means_are_those_of_the_confirm_seeds() -> None:
    facts = Facts(sweep_inputs())
    found = descriptive(facts)
    assert found.comparator_id == facts.verdict.comparison.comparator_id
    results = {id_: [s.value for s in row.confirm.seeds] for id_, row in facts.rows.items() if row.confirm}
    assert {profile.config_id for profile in found.profiles} == set(results)
    assert len(found.thresholds) == 41
    for profile in found.profiles:
        values = np.array(results[profile.config_id])
        assert profile.shares == pytest.approx([float((values >= at).mean()) for at in found.thresholds])
        assert profile.shares[0] == 1
    base = results[found.comparator_id]
    assert set(found.iqm) == set(found.improvement) == set(results) - {found.comparator_id}
    for id_ in found.iqm:
        deltas = sorted(a - b for a, b in zip(results[id_], base, strict=True))
        assert found.iqm[id_] == pytest.approx(np.mean(deltas[1:3]))  # of four, the middle two
        pairs = [(a > b) + (a == b) / 2 for a in results[id_] for b in base]
        assert found.improvement[id_] == pytest.approx(np.mean(pairs))


def changed(facts: Facts, **known: Any) -> Facts:
    """The same facts, of which some were found to be otherwise."""
    copy = Facts(facts.inputs)
    vars(copy).update({"rows": facts.rows, "comparisons": facts.comparisons, **known})
    return copy


def test_training_spread_leaves_out_configs_that_collapsed_and_the_evaluation_part_follows() -> None:
    facts = Facts(sweep_inputs())
    out = facts.comparisons[0].config_id
    trials = [
        trial.model_copy(update={"evaluation_se": 0.9 if trial.config_id == out else 0.02}) for trial in facts.trials
    ]
    found = descriptive(changed(facts, unsteady=frozenset([out]), trials=trials))
    sds = [row.confirm.sd or 0 for row in facts.rows.values() if row.confirm and row.id != out]
    assert found.training_sd == pytest.approx(np.sqrt(np.mean(np.square(sds))))
    assert found.evaluation_se == pytest.approx(0.02)
    bare = [trial.model_copy(update={"evaluation_se": None}) for trial in facts.trials]
    without = descriptive(changed(facts, trials=bare))
    assert without.evaluation_se is None


def test_one_seed_or_equal_results_break_nothing() -> None:
    one = descriptive(Facts(sweep_inputs(on_seeds((0,), confirm=(5,), top_k=1))))
    assert one.training_sd is None
    zero = descriptive(Facts(sweep_inputs(fate=ending(every, TrialState.DIVERGED, step=80))))
    assert zero.thresholds == [0.0]
    assert set(zero.improvement.values()) == {0.5}


def test_nothing_without_a_confirmed_comparator() -> None:
    assert descriptive(Facts(sweep_inputs(confirmed=False))) is None
    assert descriptive(Facts(sweep_inputs({"baselines": NO_BASELINE}))) is None
    failing = ending(lambda config, trial: trial.stage is Stage.CONFIRM)
    assert descriptive(Facts(sweep_inputs(fate=failing))) is None
