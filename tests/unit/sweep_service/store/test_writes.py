"""Every method of the store that writes: it changes rows of its own sweep alone, and none once its lease is lost."""

import inspect
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import select

from sweep_service.errors import StaleEpoch
from sweep_service.intake.spec_check import parse_spec
from sweep_service.store import Fence, Store, open_store, tables
from sweep_service.store.database import open_engine
from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import (
    Attempt,
    Config,
    CostProbe,
    Evaluation,
    Judgement,
    ProbeState,
    Sweep,
    SweepState,
    Trial,
    TrialWarning,
)
from sweep_service.sweep.shares import Part
from sweep_service.sweep.sweep_filter import SweepFilter
from tests import stored_sweeps as sweeps

LEASE_S = 3600
ONE = Part(1, 0)
NEW = "swp_new"
VERB = ["self", "sweep_id", "by"]
"""Parameters of a request that takes nothing but a sweep, and who asked."""
READS = re.findall(
    r"\w+",
    """
    answered attempts_of behind benchmark_results chunks_behind close count_rows count_runs count_trials crashed_probes
    curves deletions deletions_in_mlflow dropped_running evaluations_behind events_offset find_probe find_report
    get_report get_sweep get_trial get_work has_lease is_held judged_samples judgements kept_models last_event
    last_points last_probe last_samples list_attempts list_configs list_evaluations list_events list_samples list_sweeps
    list_trials metric_keys new_points newest_checkpoint newest_checkpoints next_late open_deletions problem_counts
    projectable projecting projection_left projections_requested report_digest report_failure report_requested
    ruined_trials samples_at seconds_per_step series shares spent stops stored_reports sweep_runs sweeps_behind
    trial_series unclaimed validated_on versions
    """,
)


class Scene(NamedTuple):
    """A sweep with everything that a store may hold of one."""

    fence: Fence
    done: Trial
    running: Trial
    waiting: Trial
    attempt: Attempt
    """The running attempt of `running`."""
    measured: Evaluation
    pending: Evaluation
    probe: CostProbe

    @property
    def id(self) -> str:
        return self.fence.sweep_id


def recorded(first: int = 1) -> list[dict[str, Any]]:
    """Return events of every kind that a trainer writes, from a step on."""
    at, counts = {"time": sweeps.START}, {"digest": "two", "judged": 4, "right": [1, 2]}
    sample = {"prompt": "7=", "completion": "3+4", "reward": 1.0}
    return [
        {"type": "started", "versions": {"torch": "2.13.0"}} | at,
        {"type": "problems", "digest": "two", "names": ["a", "b"]} | at,
        *sweeps.training_events(first, 16),
        {"type": "evaluation", "step": 17, "metrics": {"eval/avg_at_k": 0.5}, "problems": counts} | at,
        {"type": "samples", "step": 8, "samples": [sample]} | at,
        {"type": "checkpoint", "step": 8, "path": "/data/model-8", "model_only": True} | at,
        {"type": "checkpoint", "step": 16, "path": "/data/step-16"} | at,
        sweeps.warning_event("BETAS_NEARLY_INERT", 8),
        sweeps.finished_event({"eval/avg_at_k": 0.4}),
    ]


def play(store: Store, name: str) -> Scene:
    """Store a sweep that runs, and all that may be known of it."""
    benchmarks = {"names": ["arithmetic", "expressions"], "of": "all", "at": [8, 16]}
    spec = parse_spec(sweeps.SPEC | {"name": name, "benchmarks": benchmarks})
    sweep = sweeps.make_sweep(spec)
    store.create_sweep(sweep, *first_records(spec, sweep.id), (f"key of {name}", "request"))
    claimed = store.claim("test", LEASE_S)
    assert claimed is not None
    fence = Fence(claimed.id, claimed.epoch)
    store.set_sweep_state(fence, SweepState.RUNNING)
    done, running, waiting, *_ = store.list_trials(sweep.id)
    attempt = store.start_attempt(fence, done.id, "/data/{attempt}")
    sweeps.ingest(store, fence, attempt, recorded())
    store.set_process(fence, attempt, "node", 4321, 77.5)
    store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, 3, 12.5)
    attempt = store.start_attempt(fence, running.id, "/data/{attempt}")
    sweeps.ingest(store, fence, attempt, [*sweeps.training_events(1, 4)])
    store.set_held(fence, attempt, 2.5)
    store.request_stop(running.id, counts=True)
    store.judge(fence, [judgement(done.config_id, dropped=False)])
    measured, pending, _ = sweeps.add_missing_evaluations(store, fence)
    sweeps.measure(store, fence, measured, {"arithmetic": 2})
    probe = store.start_probe(fence, "shape", "CPU", {}, 0.5)
    store.set_sweep_run(sweep.id, "7", f"run of {name}")
    store.set_sweep_projected(sweep.id, "RUNNING", None)
    for trial in (done, running):
        store.set_trial_run(trial.id, f"run of trial {trial.number} of {name}")
        store.set_projected(trial.id, curve_id=1, state="RUNNING")
    store.set_results_projected(measured.id, 1)
    store.request_projection([sweep.id])
    for digest in ("one", "two"):
        store.put_report(sweep.id, digest, {"md": name.encode()})
    store.put_interim_report(sweep.id, "three", {"md": name.encode()})
    store.set_report_failure(sweep.id, f"no room for {name}")
    store.wait_in_turn(fence, ONE, 2)
    store.say_what_delays(fence, f"{name} waits")
    return Scene(fence, done, running, waiting, attempt, measured, pending, probe)


def end(store: Store, scene: Scene) -> None:
    """End a sweep one of whose trials has failed."""
    store.finish_attempt(scene.fence, scene.attempt, Ending.FAILED, "no memory", 3)
    store.finish_probe(scene.fence, scene.probe, ProbeState.FAILED, 7.5, message="no memory")
    sweeps.finish(store, scene.fence)
    store.release_lease(scene.fence)
    store.put_report(scene.id, "four", {"md": b"final"})
    store.set_report_failure(scene.id, "no room")


def judgement(config_id: str, *, dropped: bool) -> Judgement:
    return Judgement(config_id=config_id, dropped=dropped, seed=None, mark=3, value=-0.1, bound=-0.05, message="worse")


def config_of(store: Store, scene: Scene) -> Config:
    return store.list_configs(scene.id)[0].model_copy(update={"id": "cfg_new", "number": 99})


def new_sweep(store: Store) -> Sweep:
    sweep = sweeps.make_sweep(parse_spec(sweeps.SPEC), id=NEW)
    return store.create_sweep(sweep, *first_records(sweep.spec, NEW), ("new key", "request"))


def removed(store: Store, scene: Scene, *, keep_report: bool) -> None:
    store.remove_rows(store.request_deletion(scene.id, keep_report=keep_report))


Write = Callable[[Store, Scene], object]
ENDED: Mapping[str, Write] = {
    "give_more": lambda store, own: store.give_more(
        (sweep := store.get_sweep(own.id)), sweep.spec, [own.running.id], "sweep.trials_retried", {}
    ),
    "open_again": lambda store, own: store.open_again(
        store.get_sweep(own.id), AddedBenchmarks(names=("gsm8k",), trials=(own.done.id,)), {own.measured.id: 3}
    ),
    "put_report": lambda store, own: store.put_report(own.id, "two", {"md": b"again"}),
    "remove_rows of a deleted sweep": lambda store, own: removed(store, own, keep_report=False),
    "remove_rows of an archived sweep": lambda store, own: removed(store, own, keep_report=True),
    "request_deletion": lambda store, own: store.request_deletion(own.id, keep_report=True),
    "request_report": lambda store, own: store.request_report(own.id),
    "set_deletion_hindered": lambda store, own: store.set_deletion_hindered(own.id, "the disk is away"),
    "set_files_deleted": lambda store, own: store.set_files_deleted(own.id),
    "set_mlflow_deleted": lambda store, own: store.set_mlflow_deleted(own.id),
}


def public_methods() -> dict[str, Callable[..., Any]]:
    methods = inspect.getmembers(Store, inspect.isfunction)
    return {name: method for name, method in methods if not name.startswith("_")}


def requests() -> dict[str, Write]:
    """Return the verbs that take nothing but a running sweep, each as an example of itself."""
    verbs = {name for name, method in public_methods().items() if [*signature(method).parameters] == VERB}
    return {name: lambda store, own, name=name: getattr(store, name)(own.id) for name in sorted(verbs - ENDED.keys())}


RUNNING: Mapping[str, Write] = {
    "add_configs": lambda store, own: store.add_configs(own.fence, [config_of(store, own)], []),
    "add_evaluations": lambda store, own: store.add_evaluations(
        own.fence, [own.pending.model_copy(update={"id": "evl_new", "number": 2_000_000, "model_step": 99})]
    ),
    "claim": lambda store, _: store.claim("next", LEASE_S),
    "claim_final_report": lambda store, _: store.claim_final_report("next", LEASE_S),
    "create_sweep": lambda store, _: new_sweep(store),
    "end_waiting": lambda store, own: store.end_waiting(own.fence, Ending.CANCELLED),
    "finish_attempt": lambda store, own: store.finish_attempt(own.fence, own.attempt, Ending.SUCCEEDED, None, 3, 1.0),
    "finish_probe": lambda store, own: store.finish_probe(own.fence, own.probe, ProbeState.FAILED, 9.0),
    "forget_projection": lambda store, own: store.forget_projection(own.id),
    "ingest": lambda store, own: store.ingest(
        own.fence, own.attempt, offset := store.events_offset(own.attempt), offset + 9, recorded(first=5)
    ),
    "judge": lambda store, own: store.judge(own.fence, [judgement(own.waiting.config_id, dropped=True)]),
    "lose_probe": lambda store, own: store.lose_probe(own.fence, 1.0),
    "mark_probe": lambda store, own: store.mark_probe(own.fence, own.probe, 9.0, ["sampling"]),
    "put_interim_report": lambda store, own: store.put_interim_report(own.id, "new", {"md": b"new"}),
    "release_lease": lambda store, own: store.release_lease(own.fence),
    "renew_lease": lambda store, own: store.renew_lease(own.fence, 2 * LEASE_S),
    "request_projection": lambda store, own: store.request_projection([own.id]),
    "request_stop of a running trial": lambda store, own: store.request_stop(own.running.id, counts=False),
    "request_stop of a waiting trial": lambda store, own: store.request_stop(own.waiting.id, counts=True),
    "reuse_probe": lambda store, own: store.reuse_probe(own.fence, own.probe),
    "say_what_delays": lambda store, own: store.say_what_delays(own.fence, None),
    "set_held": lambda store, own: store.set_held(own.fence, own.attempt, 9.0),
    "set_process": lambda store, own: store.set_process(own.fence, own.attempt, "host", 1, 1.0),
    "set_projected": lambda store, own: store.set_projected(own.running.id, curve_id=2, state="FAILED"),
    "set_report_failure": lambda store, own: store.set_report_failure(own.id, "KeyError"),
    "set_results_projected": lambda store, own: store.set_results_projected(own.pending.id, 2),
    "set_sweep_projected": lambda store, own: store.set_sweep_projected(own.id, "FAILED", "two"),
    "set_sweep_run": lambda store, own: store.set_sweep_run(own.id, "8", "another"),
    "set_sweep_state": lambda store, own: store.set_sweep_state(own.fence, SweepState.FINALIZING),
    "set_trial_run": lambda store, own: store.set_trial_run(own.running.id, "another"),
    "start_attempt": lambda store, own: store.start_attempt(own.fence, own.waiting.id, "/data/{attempt}"),
    "start_in_turn": lambda store, own: store.start_in_turn(
        own.fence, own.waiting.id, "/data/{attempt}", ONE, 2, lambda _: True
    ),
    "start_probe": lambda store, own: store.start_probe(own.fence, "shape", "CPU", {}, 0.5),
    "take_wanted_report": lambda store, _: store.take_wanted_report([]),
    "set_signs": lambda store, own: store.set_signs(
        own.fence,
        own.running.id,
        [TrialWarning(code="DEAD_GROUPS", message="no", evidence={}, step=4, is_sign=True)],
        pause_for="a sign",
    ),
    "wait_in_turn": lambda store, own: store.wait_in_turn(own.fence, None),
    "want_report": lambda store, own: store.want_report(own.id),
} | requests()
WRITES = RUNNING | ENDED


def finalizing(store: Store, own: Scene) -> None:
    store.set_sweep_state(own.fence, SweepState.FINALIZING)
    store.release_lease(own.fence)


def deletions_asked(store: Store, own: Scene) -> None:
    """Have all sweeps that have ended archived."""
    for sweep in store.list_sweeps(99, only=SweepFilter(states=(SweepState.SUCCEEDED,))):
        store.request_deletion(sweep.id, keep_report=True)


BEFORE: Mapping[str, Write] = {
    "claim": lambda store, own: store.release_lease(own.fence),
    "claim_final_report": finalizing,
    "request_projection": lambda store, own: store.forget_projection(own.id),
    "request_resume": lambda store, own: store.request_pause(own.id),
    "take_wanted_report": lambda store, own: store.want_report(own.id),
} | dict.fromkeys(("set_deletion_hindered", "set_files_deleted", "set_mlflow_deleted"), deletions_asked)
"""Preparation of a write, so that it changes something."""

Rows = dict[str, list[str]]


def rows(store: Store, *own: str) -> tuple[Rows, Rows]:
    """Return all rows by table: those of these sweeps, and those of others or of none."""
    with store.engine.connect() as connection:
        owner = {trial.id: trial.sweep_id for trial in connection.execute(select(tables.trials))}
        own_rows, others = Rows(), Rows()
        for table in tables.metadata.sorted_tables:
            for row in map(dict, connection.execute(select(table)).mappings()):
                trial_id = row.get("trial_id", row.get("evaluation_id"))
                sweep_id = row.get("sweep_id", owner.get(trial_id or "", row.get("id")))
                (own_rows if sweep_id in own else others).setdefault(table.name, []).append(repr(row))
    return own_rows, others


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scene, Scene]:
    """The file of a store with two sweeps that run and two that have ended; the older one of each."""
    file = tmp_path_factory.mktemp("played") / "store.db"
    store = open_store(f"sqlite:///{file}")
    ended = [play(store, name) for name in ("ended", "ended-too")]
    for scene in ended:
        end(store, scene)
    running = [play(store, name) for name in ("running", "running-too")]
    filled = rows(store, *(scene.id for scene in (*running, *ended)))[0].keys()
    assert filled >= {table.name for table in tables.metadata.sorted_tables} - {"deletions", "report_parts"}
    store.close()
    return file, running[0], ended[0]


@pytest.fixture
def copied(played: tuple[Path, Scene, Scene], tmp_path: Path) -> Iterator[Store]:
    """A copy of that store."""
    store = Store(open_engine(f"sqlite:///{shutil.copy(played[0], tmp_path)}"))
    yield store
    store.close()


def method_of(example: str) -> str:
    return example.partition(" ")[0]


FENCED = [name for name, method in public_methods().items() if "fence" in signature(method).parameters]


def test_every_public_method_reads_or_has_an_example_here() -> None:
    assert sorted(READS + sorted({method_of(example) for example in WRITES})) == sorted(public_methods())
    assert set(FENCED) - {method_of(example) for example in RUNNING} == {"has_lease"}


@pytest.mark.parametrize("example", WRITES)
def test_a_write_changes_its_own_sweep_and_no_row_of_another(
    copied: Store, played: tuple[Path, Scene, Scene], example: str
) -> None:
    own = played[1 if example in RUNNING else 2]
    if example in BEFORE:
        BEFORE[example](copied, own)
    own_rows, others = rows(copied, own.id, NEW)
    WRITES[example](copied, own)
    changed, left = rows(copied, own.id, NEW)
    assert left == others
    assert changed != own_rows


def test_a_runner_that_lost_its_lease_changes_nothing(copied: Store, played: tuple[Path, Scene, Scene]) -> None:
    _, own, _ = played
    copied.release_lease(own.fence)
    assert copied.claim("next", LEASE_S) is not None
    before = rows(copied)
    for example in (one for one in RUNNING if method_of(one) in FENCED and one != "release_lease"):
        with pytest.raises(StaleEpoch, match="epoch 1"):
            pytest.fail(f"{example} returned {RUNNING[example](copied, own)}")
        assert rows(copied) == before, example
    copied.release_lease(own.fence)
    assert rows(copied) == before
