"""Trainers in slow motion: they are stopped where a test wants them, however few their updates and however fast."""

import re
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from sweep_service.store import Store
from tests.waiting import wait_until
from trainers.process.events import read_events

SLICE_S: Final = 0.03
"""Seconds for which a trainer goes on before its events are looked at."""


@dataclass(frozen=True)
class Caught:
    """The processes of one attempt, all of them stopped by SIGSTOP. Its keeper is not."""

    processes: list[psutil.Process]

    def go_on(self) -> None:
        """Let them go on."""
        for process in self.processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def kill(self) -> None:
        """Kill them."""
        for process in self.processes:
            process.kill()

    def go_on_once_told_to_stop(self) -> None:
        """Wait until one of them has been sent SIGTERM, and let them go on.

        Raises: TimeoutError.
        """
        wait_until("they are told to stop", lambda: any(map(_is_told_to_stop, self.processes)))
        self.go_on()


def caught(store: Store, work_ids: Collection[str], happened: Callable[[Path], object]) -> list[Caught]:
    """Stop what trains these trials, or makes these evaluations, once the folder of its attempt shows what happened.

    It goes on in slices from its start, so that it gets no further. One whose newest attempt has ended is waited for in
    vain.

    Args:
        happened: says of the folder of an attempt whether the moment has come.
    Returns: what was caught, in the order of the ids.
    Raises: TimeoutError.
    """
    found = dict[str, Caught]()

    def all_are_caught() -> bool:
        for work_id in set(work_ids) - found.keys():
            for attempt in store.attempts_of(work_id)[-1:]:
                if stopped := _stopped(Path(attempt.directory), happened):
                    found[work_id] = stopped
        time.sleep(SLICE_S)
        return len(found) == len(work_ids)

    wait_until(f"{', '.join(work_ids)} is caught", all_are_caught)
    return [found[work_id] for work_id in work_ids]


def caught_beyond(store: Store, trial_ids: Collection[str], step: int) -> list[Caught]:
    """Stop what trains these trials beyond a step; the store knows of it, too.

    Returns: what was caught, in the order of the ids.
    Raises: TimeoutError.
    """

    def is_beyond(folder: Path) -> bool:
        events = folder / "events.jsonl"
        return events.exists() and any(one["type"] == "step" and one["step"] > step for one in read_events(events))

    found = caught(store, trial_ids, is_beyond)
    wait_until("the store knows", lambda: all(store.get_trial(id_).step > step for id_ in trial_ids))
    return found


def caught_in(folder: Path, happened: Callable[[Path], object]) -> Caught:
    """Stop all processes that work in a folder once the moment has come, as `caught` does.

    Raises: TimeoutError.
    """
    found = list[Caught]()

    def is_caught() -> bool:
        found.extend(filter(None, [_stopped(folder, happened)]))
        time.sleep(0 if found else SLICE_S)
        return bool(found)

    wait_until(f"what works in {folder} is caught", is_caught)
    return found[0]


def works_in(process: psutil.Process, folder: Path) -> bool:
    """Say whether this is a process's folder."""
    try:
        return process.cwd() == str(folder)
    except psutil.Error:
        return False


def _stopped(folder: Path, happened: Callable[[Path], object]) -> Caught | None:
    """Stop all processes that work in a folder, but a keeper; let them go on if the moment has not come."""
    stopped = list[psutil.Process]()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if works_in(process, folder) and "trainers.process.keeper" not in process.cmdline():
                process.suspend()
                stopped.append(process)
    if stopped and happened(folder):
        return Caught(stopped)
    Caught(stopped).go_on()
    return None


def _is_told_to_stop(process: psutil.Process) -> bool:
    (pending,) = re.findall(r"ShdPnd:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())
    return bool(int(pending, 16) & 1 << signal.SIGTERM - 1)
