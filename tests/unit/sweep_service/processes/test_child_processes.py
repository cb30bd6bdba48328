import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sweep_service.processes.child_processes import end_in_words, start_kept, started_at, stop, terminate, this_host
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit(3)", "with exit code 3"),
        ("os.kill(os.getpid(), 9)", "by signal 9 (SIGKILL), as Linux does when memory runs out"),
        ("os.kill(os.getpid(), 15)", "by signal 15 (SIGTERM)"),
        ("os.kill(os.getpid(), 40)", "by signal 40"),
    ],
)
def test_the_end_of_a_process_in_words(code: str, words: str) -> None:
    ended = subprocess.run([sys.executable, "-c", f"import os; {code}"], check=False)
    assert end_in_words(ended.returncode) == words


STOPS_ITS_KEEPERS = """
import os, signal, subprocess, sys, time, psutil
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lower = psutil.Process().parent()
for keeper in (lower.parent(), lower):
    keeper.suspend()
own = subprocess.Popen(["sleep", "60"], start_new_session=True)
print(os.getpid(), own.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("by_its_pid", [False, True])
def test_a_program_that_stops_its_keepers_ends_with_them(tmp_path: Path, by_its_pid: bool) -> None:
    log = tmp_path / "log"
    keeper = start_kept([sys.executable, "-c", STOPS_ITS_KEEPERS], os.environ, log)
    wait_until("it has begun", lambda: log.read_bytes().endswith(b"\n"))
    below = [psutil.Process(int(pid)) for pid in log.read_text().split()]
    if by_its_pid:
        terminate(this_host(), keeper.pid, started_at(keeper.pid))
    stop(keeper, 0)
    assert psutil.wait_procs(below, timeout=10)[1] == []
