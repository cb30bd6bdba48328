"""How several processes end together. The processes here are real, and small."""

import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from tests.kept_signals import kept_signals
from tests.waiting import PATIENT_S
from trainers.process import launch
from trainers.process.environment import RENDEZVOUS
from trainers.process.launch import _codes, exit_code, meeting_place, process_environment, reserved_port
from trainers.process.signals import STOP_SIGNALS, signal_pipe

KILLED = int(signal.SIGKILL)


def ended(monkeypatch: pytest.MonkeyPatch, *scripts: str, grace_s: float = PATIENT_S) -> list[int]:
    """Exit codes of shell scripts started together, and that none of them is left."""
    monkeypatch.setattr(launch, "GRACE_S", grace_s)
    with kept_signals():
        signals = signal_pipe(signal.SIGCHLD, *STOP_SIGNALS)
        children = [subprocess.Popen(["sh", "-c", f"exec 2>/dev/null; {script}"]) for script in scripts]
        try:
            codes, asked = _codes(children, signals)
            assert all(child.returncode is not None for child in children)
        finally:
            for child in children:
                child.kill()
    assert asked == any("$PPID" in script for script in scripts)
    return codes


@pytest.mark.parametrize("number", ["TERM", "INT"])
def test_a_signal_is_passed_on_as_a_wish_to_stop(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    stops, waits = "trap 'exit 4' TERM", "while true; do sleep 0.05; done"
    assert ended(monkeypatch, f"{stops}; sleep 0.5; kill -{number} $PPID; {waits}", f"{stops}; {waits}") == [4, 4]


def test_all_that_end_well_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, "exit 0", "sleep 0.2; exit 0", "exec sleep 0.1") == [0, 0, 0]


@pytest.mark.parametrize("first", ["kill -KILL $$", "kill -TERM $$", "exit 1"])
def test_a_killed_or_failed_process_ends_the_others_at_once(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    assert len(ended(monkeypatch, "exec sleep 6000", first, "exec sleep 6000")) == 1


def test_others_may_end_by_themselves_after_an_outcome_that_all_of_them_have(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, "sleep 0.3; exit 3", "exit 3") == [3, 3]


def test_one_that_waits_for_an_ended_one_is_killed_after_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, "exit 3", "exec sleep 60", grace_s=0.2) == [3]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 0], 0),
        ([3, 1], 3),  # one diverged, the other then missed it
        ([0, 1], 1),
        ([4, 4], 4),
        ([2], 2),
        ([-KILLED, 1], 128 + KILLED),
        ([1, -KILLED], 128 + KILLED),  # its connections were closed before it could be waited for
        ([-6, 1], 134),
    ],
)
def test_one_code_stands_for_all(codes: list[int], expected: int) -> None:
    assert exit_code(codes) == expected


def test_a_reserved_port_is_nobody_else_s_but_can_be_listened_on() -> None:
    with reserved_port() as port, reserved_port() as other:
        assert port != other
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("", port))
            listening.listen()
            socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_each_process_has_its_rank_and_its_device() -> None:
    with meeting_place() as place:
        first, second = (process_environment(rank, 2, place) for rank in range(2))
        file = Path(place[RENDEZVOUS])
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert not file.exists()
    assert first[RENDEZVOUS] == second[RENDEZVOUS] == str(file)
    assert (first["RANK"], second["RANK"], second["LOCAL_RANK"], first["WORLD_SIZE"]) == ("0", "1", "1", "2")
    assert first["MASTER_PORT"] == second["MASTER_PORT"] == place["MASTER_PORT"]
