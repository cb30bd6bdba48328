"""One trainer of one's own: starts the program, checks its events and says how it ended. Does not import Ray."""

import signal
from pathlib import Path
from typing import Final

from sweep_service.runner.machine_wait import takes_files
from sweep_service.runner.own_events import OwnEvents
from sweep_service.runner.own_record import OwnRecord
from sweep_service.runner.plain_files import read_plain
from sweep_service.runner.trainer_process import (
    MESSAGE_LENGTH,
    AttemptEnd,
    EventChunk,
    Job,
    OwnJob,
    Start,
    Trainer,
    as_asked,
    attempt_end,
)
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.own_trainer import command_line
from trainers.process.machine_faults import names_machine_fault

AFTER_STEP_FILE: Final = "resumed_after"
"""File in an attempt's folder with the step of the checkpoint from which it went on, for a runner that comes later."""
_PERHAPS_THE_MACHINE: Final = (Ending.FAILED, Ending.CRASHED)
"""Endings of a program that could write nothing any more, and knows no exit code for that."""
_BY_SIGTERM: Final = (-signal.SIGTERM, 128 + signal.SIGTERM)
_MAX_DIGITS: Final = 16


class OwnTrainerProcess(Trainer):
    """A program of somebody else's at work on a job. It is stopped at the first event that breaks a rule."""

    def __init__(self, job: Job, own: OwnJob, start: Start) -> None:
        self._own, self._record = own, OwnRecord(Path(job.directory), own)
        note_after_step(Path(job.directory), own.after_step)
        super().__init__(job, start)

    def _arguments(self, job: Job, config: Path) -> list[str]:
        return command_line(self._own.command, str(config), job.directory, job.resume_from)

    def next_part(self) -> EventChunk:
        """Return the next events that the program wrote; an empty chunk if there are none now."""
        part = self._record.next_part()
        if self._record.problem is not None and self._process.exit_code is None:
            self.stop()
        return part

    def end_from_beside(self, grace_s: float) -> None:
        """End the program, and through its keeper all that it has started, whatever sessions that has made."""
        self.stop()

    @property
    def end(self) -> AttemptEnd:
        """The program's end, once its process has ended."""
        if self._record.problem is not None:
            return AttemptEnd(Ending.FAILED, self._record.problem)
        exit_code = self._process.exit_code
        if exit_code in _BY_SIGTERM:  # it does not listen to it, and goes on from its newest checkpoint
            return AttemptEnd(Ending.LOST, f"the trainer was ended by SIGTERM, {as_asked(self._directory)}")
        end = _announced_end(self._record.events) if exit_code == 0 else attempt_end(exit_code, self._directory)
        if end.ending not in _PERHAPS_THE_MACHINE or self._record.events.failed is not None:
            return end
        message = end.message or ""
        if names_machine_fault(message.rpartition("\n")[2]):
            return AttemptEnd(Ending.MACHINE_FAULT, message)
        if self._directory.is_dir() and not takes_files(self._directory):
            return AttemptEnd(Ending.MACHINE_FAULT, f"its folder took no file as the program ended: {message}")
        return end


def note_after_step(directory: Path, step: int) -> None:
    """Note in an attempt's folder from which step's checkpoint it goes on; without a checkpoint nothing is noted."""
    if step:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / AFTER_STEP_FILE).write_text(str(step))


def noted_after_step(directory: Path) -> int:
    """Return the step of the checkpoint from which an attempt went on; 0 if it began anew or its note is unreadable."""
    text = read_plain(directory / AFTER_STEP_FILE, _MAX_DIGITS)
    return int(text) if text.isdigit() and len(text) < _MAX_DIGITS else 0


def recorded_end(record: OwnRecord, directory: Path) -> AttemptEnd:
    """Return the ending of an unwatched attempt from its events alone; LOST if they have none."""
    if record.problem is not None:
        return AttemptEnd(Ending.FAILED, record.problem)
    if record.events.finished is None and record.events.failed is None:
        return attempt_end(None, directory)
    return _announced_end(record.events)


def _announced_end(events: OwnEvents) -> AttemptEnd:
    """Return the end of an attempt whose program says by its last event, or by exit code 0 alone, that it is done."""
    if events.failed is not None:
        return AttemptEnd(Ending.FAILED, events.failed[:MESSAGE_LENGTH])
    if events.finished == "DIVERGED":
        return AttemptEnd(Ending.DIVERGED, events.message)
    if why := events.missing:
        return AttemptEnd(Ending.FAILED, why)
    return AttemptEnd(Ending.SUCCEEDED)
