"""Earlier sweeps of one question are counted, and their confirm trials are added to this sweep's."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Report
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.plan import confirm_records
from sweep_service.sweep.records import (
    AskedBefore,
    ProblemCounts,
    Role,
    Stage,
    Sweep,
    SweepState,
    Trial,
    TrialState,
    new_id,
)
from sweep_service.sweep.spec import SweepSpec
from sweep_service.worker.reports.contents import gather
from tests import stored_sweeps as sweeps
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from tests.unit.sweep_service.report.report_worlds import asked_before, counted, without_luck


def pooled(
    measured_by: str | None = None, seeds: tuple[int, ...] = (10, 20, 21), inputs: ReportInputs | None = None
) -> tuple[Report, str]:
    """Return a report and its text with an earlier sweep that confirmed the same two configs."""
    inputs = inputs or sweep_inputs()
    comparison = build(inputs).verdict.comparison
    measure = inputs.measures[Stage.CONFIRM] if measured_by is None else measured_by
    confirmed = {
        comparison.config_id: {seed: 0.9 + seed / 1000 for seed in seeds},
        comparison.comparator_id: dict.fromkeys(seeds, 0.9),
    }
    (earlier,) = asked_before("UNDECIDED", confirmed=confirmed, measured_by=measure)
    report = build(replace(inputs, asked_before=(earlier,)))
    (found,) = (one for one in report.cautions if one.code == "ASKED_BEFORE")
    return report, found.text


def test_confirm_trials_of_the_same_two_configs_on_other_seeds_are_added() -> None:
    report, found = pooled()
    assert "betas-0 (swp_0) confirmed the same two configs on 2 other seeds. Over all 6 seeds" in found
    comparison = report.verdict.comparison
    rows = {row.id: row for row in report.configs}
    values = [
        {seed.seed: seed.value for seed in stage.seeds}
        for id_ in (comparison.config_id, comparison.comparator_id)
        if (stage := rows[id_].confirm) is not None
    ]
    own = [values[0][seed] - values[1][seed] for seed in (10, 11, 12, 13)]  # seed 10 of the earlier sweep is left out
    mean = (sum(own) + 0.020 + 0.021) / 6
    assert f"the difference in sound runs is {mean:+.3f} [" in found


@pytest.mark.parametrize(("earlier", "more"), [("AHEAD ON THESE PROBLEMS", True), ("BETTER", False)])
def test_luck_with_problems_is_told_where_an_answer_does_not_count_them(earlier: str, more: bool) -> None:
    report = build(replace(without_luck(sweep_inputs()), asked_before=asked_before(earlier)))
    (found,) = (one for one in report.cautions if one.code == "ASKED_BEFORE")
    assert ("of all cases, more if luck with problems counts, where an answer is ON THESE" in found.text) is more


def test_problems_that_the_verdict_counts_count_over_all_sweeps_too() -> None:
    inputs = counted(sweep_inputs())
    config_id = build(inputs).verdict.comparison.config_id
    lucky = {trial.id for trial in inputs.trials if trial.config_id == config_id}

    def on_every_second(counts: ProblemCounts) -> ProblemCounts:
        right = tuple(n + (5 if place % 2 else -5) for place, n in enumerate(counts.right))
        return counts.model_copy(update={"right": right}) if counts.trial_id in lucky else counts

    report, text = pooled(inputs=replace(inputs, problem_counts=tuple(map(on_every_second, inputs.problem_counts))))
    assert report.verdict.comparison.problem_error > 0
    assert text.partition("difference")[2] != pooled()[1].partition("difference")[2]  # whose results are the same


def test_an_earlier_run_takes_no_place_of_one_that_this_sweep_lacks() -> None:
    """Seed 10 is one of both sweeps, and this one has no result of the config on it."""
    inputs = sweep_inputs()
    comparison, measure = build(inputs).verdict.comparison, inputs.measures[Stage.CONFIRM]
    confirmed = {id_: dict.fromkeys((10, 20), 0.9) for id_ in comparison.pair}
    (earlier,) = asked_before("UNDECIDED", confirmed=confirmed, measured_by=measure)

    def lost(trial: Trial) -> bool:
        return (trial.config_id, trial.seed, trial.stage) == (comparison.config_id, 10, Stage.CONFIRM)

    end = {"state": TrialState.FAILED, "ending": Ending.LOST}
    trials = tuple(trial.model_copy(update=end) if lost(trial) else trial for trial in inputs.trials)
    report = build(replace(inputs, trials=trials, asked_before=(earlier,)))
    (found,) = (one for one in report.cautions if one.code == "ASKED_BEFORE")
    assert "on 1 other seed. Over all 4 seeds" in found.text


@pytest.mark.parametrize("changes", [{"measured_by": "another metric"}, {"seeds": (10, 11)}])
def test_results_of_another_kind_or_the_same_seeds_add_nothing(changes: Any) -> None:
    assert "confirmed the same" not in pooled(**changes)[1]


# What the store finds


CONFIRM = {"tune": [0], "confirm": {"top_k": 1, "seeds": [10, 11, 12]}}


def halves_event(event: dict[str, Any]) -> dict[str, Any]:
    """An event of a trainer that also records both halves of the problems, the confirm part's being harder."""
    if event["type"] != "evaluation":
        return event
    value = event["metrics"]["eval/avg_at_k"]
    parts = {"eval/tune_part/avg_at_k": value, "eval/confirm_part/avg_at_k": value - 0.05}
    return event | {"metrics": event["metrics"] | parts}


def reported(
    store: Store, name: str = "betas", *, in_halves: bool = False, ruins: int | None = 0, **changes: Any
) -> Sweep:
    """Run a sweep through both stages, and keep its report, which tells how many confirm trials were ruined."""
    sweep, fence = sweeps.start(store, name=name, **{"seeds": CONFIRM} | changes)
    tune, configs = store.list_trials(sweep.id), store.list_configs(sweep.id)
    chosen = [config for config in configs if Role.SPACE in config.roles][:1]
    store.add_configs(fence, *confirm_records(sweep.spec, sweep.id, configs, chosen, len(tune)))
    for trial in store.list_trials(sweep.id):
        if in_halves:
            events = [*map(halves_event, sweeps.training_events(1, 16)), sweeps.finished_event({})]
            sweeps.one_attempt(store, fence, trial.id, Ending.SUCCEEDED, events)
        else:
            sweeps.run_trial(store, fence, trial)
    sweeps.finish(store, fence)
    confirmed = [trial.id for trial in store.list_trials(sweep.id) if trial.stage is Stage.CONFIRM]
    ruined = {} if ruins is None else {"ruined": confirmed[:ruins]}
    store.put_report(sweep.id, "digest", {"verdict": to_json({"outcome": "UNDECIDED"} | ruined)})
    return sweep


def found(store: Store, home: Path, sweep: Sweep) -> dict[str, AskedBefore]:
    return {one.name: one for one in gather(store, sweep.id, Settings(home=home)).asked_before}


def test_gather_finds_earlier_reported_sweeps_of_the_same_model_and_task(store: Store, tmp_path: Path) -> None:
    reported(store, "first")
    reported(store, "other-space", space={"loss.beta1": [0.0, 0.25]})
    reported(store, "longer", training={"steps": 16, "task": {"name": "expressions"}})
    reported(store, "other-task", training={"steps": 16, "task": {"name": "countdown"}})
    reported(store, "other-model", training={"steps": 16, "model": {"num_layers": 1}})
    unreported, fence = sweeps.start(store, name="unreported")
    sweeps.finish(store, fence)
    last = reported(store, "last")
    reported(store, "later")
    assert list(found(store, tmp_path, last)) == ["first", "other-space", "longer"]
    assert found(store, tmp_path, unreported).keys() == {"first", "other-space", "longer"}


def test_gather_brings_the_confirm_results_of_configs_that_both_sweeps_have(store: Store, tmp_path: Path) -> None:
    reported(store, "same")
    reported(store, "halves", in_halves=True)
    reported(store, "one-ruined", ruins=1)
    reported(store, "ruins-unknown", ruins=None)
    reported(store, "shorter", training={"steps": 24})
    reported(store, "other-objective", objective={"metric": "eval/pass_at_k"})
    last = reported(store, "last")
    earlier = found(store, tmp_path, last)
    configs = {trial.config_id for trial in store.list_trials(last.id) if trial.stage is Stage.CONFIRM}
    same = (8 + 12 + 16) / 40 / 3  # the mean of the last three evaluations
    assert earlier["same"].confirmed == {id_: dict.fromkeys([10, 11, 12], pytest.approx(same)) for id_ in configs}
    assert earlier["same"].measured_by == "eval/avg_at_k"
    assert earlier["halves"].confirmed == {
        id_: dict.fromkeys([10, 11, 12], pytest.approx(same - 0.05)) for id_ in configs
    }
    assert earlier["halves"].measured_by == "eval/confirm_part/avg_at_k"
    assert sorted(map(len, earlier["one-ruined"].confirmed.values())) == [2, 3]
    assert earlier["ruins-unknown"].confirmed == {}
    assert earlier["shorter"].confirmed == earlier["other-objective"].confirmed == {}


def test_a_stored_base_that_today_s_version_refuses_is_not_counted(store: Store, tmp_path: Path) -> None:
    refused = SweepSpec.model_validate(sweeps.SPEC | {"training": {"no_longer_known": 1}})
    old = store.create_sweep(sweeps.make_sweep(refused), [], [])
    store.put_report(old.id, "digest", {"verdict": b'{"outcome": "BETTER"}'})
    assert store.answered(new_id("swp"))[0][0] == old.id
    claimed = store.claim("test", 3600)
    store.set_sweep_state(Fence(old.id, claimed.epoch), SweepState.RUNNING)
    assert found(store, tmp_path, reported(store)) == {}
