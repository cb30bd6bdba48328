"""A real API process answers thousands of hostile specs: no error of its own, no long answer, no memory kept.

HOSTILE_SPECS=10000 sends more than the usual number; the figures are printed (pytest -s).
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from sweep_service.auth import read_token
from sweep_service.processes.child_processes import start, stop
from sweep_service.settings import Settings
from tests.hostile_specs import hostile_bodies
from tests.postgres import AVAILABLE, postgres
from tests.sweep_stack import answers
from tests.waiting import PATIENT_S, wait_until

pytestmark = [pytest.mark.hunt, pytest.mark.timeout(3600)]
NUMBER = int(os.environ.get("HOSTILE_SPECS", "1500"))
MOST_CPU_S, MOST_MB = 1.0, 200
_RESET = 0


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.skipif(not AVAILABLE, reason="none here"))]
)
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The database of the API."""
    if request.param == "sqlite":
        yield request.param
        return
    with postgres() as url:
        monkeypatch.setenv("SWEEPS_DATABASE_URL", url)
        yield request.param


@contextmanager
def api(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """The API's process."""
    process = start([sys.executable, "-m", "sweep_service", "api"], os.environ, settings.home / "api.log")
    try:
        wait_until("the API answers", lambda: answers(settings))
        yield process
    finally:
        stop(process, 5)


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def megabytes(process: psutil.Process) -> float:
    return process.memory_info().rss / 1e6


def post(client: httpx.Client, body: bytes, *, validate_only: bool) -> int:
    """Return the status of the answer, or `_RESET` where the server hung up on a body that it had refused."""
    try:
        return client.post("/v1/sweeps", content=body, params={"validate_only": validate_only}).status_code
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        assert len(body) > 2**17
        return _RESET


def test_hostile_specs_take_no_second_and_leave_no_memory(settings: Settings, database: str) -> None:
    statuses, slowest, largest = Counter[int](), (0.0, ""), 0.0
    with api(settings) as started:
        process = psutil.Process(started.pid)
        headers = {"Authorization": f"Bearer {read_token(settings.token_file)}", "Content-Type": "application/json"}
        with httpx.Client(base_url=settings.url, headers=headers, timeout=PATIENT_S, trust_env=False) as client:
            for index, (what, body) in enumerate(hostile_bodies(seed=9, number=NUMBER)):
                if index == NUMBER // 5:
                    begun = megabytes(process)
                status, spent_s = 0, float("inf")
                for _ in range(3):  # a core that others' work shares takes longer for the same
                    before = cpu_s(process)
                    status = post(client, body, validate_only=index % 10 != 0)
                    spent_s = min(spent_s, cpu_s(process) - before)
                    if spent_s < MOST_CPU_S:
                        break
                slowest = max(slowest, (spent_s, what))
                largest = max(largest, megabytes(process))
                statuses[status] += 1
                assert status < 500, (what, body[:2000])
            ended = megabytes(process)
        assert started.poll() is None
    print(
        f"\n{NUMBER} requests on {database}: {dict(statuses)}; slowest {slowest[0]:.2f} CPU s ({slowest[1]}); "
        f"memory {begun:.0f} MB after a fifth, {ended:.0f} MB at the end, {largest:.0f} MB at most"
    )
    assert slowest[0] < MOST_CPU_S, slowest
    assert largest - begun < MOST_MB
    assert ended - begun < MOST_MB / 4
    assert "Traceback" not in Path(settings.home / "api.log").read_text()
