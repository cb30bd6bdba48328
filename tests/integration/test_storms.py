"""Storms of SIGTERM and SIGINT at every process of ours, at random moments: it ends in time and leaves nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from sweep_service.auth import ensure_token
from sweep_service.processes.child_processes import is_alive
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.records import SweepState
from sweep_service.sweep.sweep_filter import SweepFilter
from tests.integration.trainers.tiny_models import save_tiny_model
from tests.integration.trainers.trainer_runs import SMALL
from tests.stored_sweeps import submit
from tests.sweep_stack import SMALL_TRAINING, processes_of, small_sweep, submit_and_claim, unused_port
from tests.waiting import PATIENT_S, wait_until

SIGNALS, STORM_S = 25, 1.0
"""Number of signals of a storm, and within how many seconds they come."""
LEFT_BEHIND_S = 60.0
"""Seconds after its own end within which all that a process has started is gone, too."""
BY_SIGNALS = (128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM)


@dataclass
class Place:
    """A data folder of its own, and the environment of what is started there."""

    settings: Settings
    environment: dict[str, str]
    shared: Path
    """A folder for models, which all places of a test share."""

    @property
    def home(self) -> Path:
        return self.settings.home

    def start(self, *arguments: str, stdin: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
        """Start `python -m ARGUMENTS`, its lifeline on standard input."""
        with (self.home / "log").open("ab") as log:
            command = [sys.executable, "-m", *arguments]
            return subprocess.Popen(
                command, env=self.environment, stdin=stdin, stdout=log, stderr=log, start_new_session=True
            )

    def config(self, **changes: object) -> str:
        """Write the configuration of a training that would go on for long."""
        (self.home / "run.yaml").write_text(yaml.safe_dump({**SMALL, "steps": 96_000, **changes}))
        return str(self.home / "run.yaml")

    def train(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return self.start("trainers", *self.run(), *arguments)

    def run(self) -> list[str]:
        return [self.config(), "--output", str(self.home / "run"), "--cache", str(self.shared)]


def serve(place: Place) -> "subprocess.Popen[bytes]":
    return place.start("sweep_service", "serve")


def api(place: Place) -> "subprocess.Popen[bytes]":
    ensure_token(place.settings.token_file)
    return place.start("sweep_service", "api")


def worker(place: Place) -> "subprocess.Popen[bytes]":
    """A worker with a sweep to run, and reports to have built."""
    store = open_store(place.settings.database_url)
    for _ in range(3):
        store.request_cancel(submit(store).id)
    submit(store, training={**SMALL_TRAINING, "steps": 96_000})
    store.close()
    return place.start("sweep_service", "worker")


def runner(place: Place) -> "subprocess.Popen[bytes]":
    store = open_store(place.settings.database_url)
    fence = submit_and_claim(store, small_sweep("storm", training={**SMALL_TRAINING, "steps": 96_000}))
    store.close()
    return place.start("sweep_service.runner", fence.sweep_id, str(fence.epoch))


def report(place: Place) -> "subprocess.Popen[bytes]":
    store = open_store(place.settings.database_url)
    sweep_id = store.request_cancel(submit(store).id).id
    store.close()
    process = place.start("sweep_service.worker.reports.process")
    assert process.stdin is not None
    process.stdin.write(f'{{"sweep_id": "{sweep_id}", "interim": false, "patient": false}}\n'.encode() * 100)
    process.stdin.flush()
    return process


def trainer(place: Place) -> "subprocess.Popen[bytes]":
    return place.train()


def launcher(place: Place) -> "subprocess.Popen[bytes]":
    return place.train("device_batch=8", "--processes", "2")


def probe(place: Place) -> "subprocess.Popen[bytes]":
    return place.train("--probe")


def preview(place: Place) -> "subprocess.Popen[bytes]":
    return place.train("--preview", "--json")


def benchmark(place: Place) -> "subprocess.Popen[bytes]":
    model = place.shared / "model"
    if not model.exists():
        save_tiny_model(model)
    sampling = ("--samples", "4096", "--max-tokens", "200", "--batch", "4", "--reward", "number")
    output = str(place.home / "evaluations")
    return place.start(
        "trainers.benchmarks", "--model", str(model), "--benchmark", "arithmetic", "--output", output, *sampling
    )


def grader(place: Place) -> "subprocess.Popen[bytes]":
    process = place.start("trainers.grading")
    assert process.stdin is not None
    process.stdin.write(b'{"id": 1, "gold": "1/2", "answer": "0.5"}\n')
    process.stdin.flush()
    return process


# The keeper of vLLM's server, around a program with a worker in a session of its own, as vLLM has.
SERVER = """
import signal, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
time.sleep(600)
"""


def rollout_server(place: Place) -> "subprocess.Popen[bytes]":
    return place.start("trainers.process.keeper", sys.executable, "-c", SERVER)


def preloaded(place: Place) -> "subprocess.Popen[bytes]":
    """The process that forks trainers, with one of them."""
    process = place.start("sweep_service.runner.preloaded")
    assert process.stdin is not None
    request = json.dumps({"arguments": place.run(), "directory": str(place.home)}) + "\n"
    process.stdin.write(request.encode())
    process.stdin.flush()
    return process


def mlflow_door(place: Place) -> "subprocess.Popen[bytes]":
    """MLflow behind its door, below the keeper that `serve` puts above it."""
    place.environment["SWEEPS_MLFLOW_TOKEN_FILE"] = str(place.home / "mlflow-token")
    ensure_token(place.home / "mlflow-token")
    store = f"sqlite:///{place.home / 'mlflow.db'}"
    server = ("mlflow", "server", "--app-name", "sweeps", "--port", str(unused_port()), "--workers", "1")
    return place.start("trainers.process.keeper", sys.executable, "-m", *server, "--backend-store-uri", store)


@dataclass(frozen=True)
class Subject:
    """A process at which storms are sent."""

    start: Callable[[Place], "subprocess.Popen[bytes]"]
    latest_s: float
    """The latest moment after its start at which a storm begins: by then it works."""
    needs_ray: bool = False
    end: tuple[int, ...] = ()
    """Exit codes of its orderly end, or of another that is right."""
    brief: bool = False
    """Whether it ends by itself once its work is done, which on a fast machine may be before the storm."""


SUBJECTS: Mapping[str, Subject] = {
    "serve": Subject(serve, 40, end=(0,)),
    "api": Subject(api, 5, end=(0,)),
    "worker": Subject(worker, 25, needs_ray=True, end=(0,)),
    "runner": Subject(runner, 20, needs_ray=True, end=(-signal.SIGABRT,)),  # Ray aborts on a second SIGTERM
    "report": Subject(report, 8),
    "trainer": Subject(trainer, 15, end=(4,)),
    "launcher": Subject(launcher, 20, end=(4,)),
    "probe": Subject(probe, 15, end=(4,), brief=True),
    "preview": Subject(preview, 3, brief=True),
    "benchmark": Subject(benchmark, 12, end=(4,)),
    "grader": Subject(grader, 3),
    "rollout server": Subject(rollout_server, 1, end=(0,)),
    "preloaded": Subject(preloaded, 12),
    "MLflow's door": Subject(mlflow_door, 15, end=(0,)),
}
QUICK = ("api", "rollout server", "trainer")
"""Subjects of `make test`, one storm each; `make hunts` has several at each subject."""
STORMS = int(os.environ.get("STORMS", "2"))
"""Number of storms at each subject. Set the variable to have more."""


def place_of(folder: Path, moment_s: float, ray: Mapping[str, str]) -> Place:
    """Return a new place for the storm that begins at this moment after the start."""
    home, shared = folder / f"{moment_s:.6f}", folder / "shared"
    for path in (home, shared):
        path.mkdir(exist_ok=True)
    settings = Settings(home=home, port=unused_port(), ray_address=ray.get("SWEEPS_RAY_ADDRESS", ""))
    return Place(settings, {**os.environ, **ray, **settings.environment()}, shared)


def storm(process: "subprocess.Popen[bytes]", rng: random.Random) -> float:
    """Send many signals within a second; return when the first one was sent, on the monotonic clock."""
    began = time.monotonic()
    for moment in sorted(rng.uniform(0, STORM_S) for _ in range(SIGNALS)):
        time.sleep(max(0.0, began + moment - time.monotonic()))
        if process.poll() is not None:
            break
        process.send_signal(rng.choice((signal.SIGTERM, signal.SIGINT)))
    return began


def survive(subject: Subject, folder: Path, ray: Mapping[str, str], moment_s: float, rng: random.Random) -> float:
    """Start a process, send a storm at it, and judge its end; return the seconds from the first signal to its end."""
    place = place_of(folder, moment_s, ray)
    process = subject.start(place)
    try:
        time.sleep(moment_s)
        if subject.brief and process.poll() == 0:
            return survive(subject, folder, ray, moment_s / 2, rng)
        assert process.poll() is None, f"it ended by itself: {_log(place)}"
        began = storm(process, rng)
        code = process.wait(PATIENT_S)
        took = time.monotonic() - began
        wait_until("nothing is left", lambda: not _left(place), LEFT_BEHIND_S)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.kill()
        process.wait()
    log = _log(place)
    done = (0,) if subject.brief else ()  # the storm came when the work was just done
    assert code in (*BY_SIGNALS, *subject.end, *done) or "init_import_site" in log, (
        f"exit code {code}: {log}"
    )  # Python's start
    assert not (place.home / "address.json").exists()
    assert not (place.home / "ray-folder").exists()
    return took


def _left(place: Place) -> list[psutil.Process]:
    """Return what still lives of a place: processes with its folder in their environment, and trainers below Ray."""
    left = processes_of(place.home)
    database = place.home / "sweeps.db"
    if database.exists():
        store = open_store(place.settings.database_url)
        left += [psutil.Process(pid) for pid in _trainers(store) if psutil.pid_exists(pid)]
        store.close()
    return left


def _trainers(store: Store) -> list[int]:
    return [
        attempt.pid
        for sweep in store.list_sweeps(10, only=SweepFilter(states=(SweepState.RUNNING,)))
        for attempt in store.list_attempts(sweep.id)
        if attempt.pid is not None and is_alive(attempt.host, attempt.pid, attempt.pid_started_at)
    ]


def _log(place: Place) -> str:
    return (place.home / "log").read_text(errors="replace")[-3000:]


@pytest.mark.parametrize("name", QUICK)
def test_a_storm(tmp_path: Path, name: str) -> None:
    subject = SUBJECTS[name]
    survive(subject, tmp_path, {}, subject.latest_s / 2, random.Random(name))


@pytest.mark.hunt
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SUBJECTS)
def test_storms(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    subject, rng = SUBJECTS[name], random.Random(f"{name} {STORMS}")
    ray: Mapping[str, str] = request.getfixturevalue("ray") if subject.needs_ray else {}
    moments_s = [rng.uniform(0, subject.latest_s) for _ in range(STORMS)]
    ends = [survive(subject, tmp_path, ray, moment_s, rng) for moment_s in moments_s]
    gone = f"gone after {min(ends):.2f} to {max(ends):.2f} s"
    print(f"{name}: {STORMS} storms of up to {SIGNALS} signals; {gone}")
