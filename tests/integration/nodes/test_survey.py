"""The doctor's look at every node: a real Ray of two raylets, for which one path of storage means two folders."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from sweep_service.processes.child_processes import start_kept, stop
from sweep_service.processes.ray_head import (
    OBJECT_STORE_BYTES,
    client_environment,
    head_environment,
    is_ready,
    new_ray_token,
)
from tests.sweep_stack import unused_port
from tests.waiting import wait_until

pytestmark = pytest.mark.long

START = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
STORAGE = Path("/proc/self/cwd/storage")
"""Below the folder that a process was started in: each raylet, and so its tasks, in one of its own."""


@contextmanager
def raylet(home: Path, name: str, head: str, *options: str) -> Iterator[None]:
    """A node with one CPU that runs in a folder of its own."""
    log = home / f"{name}.log"
    command = ["env", "--chdir", str(home / name), sys.executable, "-c", START, "start", *options]
    command += ["--block", f"--node-ip-address={head.partition(':')[0]}", "--num-cpus=1", "--disable-usage-stats"]
    command += [f"--object-store-memory={OBJECT_STORE_BYTES}", "--min-worker-port=0", "--max-worker-port=0"]
    command += ["--include-log-monitor=false", "--dashboard-agent-listen-port=0", "--log-color=false"]
    packages = {"PYTHONPATH": str(Path(__file__).parents[3]), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
    rays = head_environment(home / "ray-token", unused_port(), home / f"{name}.alive")
    keeper = start_kept(command, os.environ | rays | packages, log)
    try:
        wait_until(f"{name} is ready, {log}", lambda: is_ready(log) or keeper.poll() is not None)
        assert keeper.poll() is None, log.read_text()
        yield
    finally:
        stop(keeper, 8)


def findings(home: Path, variables: Mapping[str, str]) -> list[list[str]]:
    """What the doctor finds, run in the folder of the first node."""
    settings = {"SWEEPS_HOME": str(home), "SWEEPS_STORAGE": str(STORAGE), "SWEEPS_CACHE": str(home / "cache")}
    lifeline, held = os.pipe()
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "sweep_service.nodes.survey"],
            env={**os.environ, **variables, **settings, "PYTHONPATH": str(Path(__file__).parents[3])},
            stdin=lifeline, capture_output=True, text=True, check=False, cwd=home / "first",
        )  # fmt: skip
    finally:
        os.close(lifeline)
        os.close(held)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_each_node_is_asked_and_one_that_sees_another_storage_is_told(tmp_path: Path) -> None:
    for node in ("first", "second"):
        (tmp_path / node / "storage").mkdir(parents=True)
    (tmp_path / "cache").mkdir()
    new_ray_token(tmp_path / "ray-token")
    head = f"127.0.0.2:{unused_port()}"  # Ray takes 127.0.0.1 for a cluster of one machine
    with tempfile.TemporaryDirectory(prefix="sweeps-ray-", ignore_cleanup_errors=True) as short:  # holds sockets
        begins = ("--head", f"--port={head.partition(':')[2]}", f"--temp-dir={short}", "--include-dashboard=false")
        with (
            raylet(tmp_path, "first", head, *begins, "--no-monitor", "--num-gpus=3"),
            raylet(tmp_path, "second", head, f"--address={head}", "--num-gpus=0"),
        ):
            found = findings(tmp_path, client_environment(tmp_path / "ray-token") | {"SWEEPS_RAY_ADDRESS": head})
    assert {name.rpartition(" ")[0] for name, _, _ in found} == {f"node {os.uname().nodename}"}
    assert len({name for name, _, _ in found}) == 2
    assert [verdict for _, verdict, _ in found] == ["error", "error"]
    gpus, storage = sorted(detail for _, _, detail in found)
    assert gpus.startswith("Ray counts 3 GPUs and torch sees none (driver: not found); install a driver")
    assert storage.startswith(f"storage {STORAGE} is another folder there than here")
    assert list((tmp_path / "first" / "storage").iterdir()) == []
    assert list((tmp_path / "second" / "storage").iterdir()) == []
