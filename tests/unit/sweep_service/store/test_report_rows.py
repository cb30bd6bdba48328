"""From the rows of a real store to a kept report."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.render.html import page_script
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store, tables
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.extension import COMPARED, looks
from sweep_service.sweep.records import Stage, SweepState
from sweep_service.sweep.spec import SweepSpec
from sweep_service.worker.reports import process
from sweep_service.worker.reports.contents import build_report, gather
from tests.stored_sweeps import claimed, finish, make_sweep, one_attempt, run_trial, start, submit
from tests.unit.sweep_service.report.report_sweeps import SPEC, sweep_inputs


def fill(store: Store, *, backwards: bool = False) -> str:
    """Store the made-up sweep as a runner would; `backwards`: with its rows in the opposite order."""
    order = -1 if backwards else 1
    inputs = sweep_inputs()
    spec = SweepSpec.model_validate(SPEC)
    sweep = make_sweep(spec, id="swp_test", created_at=1e9)
    tune = [trial for trial in inputs.trials if trial.stage is Stage.TUNE]
    confirm = [trial for trial in inputs.trials if trial.stage is Stage.CONFIRM]
    pending = {"state": TrialState.PENDING, "step": 0, "attempts": 0, "started_at": None, "ended_at": None}
    store.create_sweep(sweep, inputs.configs[::order], [trial.model_copy(update=pending) for trial in tune[::order]])
    _, fence = claimed(store)
    store.set_sweep_state(fence, SweepState.RUNNING)
    store.add_configs(fence, [], [trial.model_copy(update=pending) for trial in confirm[::order]])
    for trial in inputs.trials[::order]:
        attempt = store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
        events: dict[tuple[str, int], dict[str, Any]] = {}
        for key in ("entropy", "reward/mean", "eval/avg_at_k"):
            kind = "evaluation" if key.startswith("eval/") else "step"
            series = inputs.get(trial.id, key)
            assert series is not None
            for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
                event = {"type": kind, "step": step, "time": 1e9 + step, "metrics": {}}
                events.setdefault((kind, step), event)["metrics"][key] = value
        store.ingest(fence, attempt, 0, 100, list(events.values()))
        store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, 3)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    return sweep.id


@pytest.mark.both_databases
def test_a_report_is_built_from_the_store_and_kept(store: Store, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, mlflow_url="http://127.0.0.1:5000")
    sweep_id = fill(store)
    digest, contents, _ = build_report(store, sweep_id, settings)
    assert set(contents) == {"html", "json", "md", "csv", "png", "svg", "verdict", "yaml"}
    assert build_report(store, sweep_id, settings) == (digest, contents, True)
    report = Report.model_validate_json(contents["json"])
    assert report == build(gather(store, sweep_id, settings))
    assert report.inputs_digest == digest
    assert report.verdict.outcome == "ALIKE ON THESE PROBLEMS"
    assert "torch" in report.versions
    store.put_report(sweep_id, digest, contents, page_script())
    assert {format_: store.get_report(sweep_id, format_) for format_ in contents} == contents
    assert store.report_digest(sweep_id) == digest
    assert store.ruined_trials(sweep_id) == {trial.id for trial in report.trials if trial.ruined} != set()
    with store.engine.connect() as connection:
        stored = connection.execute(select(func.sum(func.length(tables.reports.c.content)))).scalar_one()
    assert stored < sum(map(len, contents.values())) / 10  # the script of the page is elsewhere, once for all reports


@pytest.mark.long
def test_the_same_rows_give_the_same_bytes_in_whatever_order_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.store.trial_rows.time.time", lambda: 1_790_000_000.0)
    settings = Settings(home=tmp_path)
    built = set[str]()
    for name, backwards in (("one", False), ("other", True)):
        store = open_store(f"sqlite:///{tmp_path / name}.db")
        sweep_id = fill(store, backwards=backwards)
        built.add(repr(build_report(store, sweep_id, settings)))
        store.close()
    assert len(built) == 1


KEYS = ("entropy", "reward/mean", "grad_norm", "eval/avg_at_k", "eval/pass_at_k")


def test_series_hold_what_was_recorded(store: Store) -> None:
    sweep, fence = start(store)
    trials = store.list_trials(sweep.id)
    for trial in trials[:2]:
        attempt = store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
        events = [
            recorded("step", 1, {"entropy": 1.0, "reward/mean": None, "grad_norm": None}),
            recorded("step", 2, {"entropy": 0.1 + 0.2, "reward/mean": 0.5, "grad_norm": None}),
            recorded("evaluation", 2, {"eval/avg_at_k": 1 / 3, "eval/distinct_answers": 3.0}),
        ]
        store.ingest(fence, attempt, 0, 10, events)
        store.ingest(fence, attempt, 10, 20, [recorded("step", 3, {"entropy": 0.9, "loss": 7.0})])
    one, two = store.series(sweep.id, KEYS)
    assert [one.trial_id, two.trial_id] == [trials[0].id, trials[1].id]
    assert sorted(one.metrics) == ["entropy", "eval/avg_at_k", "reward/mean"]
    assert one.steps.tolist() == [1, 2, 3]
    assert one.metrics["entropy"].tolist() == [1.0, 0.1 + 0.2, 0.9]
    np.testing.assert_array_equal(one.metrics["reward/mean"], [np.nan, 0.5, np.nan])
    assert (one.eval_steps.tolist(), one.eval_times.tolist()) == ([2], [1e9 + 2])
    assert one.metrics["eval/avg_at_k"].tolist() == [1 / 3]


@pytest.mark.both_databases
def test_of_a_repeated_step_the_newest_attempt_stands(store: Store) -> None:
    sweep, fence = start(store)
    trial = store.list_trials(sweep.id)[0]
    for number, parts in enumerate(([[1, 2, 3], [4, 5]], [[3, 4]]), 1):  # no part begins where another one does
        attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
        for at, steps in enumerate(parts):
            events = [recorded("step", step, {"entropy": number + step / 10}) for step in steps]
            store.ingest(fence, attempt, 10 * at, 10 * at + 10, events)
        store.finish_attempt(fence, attempt, Ending.CRASHED, None, max_crashes=3)
    (found,), (curve,) = store.series(sweep.id, KEYS), store.curves(sweep.id, ["share/selected", "entropy"])
    assert found.steps.tolist() == curve.steps == [1, 2, 3, 4, 5]
    assert found.metrics["entropy"].tolist() == curve.values == pytest.approx([1.1, 1.2, 2.3, 2.4, 1.5])
    assert (found.eval_steps.size, found.eval_times.size) == (0, 0)


def test_a_report_knows_how_often_its_confirm_results_could_be_looked_at(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store, seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": [7]}})
    settings = Settings(home=tmp_path)
    for trial in store.list_trials(sweep.id):
        run_trial(store, fence, trial)
    finish(store, fence)
    store.put_report(sweep.id, "first", {"md": b""}, compares=True)
    assert gather(store, sweep.id, settings).looks == 1
    SweepService(store, settings).extend(sweep.id, {"seeds": {"confirm": {"top_k": 1, "seeds": [7, 8]}}})
    assert gather(store, sweep.id, settings).looks == 2


def test_a_page_that_asks_for_reports_all_the_time_adds_one_event_until_somebody_chooses(
    store: Store, tmp_path: Path
) -> None:
    sweep, _ = start(store)
    service, compared = SweepService(store, Settings(home=tmp_path)), list[int]()

    def show(digest: str, *, compares: bool = True) -> None:
        store.put_interim_report(sweep.id, digest, {"md": digest.encode()}, compares=compares)
        compared.append([event.type for event in store.list_events(sweep.id)].count(COMPARED))

    show("nothing", compares=False)
    show("one")
    show("two")
    service.extend(sweep.id, {"resources": {"max_parallel": 1}})
    show("three")
    service.stop_trial(store.list_trials(sweep.id)[0].id, counts=False)
    show("four")
    assert (compared, looks(store.list_events(sweep.id))) == ([0, 1, 1, 2, 3], 2)


def test_whoever_builds_a_report_tells_that_it_compares_confirm_results(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    sweep_id = fill(store)
    assert process._answer(settings, sweep_id, interim=False) == {"kept": True}
    assert [event.type for event in store.list_events(sweep_id)][-1] == COMPARED
    store.close()


def test_a_report_reads_the_attempts_of_trials_that_were_begun_again(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store)
    again, once = store.list_trials(sweep.id)[:2]
    for trial in (again, once, again):
        one_attempt(store, fence, trial.id, Ending.CRASHED, more_held_s=5.0)
    inputs = gather(store, sweep.id, Settings(home=tmp_path / "h"))
    found = [(one.trial_id, one.number, one.held_s) for one in inputs.attempts]
    assert found == [(again.id, 1, 5.0), (again.id, 2, 5.0)]


def recorded(kind: str, step: int, metrics: dict[str, float | None]) -> dict[str, Any]:
    """An event of a trainer."""
    return {"type": kind, "step": step, "time": 1e9 + step, "metrics": metrics}


@pytest.mark.both_databases
def test_only_sweeps_of_our_trainer_have_answers_and_validation_problems_for_others(store: Store) -> None:
    """What a program calls `task` is not what our trainer calls so, and its empty settings are not our defaults."""
    training = {"task": {"validation": {"benchmark": "aime_2024"}}}
    trainer = {"command": ["/opt/trainer"], "steps": 16}
    own = submit(store, training=training, trainer=trainer, space={"beta": [0, 1]}, baselines={})
    ours, later = submit(store), submit(store)
    for sweep in (own, ours):
        store.put_report(sweep.id, "digest", {"verdict": b"{}"})
    assert [id_ for id_, _ in store.answered(later.id)] == [ours.id]
    sweep, fence = claimed(store)
    store.set_sweep_state(fence, SweepState.RUNNING)
    assert sweep.id == own.id
    assert store.validated_on(["aime_2024"], before=later.id) == []
