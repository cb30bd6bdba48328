"""What a runner does around Tune: it refuses what cannot be placed, and leaves no kept models on the disk."""

import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweep_service.runner import cluster, driver
from sweep_service.runner.cost_probe import ProbeStage
from sweep_service.runner.driver import run_sweep
from sweep_service.runner.lease import Lease
from sweep_service.runner.ledger import Ledger, Nothing
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Sweep, SweepState
from sweep_service.sweep.spec import Resources
from tests.stored_sweeps import start, submit


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster is connected to; nodes and wishes are looked at each time."""
    monkeypatch.setattr(driver, "connect", lambda *_: None)
    monkeypatch.setattr(driver, "demanded", nullcontext)
    monkeypatch.setattr(cluster, "COUNT_EVERY_S", -1.0)
    monkeypatch.setattr("sweep_service.runner.wishes.READ_EVERY_S", -1.0)


def has_nodes(monkeypatch: pytest.MonkeyPatch, *resources: dict[str, float]) -> list[dict[str, Any]]:
    """Let the cluster have living nodes with these resources; return the list that it reads."""
    nodes = [{"Alive": True, "Resources": dict(one)} for one in resources]
    monkeypatch.setattr(cluster.ray, "nodes", lambda: nodes)
    return nodes


def run_to_its_end(store: Store, home: Path, fence: Fence, **settings: Any) -> Sweep:
    """Return the sweep after its runner has ended."""
    run_sweep(store, Settings(home=home, **settings), fence, Lease(store, fence))
    return store.get_sweep(fence.sweep_id)


@pytest.mark.parametrize("allowed", ["", "python3 /other.py"])
def test_a_program_that_is_not_allowed_where_it_would_run_ends_the_sweep_before_anything_begins(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: str
) -> None:
    """Another operator's runner may have other permissions than the service that took the sweep."""
    trainer = {"command": ["python3", "/trainer.py"], "steps": 10}
    sweep, fence = start(store, trainer=trainer, training={}, space={"beta": [0, 1]}, baselines={})
    monkeypatch.setattr(driver, "connect", lambda *_: pytest.fail("it must not begin"))
    ended = run_to_its_end(store, tmp_path, fence, trainer_commands=allowed)
    assert ended.state is SweepState.FAILED
    assert ended.message == "SWEEPS_TRAINER_COMMANDS no longer allows the command of its trainer"
    assert not store.list_attempts(sweep.id)


def measured_on(**resources: float) -> dict[str, Any]:
    """Return what gives evaluations resources of their own."""
    return {"benchmarks": {"names": ["arithmetic"], "of": "all", "resources": resources}}


@pytest.mark.parametrize(
    ("changes", "asks", "place"),
    [
        ({"resources": {"cpus": 9}} | measured_on(), "a trial asks for 9 CPUs and 0 GPUs", "/resources"),
        (measured_on(cpus=9), "an evaluation asks for 9 CPUs and 0 GPUs", "/benchmarks/resources"),
        (measured_on(gpus=2), "an evaluation asks for 1 CPUs and 2 GPUs", "/benchmarks/resources"),
    ],
)
def test_a_sweep_of_which_a_part_fits_no_node_fails_when_it_has_waited_as_long_as_it_may(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], asks: str, place: str
) -> None:
    sweep, fence = start(store, budget={"max_wait_hours": 0}, **changes)
    has_nodes(monkeypatch, {"CPU": 8.0, "GPU": 1.0}, {"CPU": 64.0})[1]["Alive"] = False
    monkeypatch.setattr(driver, "_run_tune", lambda *_: pytest.fail("it must not begin"))
    ended = run_to_its_end(store, tmp_path, fence)
    assert ended.state is SweepState.FAILED
    said = f"{asks}, which no node of the Ray cluster has; lower {place}, or add"
    assert (ended.message or "").startswith(said)
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.CANCELLED}


def test_a_sweep_waits_for_a_node_and_says_so(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, fence = start(store, resources={"gpus": 4}, training={"steps": 16, "device_batch": 16}, probe="off")
    nodes, said, demands = has_nodes(monkeypatch, {"CPU": 8.0}), list[str | None](), list[float]()

    def sleep(_: float) -> None:
        said.append(store.get_sweep(sweep.id).message)
        nodes.append({"Alive": True, "Resources": {"CPU": 8.0, "GPU": 4.0}})

    @contextmanager
    def demanded(part: Resources) -> Generator[None]:
        demands.append(part.gpus)
        yield
        demands.append(0)

    monkeypatch.setattr(driver, "demanded", demanded)
    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    monkeypatch.setattr(driver, "_run_tune", lambda *_: store.request_cancel(sweep.id))
    ended = run_to_its_end(store, tmp_path, fence)
    asked = "a trial asks for 1 CPUs and 4 GPUs, which no node of the Ray cluster has"
    assert said == [f"{asked}; the sweep begins as soon as one does"]
    assert demands == [4, 0]
    assert (ended.state, ended.message) == (SweepState.CANCELLED, None)


def test_a_sweep_waits_as_long_as_it_may_by_now(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extension that comes while it waits for a node counts, as does one that comes in the last moment."""
    sweep, fence = start(store, resources={"cpus": 9}, budget={"max_wait_hours": 1})
    service, now = SweepService(store, Settings(home=tmp_path)), [0.0]

    def sleep(_: float) -> None:
        now[0] += 1800
        if now[0] == 1800:
            service.extend(sweep.id, {"budget": {"max_wait_hours": 3}})

    has_nodes(monkeypatch, {"CPU": 8.0})
    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    assert run_to_its_end(store, tmp_path, fence).state is SweepState.FAILED
    assert now[0] == 3 * 3600


def test_a_runner_that_waits_for_a_node_gives_way_to_a_sweep_that_fits_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(Exception):
        pass

    def leave() -> None:
        raise Gone

    _, fence = start(store, resources={"cpus": 9})
    lease, slept = Lease(store, fence), list[float]()
    monkeypatch.setattr(lease, "give_way", leave)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 20:
            submit(store, name="large", resources={"cpus": 10})
        if len(slept) == 30:
            submit(store, name="small")

    has_nodes(monkeypatch, {"CPU": 8.0})
    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: len(slept) / 2, sleep=sleep))
    with pytest.raises(Gone):
        run_sweep(store, Settings(home=tmp_path), fence, lease)
    assert len(slept) == 30
    store.release_lease(fence)
    claimed = [sweep.name for _ in range(3) if (sweep := store.claim("test", 60))]
    assert claimed == ["large", "small", "betas"]  # of the large one nobody knows yet that it fits no node


def test_a_sweep_whose_node_goes_away_waits_for_another_and_says_so(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, fence = start(store, probe="off")
    nodes, said = has_nodes(monkeypatch, {"CPU": 8.0}), list[str | None]()

    def sleep(_: float) -> None:
        said.append(store.get_sweep(sweep.id).message)
        store.request_cancel(sweep.id)

    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    monkeypatch.setattr(driver, "_run_tune", lambda *_: nodes.clear())
    run_to_its_end(store, tmp_path, fence)
    asked = "a trial asks for 1 CPUs and 0 GPUs, which no node of the Ray cluster has"
    assert said[0] == f"{asked}; the sweep begins as soon as one does"


def test_a_runner_that_must_end_at_once_kills_the_trainers_of_the_stage_that_it_is_in(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, fence = start(store)
    lease, killed = Lease(store, fence), list[str]()
    has_nodes(monkeypatch, {"CPU": 8.0})
    monkeypatch.setattr(ProbeStage, "kill_trainer", lambda _: killed.append("the probe's"))
    monkeypatch.setattr(ProbeStage, "run", lambda _: lease.abandon())
    monkeypatch.setattr(Ledger, "kill_trainers", lambda _: killed.append("the trials'"))
    monkeypatch.setattr(driver, "_run_tune", lambda *_: lease.abandon() or store.request_cancel(sweep.id))
    run_sweep(store, Settings(home=tmp_path), fence, lease)
    assert killed == ["the probe's", "the trials'"]


def test_models_kept_for_evaluations_alone_and_unfinished_ones_end_with_their_sweep(
    store: Store, tmp_path: Path
) -> None:
    sweep, fence = start(store, benchmarks={"names": ["arithmetic"], "of": "all", "at": [8, 12]})
    trial = store.list_trials(sweep.id)[0]
    for _ in range(2):
        attempt = store.start_attempt(fence, trial.id, str(tmp_path / trial.id / "{attempt}"))
        for name in ("model-8", "model-12", "step-12", "best-8", ".unfinished/model"):
            (folder := Path(attempt.directory) / name).mkdir(parents=True)
            (folder / "model.safetensors").write_bytes(b"weights")
        store.finish_attempt(fence, attempt, Ending.CRASHED, None, max_crashes=3)
    store.request_cancel(sweep.id)
    assert run_to_its_end(store, tmp_path, fence).state is SweepState.CANCELLED
    left = [{entry.name for entry in Path(attempt.directory).iterdir()} for attempt in store.list_attempts(sweep.id)]
    assert left == [{"step-12", "best-8"}] * 2


def test_a_sweep_that_is_extended_as_its_last_trial_ends_goes_on(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, fence = start(store)
    outlook, service = Ledger.outlook, SweepService(store, Settings(home=tmp_path))

    def extended(ledger: Ledger) -> Nothing | None:
        found = outlook(ledger)
        if found is Nothing.EVER:
            service.extend(sweep.id, {"seeds": {"tune": [0, 1, 2, 3]}})
        return found

    def run_tune(*arguments: Any) -> None:
        while not isinstance(arguments[3].next_job("a"), Nothing):
            arguments[3].complete("a", {"ending": "DIVERGED"})

    has_nodes(monkeypatch, {"CPU": 8.0})
    monkeypatch.setattr(driver, "_run_tune", run_tune)
    monkeypatch.setattr(Ledger, "outlook", extended)
    assert run_to_its_end(store, tmp_path, fence).state is SweepState.QUEUED


def test_a_sweep_that_only_fails_is_failed_and_says_why(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, fence = start(store, retries={"max_failed_trials": 1})

    def run_tune(*arguments: Any) -> None:
        ledger = arguments[3]
        ledger.next_job("a")
        ledger.complete("a", {"ending": "FAILED", "message": "the reward cannot be imported"})

    has_nodes(monkeypatch, {"CPU": 8.0})
    monkeypatch.setattr(driver, "_run_tune", run_tune)
    ended = run_to_its_end(store, tmp_path, fence)
    assert ended.state is SweepState.FAILED
    assert "the reward cannot be imported" in (ended.message or "")
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.FAILED, TrialState.CANCELLED}
