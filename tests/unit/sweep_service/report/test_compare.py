"""Two sweeps beside each other: joined by config, with intervals that hold together."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sweep_service.report.compare import SweepResults, compare_sweeps
from sweep_service.sweep.records import Config, Role, SweepState
from sweep_service.sweep.spec import SweepSpec
from tests.stored_sweeps import make_sweep

Values = dict[str, dict[int, float]]
NONE: Mapping[str, int] = {}


def results(
    name: str,
    values: Values,
    spec: dict[str, Any] | None = None,
    ruined: Mapping[str, int] | None = NONE,
    **changes: Any,
) -> SweepResults:
    parsed = SweepSpec.model_validate({"name": name, "space": {"loss.beta1": [0.0, 1.0]}} | (spec or {}))
    sweep = make_sweep(parsed, **{"id": f"swp_{name}", "state": SweepState.SUCCEEDED} | changes)
    of_all: dict[str, Any] = {"sweep_id": sweep.id, "roles": (Role.SPACE,), "training": {}}
    configs = [Config(id=id_, number=n, params={"loss.beta1": n}, **of_all) for n, id_ in enumerate(values)]
    return SweepResults(sweep, configs, values, ruined)


def seeds(*values: float, first: int = 0) -> dict[int, float]:
    return dict(enumerate(values, first))


def test_only_configs_in_both_are_joined() -> None:
    found = compare_sweeps([results("a", {"x": seeds(0.1), "y": {}}), results("b", {"y": seeds(0.2), "z": {}})])
    assert [row.config_id for row in found.shared] == ["y"]
    assert [(sweep.configs, sweep.only_here) for sweep in found.sweeps] == [(2, 1), (2, 1)]
    assert found.shared[0].differences[0].difference is None


def test_a_sweep_that_shares_nothing_has_all_its_configs_to_itself() -> None:
    sweeps = [results("a", {"x": {}, "y": {}}), results("b", {"y": {}}), results("c", {"z": {}})]
    assert [sweep.only_here for sweep in compare_sweeps(sweeps).sweeps] == [1, 0, 1]


def test_common_seeds_are_paired() -> None:
    before, after = (0.5, 0.7, 0.6, 0.1), (0.52, 0.73, 0.61, 0.14)
    found = compare_sweeps([results("a", {"x": seeds(*before)}), results("b", {"x": seeds(*after)})])
    (row,) = found.shared
    (difference,) = row.differences
    expected = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert difference.paired
    assert (difference.low, difference.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_other_seeds_are_compared_by_means() -> None:
    before, after = (0.5, 0.7, 0.6), (0.9, 0.8, 0.95, 0.85)
    found = compare_sweeps([results("a", {"x": seeds(*before)}), results("b", {"x": seeds(*after, first=10)})])
    (difference,) = found.shared[0].differences
    expected = stats.ttest_ind(after, before, equal_var=False).confidence_interval(0.95)
    assert not difference.paired
    assert difference.difference == pytest.approx(np.mean(after) - np.mean(before))
    assert (difference.low, difference.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_two_configs_share_the_error_of_five_percent() -> None:
    before, after = (0.5, 0.7, 0.6), (0.52, 0.73, 0.61)
    both = {"x": seeds(*before), "y": seeds(*before)}
    found = compare_sweeps([results("a", both), results("b", {"x": seeds(*after), "y": seeds(*after)})])
    expected = stats.ttest_rel(after, before).confidence_interval(0.975)
    assert [row.differences[0].low for row in found.shared] == pytest.approx([expected.low] * 2)


def test_few_seeds_give_no_interval_and_equal_ones_are_a_repetition() -> None:
    few = compare_sweeps([results("a", {"x": seeds(0.5, 0.6)}), results("b", {"x": seeds(0.7, 0.8)})])
    (difference,) = few.shared[0].differences
    assert (difference.low, difference.high) == (None, None)
    assert difference.difference == pytest.approx(0.2)
    same = {"x": seeds(0.5, 0.6, 0.7)}
    (difference,) = compare_sweeps([results("a", same), results("b", same)]).shared[0].differences
    assert difference.repeated == 3
    assert (difference.low, difference.high) == (None, None)


def test_ruined_runs_are_left_out_and_said_and_so_is_that_nobody_knows_them() -> None:
    values = {"x": seeds(0.5, 0.6, 0.7)}
    found = compare_sweeps([results("a", values, ruined={"x": 2}), results("b", values, ruined=None)])
    assert [one.ruined for one in found.shared[0].values] == [2, 0]
    assert found.notes == ["b has no report that says which runs were ruined: its values count them."]


def test_repetitions_do_not_widen_other_intervals() -> None:
    before, after = (0.5, 0.7, 0.6), (0.52, 0.73, 0.61)
    sweeps = [
        results(name, {"x": seeds(*values), "y": seeds(*before)}) for name, values in (("a", before), ("b", after))
    ]
    found = compare_sweeps(sweeps)
    expected = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert found.shared[0].differences[0].low == pytest.approx(expected.low)
    assert "Bonferroni" not in " ".join(found.method)


def test_values_without_spread_have_no_interval() -> None:
    found = compare_sweeps([results("a", {"x": seeds(0, 0, 0)}), results("b", {"x": seeds(0, 0, 0, first=9)})])
    (difference,) = found.shared[0].differences
    assert (difference.low, difference.difference, difference.high) == (None, 0.0, None)


def test_settings_that_differ_stand_side_by_side() -> None:
    trainings = {"a": {}, "b": {"steps": 80, "loss": {"name": "dapo"}}, "c": {"optimizer": {"learning_rate": 0.5}}}
    compared = [results(name, {}, {"training": training}) for name, training in trainings.items()]
    values = {setting.name: setting.values for setting in compare_sweeps(compared).settings}
    assert values["steps"] == [480, 80, 480]
    assert values["loss.name"] == ["ce_gppo", "dapo", "ce_gppo"]
    assert values["loss.beta1"] == [0.5, None, 0.5]
    assert values["optimizer.learning_rate"] == [2e-4, 2e-4, 0.5]
    assert "seed" not in values
    assert compare_sweeps([results("a", {}), results("b", {})]).settings == []


def test_the_notes_name_other_objectives_and_open_sweeps() -> None:
    other = {"training": {"steps": 80}, "objective": {"last": 1}}
    found = compare_sweeps([results("a", {}), results("b", {}, other, state=SweepState.RUNNING)])
    notes = " ".join(found.notes)
    assert "another objective" in notes
    assert "No config is in both" in notes
    assert "b (swp_b) is running" in notes
