"""A runner that loses its lease, its loop or its Ray ends at once, and its trainers with it."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sweep_service.runner import lease
from sweep_service.store import open_store
from tests.stored_sweeps import start, submit
from tests.waiting import wait_until

# A process that holds the lease, with times cut short. Its loop moves while the file `moves` exists; while `starves`
# exists it can open no file.
HOLDER = """
import pathlib, resource, sys, time
from sweep_service.runner import lease
from sweep_service.store import Fence, open_store
lease.LEASE_S, lease.RENEW_EVERY_S, lease.LONGEST_STEP_S = 2.0, 0.05, 1.0
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
url, sweep, epoch, folder, raylet = sys.argv[1:]
folder = pathlib.Path(folder)
held = lease.Lease(open_store(url), Fence(sweep, int(epoch)), (folder / "abandoned").touch)
held.start()
held.watch(int(raylet))
(folder / "holds").touch()
while True:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3 if (folder / "starves").exists() else most, most))
    if (folder / "moves").exists():
        held.beat()
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        ("taken over", lease.LOST_EXIT_CODE),
        ("stuck", lease.STUCK_EXIT_CODE),
        ("no ray", lease.NO_RAY_EXIT_CODE),
        ("starves", lease.LOST_EXIT_CODE),
    ],
)
def test_the_holder_ends(tmp_path: Path, trouble: str, code: int) -> None:
    url = f"sqlite:///{tmp_path / 'sweeps.db'}"
    store = open_store(url)
    sweep, fence = start(store)
    (tmp_path / "moves").touch()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as raylet:
        arguments = [url, sweep.id, str(fence.epoch), str(tmp_path), str(raylet.pid)]
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, *arguments], stderr=subprocess.DEVNULL)
        wait_until("it holds the lease", (tmp_path / "holds").exists)
        match trouble:
            case "taken over":

                def takes_over() -> bool:
                    store.release_lease(fence)  # again each time: the holder may renew it in between
                    return store.claim("another", 60) is not None

                wait_until("it is taken", takes_over)
            case "stuck":
                (tmp_path / "moves").unlink()
            case "starves":
                (tmp_path / "starves").touch()
            case _:
                os.kill(raylet.pid, signal.SIGKILL)
        assert holder.wait(10) == code
        raylet.kill()
    assert (tmp_path / "abandoned").exists() or trouble == "starves"  # then it can make no file
    store.close()


def test_a_holder_that_could_open_no_file_for_a_moment_holds_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'sweeps.db'}"
    store = open_store(url)
    sweep, fence = start(store)
    (tmp_path / "moves").touch()

    def lease_until() -> float:
        with store.engine.connect() as connection:
            return connection.exec_driver_sql("SELECT lease_until FROM sweeps").scalar_one()

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as raylet:
        arguments = [url, sweep.id, str(fence.epoch), str(tmp_path), str(raylet.pid)]
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, *arguments], stderr=subprocess.DEVNULL)
        for word in ("it renews", "it renews again"):
            first = lease_until()
            wait_until(word, lambda first=first: lease_until() != first)
            (tmp_path / "starves").touch()
            wait_until("it starves", lambda: resource.prlimit(holder.pid, resource.RLIMIT_NOFILE)[0] == 3)
            (tmp_path / "starves").unlink()
        assert holder.poll() is None
        holder.kill()
        holder.wait()
        raylet.kill()
    store.close()


def test_a_runner_holds_its_sweep_while_it_still_imports_ray(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'sweeps.db'}"
    store = open_store(url)
    sweep = submit(store)
    claimed = store.claim("worker", 0)
    assert claimed is not None
    (tmp_path / "ray.py").write_text(
        f"import pathlib, time\npathlib.Path({str(tmp_path / 'imports')!r}).touch()\ntime.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SWEEPS_HOME": str(tmp_path), "SWEEPS_DATABASE_URL": url}
    command = [sys.executable, "-m", "sweep_service.runner", sweep.id, str(claimed.epoch)]
    runner = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, cwd=Path(__file__).parents[3])
    wait_until("it imports Ray", (tmp_path / "imports").exists)
    assert store.claim("another", 10) is None
    runner.kill()
    runner.communicate()
    store.close()
