"""A forked process of the tests is as the one that would have been started: files, folder, environment, end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from tests.fork_server import forked
from tests.waiting import PATIENT_S, wait_until

MODULE = """
import atexit, json, os, signal, sys, time
print(json.dumps([sys.argv[1:], sys.stdin.read(), os.getcwd(), os.environ.get("MINE"), os.umask(0), os.getpid(),
                  "torch" in sys.modules]), flush=True)
atexit.register(print, "ended")
how = sys.argv[1]
if how == "file":
    os.write(int(sys.argv[2]), b"written")
    how = 0
if how == "signal":
    os.kill(os.getpid(), signal.SIGSEGV)
if how == "wait":
    time.sleep(3600)
sys.exit(int(how))
"""


@pytest.fixture
def environment(forks: Mapping[str, str], tmp_path: Path) -> dict[str, str]:
    """The variables with which the module above is forked."""
    (tmp_path / "shows_itself.py").write_text(MODULE)
    paths = os.pathsep.join([forks["PYTHONPATH"], str(tmp_path)])
    return forked(forks, "shows_itself") | {"PYTHONPATH": paths, "MINE": "here"}


@pytest.mark.parametrize(("how", "code"), [("0", 0), ("3", 3), ("signal", -signal.SIGSEGV)])
def test_it_sees_and_ends_as_if_started(environment: dict[str, str], tmp_path: Path, how: str, code: int) -> None:
    command = [sys.executable, "-m", "shows_itself", how]
    ran = subprocess.run(
        command, env=environment, cwd=tmp_path, input="read", capture_output=True, text=True, umask=0o027, check=False
    )
    assert ran.returncode == code, ran.stderr
    said, *at_its_end = ran.stdout.splitlines()
    *seen, _, has_torch = json.loads(said)
    assert seen == [[how], "read", str(tmp_path), "here", 0o027]
    assert has_torch  # else nothing would be saved
    assert at_its_end == ["ended"] * (how != "signal")


def test_it_has_the_files_that_were_passed_on(environment: dict[str, str]) -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "shows_itself", "file", str(writing)]
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, pass_fds=[writing], check=True)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read() == b"written"  # and its end: nobody else holds the other one


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_process_that_stands_for_it(environment: dict[str, str], number: signal.Signals) -> None:
    command = [sys.executable, "-m", "shows_itself", "wait"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = json.loads(process.stdout.readline())[-2]
        assert pid != process.pid
        process.send_signal(number)
        assert process.wait(PATIENT_S) == -number
        wait_until("the fork has ended", lambda: not psutil.pid_exists(pid))
