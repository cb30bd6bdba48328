"""Small real sweeps, and the processes of a stack, for tests that run the real thing."""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from sweep_service.intake.spec_check import parse_spec
from sweep_service.processes.child_processes import start, start_kept, stop
from sweep_service.processes.ray_head import (
    client_environment,
    head_command,
    head_environment,
    is_ready,
    new_ray_token,
)
from sweep_service.serve import free_port
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import DesiredState, Sweep, SweepState, new_id
from tests.waiting import PATIENT_S, wait_until

SMALL_TRAINING: dict[str, Any] = {
    "steps": 16,
    "model": {"warm_start_steps": 20, "hidden_size": 32, "num_layers": 1},
    "rollout": {"prompts_per_rollout": 8, "completions_per_prompt": 4, "prompts_per_minibatch": 2},
    "device_batch": 8,
    "evaluation": {"every_steps": 8, "samples_per_problem": 4, "pass_k": 2},
    "checkpoint_every_rollouts": 1,
}
"""The real trainer at its smallest: a second or two beyond its imports."""


def small_sweep(name: str, **changes: Any) -> dict[str, Any]:
    """Return a spec with two points and their baseline (one of the points) on one seed, one trial at a time.

    A trial takes less time than the imports of the process that trains it, of which each slot has its own.
    """
    spec = {
        "name": name,
        "training": SMALL_TRAINING,
        "space": {"loss.beta1": [0, 0.5], "loss.beta2": 0},
        "seeds": {"tune": [0]},
        "baselines": {"dapo": False},
        "resources": {"max_parallel": 1},
    }
    return spec | changes


_PORTS: set[int] = set()


def unused_port() -> int:
    """Return a port that nobody listens on, at least ten away from every other that it returned.

    It lies below those that the kernel gives to outgoing connections, which may take one of theirs in the seconds until
    a server listens on it, and above those of Ray's workers.
    """
    while True:
        port = 20_000 + 10 * secrets.randbelow(1_200)
        if port not in _PORTS and free_port(port) == port:
            _PORTS.add(port)
            return port


@contextmanager
def ray_head(home: Path, cpus: int, gpus: int, **variables: str) -> Iterator[dict[str, str]]:
    """Run a Ray head of its own; yield the variables that its drivers need, `SWEEPS_RAY_ADDRESS` among them.

    Args:
        variables: further variables of the head and of all its actors.
    """
    port, token, log = unused_port(), home / "ray-token", home / "ray.log"
    new_ray_token(token)
    environment = os.environ | head_environment(token, unused_port(), home / "ray.alive") | variables
    with tempfile.TemporaryDirectory(prefix="sweeps-ray-", ignore_cleanup_errors=True) as short:  # holds sockets
        keeper = start_kept(head_command(port, Path(short), cpus, gpus), environment, log)
        try:
            wait_until(f"Ray is ready, {log}", lambda: is_ready(log) or keeper.poll() is not None)
            assert keeper.poll() is None, log.read_text()
            yield client_environment(token) | {"SWEEPS_RAY_ADDRESS": f"127.0.0.1:{port}"}
        finally:
            stop(keeper, 8)


def processes_of(home: Path) -> list[psutil.Process]:
    """Return all living processes that carry this SWEEPS_HOME in their environment, but this one."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            mine = process.environ().get("SWEEPS_HOME") == str(home)
            if mine and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def one_of(home: Path, *words: str) -> psutil.Process:
    """Wait for a process of the stack whose arguments end with these words, its keeper left out."""
    found: list[psutil.Process] = []

    def appeared() -> bool:
        found[:] = [process for process in processes_of(home) if _has(process, words)]
        return bool(found)

    wait_until(f"a process {' '.join(words)}", appeared)
    return found[0]


def alive(process: psutil.Process) -> bool:
    """Say whether a process lives; one that waits for its parent to notice its end does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def program_below(keeper: int) -> psutil.Process:
    """Return the program that a keeper, two processes of which this is the upper one's pid, has started."""
    (lower,) = psutil.Process(keeper).children()
    return min(lower.children(), key=psutil.Process.create_time)  # orphans come to it later


def command_of(process: psutil.Process) -> list[str]:
    """Return the words of a process's command line, or none if it is gone."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _has(process: psutil.Process, words: tuple[str, ...]) -> bool:
    command = command_of(process)
    return "trainers.process.keeper" not in command and all(
        any(part.endswith(word) for part in command) for word in words
    )


def submit_and_claim(store: Store, raw: dict[str, Any]) -> Fence:
    """Submit a sweep and take it over, as a worker does."""
    spec = parse_spec(raw)
    sweep = Sweep(
        id=new_id("swp"),
        name=spec.name,
        state=SweepState.QUEUED,
        desired_state=DesiredState.RUN,
        created_at=time.time(),
        spec=spec,
        spec_digest=spec.digest,
    )
    store.create_sweep(sweep, *first_records(spec, sweep.id))
    claimed = store.claim("test", 60)
    assert claimed is not None
    assert claimed.id == sweep.id
    return Fence(claimed.id, claimed.epoch)


@contextmanager
def runner(settings: Settings, fence: Fence, ray: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the sweep's runner, as a worker does; end it afterwards."""
    command = [sys.executable, "-m", "sweep_service.runner", fence.sweep_id, str(fence.epoch)]
    log = settings.storage / fence.sweep_id / "runner.log"
    process = start(command, {**os.environ, **settings.environment(), **ray}, log)
    try:
        yield process
    finally:
        stop(process, 2)


@contextmanager
def serving(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """`sweeps serve`, once all its services have started; at the end SIGTERM, after which nothing may be left."""
    path = settings.home.parent / "serve.log"
    with path.open("ab") as log:
        said_before = log.tell()
        process = subprocess.Popen([sys.executable, "-m", "sweep_service", "serve"], stdout=log, stderr=log)
    try:
        wait_until(
            "serve is up", lambda: process.poll() is not None or b"Ctrl-C stops" in path.read_bytes()[said_before:]
        )
        assert process.poll() is None, path.read_text()
        yield process
    finally:
        process.terminate()
        process.wait(PATIENT_S)
    assert [command for process in processes_of(settings.home) if (command := command_of(process))] == []


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(settings: Settings) -> bool:
    try:
        return httpx.get(f"{settings.url}/readyz", timeout=1).status_code == 200
    except httpx.TransportError:
        return False
