"""`serve` starts its services again, whatever keeps it from doing so for a while, and never stands there unguarded."""

import os
import resource
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sweep_service.serve.services as serve_services
import sweep_service.serve.stack as stack_module
from sweep_service.processes.vigil import Vigil
from sweep_service.serve.checks import CannotStart
from sweep_service.serve.services import Service
from sweep_service.serve.stack import Stack, Unguarded
from sweep_service.settings import Settings
from tests.sweep_stack import program_below
from tests.waiting import wait_until

SLEEPS = [sys.executable, "-c", "import time; time.sleep(3600)"]


def service(home: Path, **more: Any) -> Service:
    return Service("worker", SLEEPS, dict(os.environ), home / "logs" / "worker.log", **more)


@contextmanager
def guarded(settings: Settings, *services: Service) -> Generator[tuple[Stack, list[str]]]:
    """A stack of these services alone, which have been started, and what it says."""
    said = list[str]()
    stack = Stack(settings, say=said.append)
    stack._services = list(services)
    for one in services:
        one.start()
    stack._guard.start()
    try:
        yield stack, said
    finally:
        stack.stop()


def kill(service: Service) -> int:
    assert service.process is not None
    service.process.kill()
    return service.process.pid


def lives_anew(service: Service, before: int) -> bool:
    return service.process is not None and service.process.pid != before and not service.dead


def test_a_service_is_started_again_once_its_log_can_be_written(settings: Settings, tmp_path: Path) -> None:
    worker = service(tmp_path)
    with guarded(settings, worker) as (_, said):
        logs = worker.log.parent
        logs.rename(tmp_path / "away")
        logs.touch()  # a file where the folder should be: root may write into any folder
        before = kill(worker)
        wait_until("the guard says so", lambda: any("cannot be started" in line for line in said))
        logs.unlink()
        wait_until("it lives again", lambda: lives_anew(worker, before))
    assert [line.partition(" (")[0] for line in said] == [
        "worker has ended; it starts again in 0.5 s",
        "worker cannot be started",
        "worker has been started after all",
    ]


STARVED = """
import os, resource, sys
from pathlib import Path
from sweep_service.settings import Settings
from tests.integration.serve.test_guard import guarded, kill, lives_anew, service
from tests.sweep_stack import program_below
from tests.waiting import wait_until

home = Path(sys.argv[1])
worker = service(home)
with guarded(Settings(home=home), worker) as (_, said):
    before, most = kill(worker), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
    wait_until("the guard says so", lambda: any("Too many open files" in line for line in said))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    wait_until("it lives again", lambda: lives_anew(worker, before), 60)
print("it lives again")
"""


def test_a_service_is_started_again_once_there_are_file_handles(tmp_path: Path) -> None:
    found = subprocess.run([sys.executable, "-c", STARVED, str(tmp_path)], capture_output=True, text=True)
    assert found.stdout == "it lives again\n", found.stderr
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 3


@pytest.mark.parametrize(("settled_s", "pauses"), [(0.0, ["0.5", "0.5", "0.5"]), (600.0, ["0.5", "1.0", "2.0"])])
def test_the_pauses_of_a_service_begin_anew_once_it_has_been_ready_for_long(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled_s: float, pauses: list[str]
) -> None:
    monkeypatch.setattr(serve_services, "SETTLED_S", settled_s)
    worker = service(tmp_path)
    with guarded(settings, worker) as (_, said):
        for _ in pauses:
            wait_until("it is seen to be ready", lambda: worker._ready_at is not None)
            before = kill(worker)
            wait_until("it lives again", lambda before=before: lives_anew(worker, before))
    assert said == [f"worker has ended; it starts again in {pause} s (see {worker.log})" for pause in pauses]


def test_a_stack_that_nobody_guards_ends_with_an_error(settings: Settings, tmp_path: Path) -> None:
    class Broken(Service):
        def look_after(self) -> str | None:
            raise SystemExit("no more")

    worker = Broken("worker", SLEEPS, dict(os.environ), tmp_path / "worker.log")
    with guarded(settings, worker) as (stack, _), pytest.raises(Unguarded, match=r"no longer.*no more.*start it again"):
        stack.wait()


def test_one_who_cannot_be_told_stops_no_guard(settings: Settings, tmp_path: Path) -> None:
    def say(_: str) -> None:
        raise BrokenPipeError

    worker = service(tmp_path)
    with guarded(settings, worker) as (stack, _):
        stack.say = say
        before = kill(worker)
        wait_until("it lives again", lambda: lives_anew(worker, before))


def test_a_server_that_stands_still_once_it_was_ready_has_had_its_time_to_start(
    settings: Settings, tmp_path: Path
) -> None:
    def never_answers_again() -> Vigil:
        return Vigil(lambda: False, patience_s=0.4, every_s=0.2, first_s=3600)

    server = service(tmp_path, ready=lambda: True, vigil=never_answers_again())
    other = service(tmp_path, ready=lambda: False, vigil=never_answers_again())  # still starting
    with guarded(settings, server, other) as (_, said):
        assert server.process is not None
        before = server.process.pid
        wait_until("it lives again", lambda: lives_anew(server, before))
        assert "has shown no life" in said[0]
        assert other.vigil is not None
        assert not other.vigil.has_seen_life
    starting = service(tmp_path, ready=lambda: True, vigil=never_answers_again())
    stack = Stack(settings, say=said.append)
    stack._services = [starting]
    try:
        starting.start()
        stack._wait_until_ready()
        assert starting.vigil is not None
        assert starting.vigil.has_seen_life
    finally:
        stack.stop()


def test_rays_folder_goes_with_the_one_made_around_it_and_with_nothing_else(settings: Settings, tmp_path: Path) -> None:
    kept, home = tmp_path / "somebody's", tmp_path / "home"
    kept.touch()
    for folder, gone in ((home / "ray", home / "ray"), (tmp_path / "made" / "ray", tmp_path / "made")):
        folder.mkdir(parents=True)
        stack = Stack(settings.model_copy(update={"home": home}), say=lambda _: None)
        stack._ray_note.write_text(str(folder))
        stack._remove_ray_folder()
        assert not gone.exists()
        assert not stack._ray_note.exists()
    assert kept.exists()
    assert home.exists()


def test_a_service_that_hangs_is_killed_with_all_below_it_and_started_again(settings: Settings, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    code = (
        "import subprocess, sys, time, pathlib\n"
        "below = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'], start_new_session=True)\n"
        f"beats = pathlib.Path({str(beats)!r})\n"
        "while True:\n    beats.write_text(str(below.pid)); time.sleep(0.02)\n"
    )
    last = [0]

    def beat() -> bool:
        now = beats.stat().st_mtime_ns if beats.exists() else 0
        moved, last[0] = now != last[0], now
        return moved

    hanging = service(tmp_path, vigil=Vigil(beat, patience_s=1, every_s=0.2, first_s=60))
    hanging.command = [sys.executable, "-c", code]
    with guarded(settings, hanging) as (_, said):
        wait_until("it beats", lambda: beats.exists() and beats.read_text())
        below = int(beats.read_text())
        assert hanging.process is not None
        keeper = hanging.process.pid
        program_below(keeper).suspend()
        wait_until("it lives again", lambda: lives_anew(hanging, keeper))
        assert any("has shown no life for" in line for line in said)
        wait_until("what was below it has ended", lambda: not Path(f"/proc/{below}").exists())
        wait_until("it beats", lambda: beats.read_text() not in ("", str(below)))
        assert len(said) == 1


def starting(settings: Settings, monkeypatch: pytest.MonkeyPatch, *services: Service) -> tuple[Stack, list[str]]:
    """A stack whose services have been started, and that looks at them every tenth of a second."""
    for name, value in (("LOOK_EVERY_S", 0.1), ("MOTIONLESS_S", 1.0), ("SAY_EVERY_S", 0.5)):
        monkeypatch.setattr(stack_module, name, value)
    said = list[str]()
    stack = Stack(settings, say=said.append)
    stack._services = list(services)
    for one in services:
        one.start()
    return stack, said


def test_a_start_is_waited_for_as_long_as_something_moves(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It works for longer than an idle one would be waited for, and ends once before that."""
    ready, once = tmp_path / "ready", tmp_path / "once"
    code = (
        f"import pathlib, time; once = pathlib.Path({str(once)!r}); first = not once.exists(); once.touch()\n"
        "if first: raise SystemExit(1)\n"
        "end = time.process_time() + 3\n"
        "while time.process_time() < end: pass\n"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(3600)"
    )
    busy = service(tmp_path, ready=ready.exists)
    busy.command = [sys.executable, "-c", code]
    stack, said = starting(settings, monkeypatch, busy)
    try:
        stack._wait_until_ready()
    finally:
        stack.stop()
    assert said[0].startswith("worker has ended, and is started once more")
    assert any(line.startswith("waiting for worker, for ") for line in said)
    assert said[-1].startswith("worker is ready after ")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import time; time.sleep(3600)", "worker not ready, and idle for 1 s; see "),
        ("raise SystemExit('no such database')", "worker ended at once, 3 times; the end of "),
    ],
)
def test_a_start_is_given_up_when_nothing_moves_or_it_ends_again_and_again(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    stuck = service(tmp_path, ready=lambda: False)
    stuck.command = [sys.executable, "-c", code]
    stack, _ = starting(settings, monkeypatch, stuck)
    try:
        with pytest.raises(CannotStart) as refusal:
            stack._wait_until_ready()
    finally:
        stack.stop()
    assert str(refusal.value).startswith(why)
    assert ("no such database" in str(refusal.value)) is ("no such database" in code)
