"""Whatever is killed, sweeps go on and finish, no finished trial runs again, and nothing is left running."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
import pytest

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.records import Attempt, AttemptOutcome, Sweep, SweepState, TrialState
from tests.slow_motion import caught_beyond
from tests.sweep_stack import SMALL_TRAINING, alive, one_of, processes_of, serving, small_sweep
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

STEPS = 48


def kill_a_trainer(store: Store, sweep_id: str) -> None:
    """Kill a trainer in the middle of its run, and wait until its attempt has crashed."""
    trial_id = store.list_trials(sweep_id)[0].id
    (trainer,) = caught_beyond(store, [trial_id], 0)
    trainer.kill()
    wait_until("it has crashed", lambda: store.attempts_of(trial_id)[0].outcome is AttemptOutcome.CRASHED)


@pytest.mark.usefixtures("forked_sweeps")
def test_a_sweep_outlives_the_end_of_everything(settings: Settings) -> None:
    training_config = SMALL_TRAINING | {"steps": STEPS, "checkpoint_every_rollouts": 4}
    seeds = {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [7]}}
    raw = small_sweep("kills", training=training_config, seeds=seeds, resources={})
    store = open_store(settings.database_url)
    with serving(settings) as serve:
        with Client(settings.url, read_token(settings.token_file)) as client:
            sweep = client.submit(raw)
        kill_a_trainer(store, sweep.id)
        (trainer,) = caught_beyond(store, [store.list_trials(sweep.id)[0].id], 0)
        everything = [*processes_of(settings.home), *trainers(store, sweep.id)]
        trainer.go_on()
        serve.kill()
        serve.wait()
        wait_until("nothing survives serve", lambda: not any(map(alive, [*everything, *processes_of(settings.home)])))
    with serving(settings):  # the same command
        wait_until("the sweep has ended", lambda: store.get_sweep(sweep.id).state.is_over)
    check(store, store.get_sweep(sweep.id))
    store.close()


def trainers(store: Store, sweep_id: str) -> list[psutil.Process]:
    """Return the trainers that run, which as forks have another environment than the stack's."""
    found = list[psutil.Process]()

    def are_known() -> bool:
        pids = [attempt.pid for attempt in store.list_attempts(sweep_id, running_only=True)]
        found[:] = [psutil.Process(pid) for pid in pids if pid is not None and psutil.pid_exists(pid)]
        return bool(found)

    wait_until("the runner knows its trainers", are_known)
    return found


def check(store: Store, sweep: Sweep) -> None:
    """The sweep has succeeded, and every trial exactly once, in its last attempt."""
    assert (sweep.state, sweep.message) == (SweepState.SUCCEEDED, None)
    trials = store.list_trials(sweep.id)
    assert {trial.state for trial in trials} == {TrialState.SUCCEEDED}
    attempts = store.list_attempts(sweep.id)
    assert Counter(a.trial_id for a in attempts if a.outcome is AttemptOutcome.SUCCEEDED) == {t.id: 1 for t in trials}
    assert all(a.outcome in (AttemptOutcome.CRASHED, AttemptOutcome.LOST, AttemptOutcome.SUCCEEDED) for a in attempts)
    assert all(
        a.outcome is AttemptOutcome.SUCCEEDED
        for a in attempts
        if a.number == max(b.number for b in attempts if b.trial_id == a.trial_id)
    )
    assert sum(a.outcome is AttemptOutcome.CRASHED for a in attempts) == 1
    for curve in store.curves(sweep.id, ["loss"]):
        assert curve.steps == list(range(1, STEPS + 1))


class Fallen(NamedTuple):
    """What was seen after a process had been killed."""

    name: str
    gone_s: float
    """Seconds until nothing that it had below itself was left."""
    on_s: float
    """Seconds until both sweeps had made an update that was computed after the kill."""
    unready: Counter[int]
    """How often `/readyz`, asked twice a second, did not say 200; 0: it did not answer."""


def named(*words: str) -> Callable[[Path, Attempt], psutil.Process]:
    return lambda home, _: one_of(home, *words)


def rays(title: str) -> Callable[[Path, Attempt], psutil.Process]:
    """A child of the raylet, which has given itself this title and hides its environment behind it."""

    def find(home: Path, _: Attempt) -> psutil.Process:
        children = one_of(home, "raylet/raylet").children()
        return next(child for child in children if " ".join(child.cmdline()).startswith(title))

    return find


def keeper(*words: str, lower: bool = False) -> Callable[[Path, Attempt], psutil.Process]:
    """The upper or the lower half of the keeper above the program with these words."""

    def find(home: Path, _: Attempt) -> psutil.Process:
        half = one_of(home, *words).parent()
        upper = None if half is None else half.parent()
        assert half is not None
        assert upper is not None
        return half if lower else upper

    return find


def above_trainer(places: int) -> Callable[[Path, Attempt], psutil.Process]:
    """The trainer's process, or the one so many places above it."""

    def find(_: Path, attempt: Attempt) -> psutil.Process:
        assert attempt.pid is not None
        trainer = psutil.Process(attempt.pid)
        return [trainer, *trainer.parents()][places]

    return find


RAY_START = ("import sys; from ray.scripts.scripts import main; sys.exit(main())",)
VICTIMS: dict[str, Callable[[Path, Attempt], psutil.Process]] = {
    "trainer": above_trainer(0),
    "lower keeper of the trainer": above_trainer(1),
    "what forks trainers, their upper keeper": above_trainer(2),
    "actor": rays("ray::trial-"),
    "runner": named("sweep_service.runner"),
    "worker": named("sweep_service", "worker"),
    "upper keeper of the worker": keeper("sweep_service", "worker"),
    "lower keeper of the worker": keeper("sweep_service", "worker", lower=True),
    "api": named("sweep_service", "api"),
    "upper keeper of the api": keeper("sweep_service", "api"),
    "lower keeper of the api": keeper("sweep_service", "api", lower=True),
    "mlflow server": named("mlflow", "server"),
    "uvicorn below mlflow server": named("uvicorn"),
    "upper keeper of mlflow": keeper("mlflow", "server"),
    "lower keeper of mlflow": keeper("mlflow", "server", lower=True),
    "ray start": named(*RAY_START),
    "upper keeper of ray": keeper(*RAY_START),
    "lower keeper of ray": keeper(*RAY_START, lower=True),
    "gcs_server": named("gcs/gcs_server"),
    "raylet": named("raylet/raylet"),
    "DashboardAgent": rays("ray::DashboardAgent"),
    "RuntimeEnvAgent": rays("ray::RuntimeEnvAgent"),
    "dashboard": named("dashboard/dashboard.py"),
}
OFTEN = ("lower keeper of the trainer", "runner", "upper keeper of mlflow", "DashboardAgent")
"""Those that are killed at every run of the long tests; the end of an agent is that of the raylet, too."""


@pytest.mark.usefixtures("forked_sweeps")
def test_nothing_is_left_of_what_is_killed_and_both_sweeps_go_on(settings: Settings) -> None:
    check_fallen(kill_in_turn(settings, OFTEN))


@pytest.mark.hunt
def test_each_process_of_an_installation_may_be_killed(settings: Settings) -> None:
    """Prints the table with `pytest -s`."""
    fallen = kill_in_turn(settings, VICTIMS)
    lines = [f"{'killed':42}{'gone after':>11}{'on after':>10}  /readyz meanwhile"]
    for name, gone_s, on_s, unready in fallen:
        said = ", ".join(f"{count} x {code or 'no answer'}" for code, count in sorted(unready.items())) or "200"
        lines.append(f"{name:42}{gone_s:9.1f} s{on_s:8.1f} s  {said}")
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    check_fallen(fallen)


def check_fallen(fallen: Sequence[Fallen]) -> None:
    assert [one.name for one in fallen if one.gone_s > 10] == []


def kill_in_turn(settings: Settings, names: Iterable[str]) -> list[Fallen]:
    """Kill each of these under two running sweeps, once both have gone on after the one before."""
    fallen, store = list[Fallen](), open_store(settings.database_url)
    with serving(settings):
        with Client(settings.url, read_token(settings.token_file)) as client:
            training = SMALL_TRAINING | {"steps": 400_000, "evaluation": {"every_steps": 400_000}}
            sweeps = [client.submit(small_sweep(name, training=training)).id for name in ("one", "other")]
        for name in names:
            began = time.time()
            wait_until("both sweeps train", lambda began=began: all(trained_since(store, id_, began) for id_ in sweeps))
            (attempt,) = store.list_attempts(sweeps[0], running_only=True)
            fallen.append(killed(settings, store, sweeps, name, VICTIMS[name](settings.home, attempt)))
    store.close()
    return fallen


def killed(settings: Settings, store: Store, sweeps: Sequence[str], name: str, victim: psutil.Process) -> Fallen:
    below, began = victim.children(recursive=True), time.time()
    unready, over = Counter[int](), threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            if (code := readiness(settings)) != 200:
                unready[code] += 1

    looking = threading.Thread(target=look)
    victim.kill()
    looking.start()
    try:
        wait_until(f"nothing is left below {name}", lambda: not any(map(alive, below)))
        gone_s = time.time() - began
        wait_until(f"both go on after {name}", lambda: all(trained_since(store, id_, began) for id_ in sweeps))
        on_s = time.time() - began
        wait_until(f"all is ready after {name}", lambda: readiness(settings) == 200)
    finally:
        over.set()
        looking.join()
    return Fallen(name, gone_s, on_s, unready)


def readiness(settings: Settings) -> int:
    try:
        return httpx.get(f"{settings.url}/readyz", timeout=1).status_code
    except httpx.HTTPError:
        return 0


def trained_since(store: Store, sweep_id: str, when: float) -> bool:
    """Whether the sweep has an update that was made after this time."""
    sweep = store.get_sweep(sweep_id)
    assert not sweep.state.is_over, (sweep.state, sweep.message)
    return any(max(curve.times, default=0) > when for curve in store.curves(sweep_id, ["loss"]))
