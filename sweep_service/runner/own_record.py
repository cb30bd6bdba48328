"""Reads the events file of a trainer of one's own, up to the first line that breaks a rule. Does not import Ray."""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sweep_service.runner.own_events import MAX_LINE, BadEvent, OwnEvents
from sweep_service.runner.plain_files import NotPlain, is_there, open_plain
from sweep_service.runner.trainer_process import EVENTS_FILE, MAX_PART, EventChunk, OwnJob

MAX_FILE: Final = 1 << 28
"""Most bytes of the events of one attempt."""
MAX_BEHIND: Final = 1 << 24
"""Most bytes that wait to be read: a program that is further ahead of its reader writes faster than it can be read."""
_SHOWN: Final = 120
_MAX_NAME: Final = 255
_MAX_PATH: Final = 4000  # Linux takes 4095 bytes, and what is in a checkpoint has longer paths
REMEDY: Final = "docs/own_trainer.md says what a trainer writes"
MAX_WARNINGS: Final = 100
"""Number of warnings that are kept of an attempt; how many more there were is told."""
MAX_STARTED: Final = 10
LEFT_OUT: Final = "WARNINGS_LEFT_OUT"
_INTERVAL_S: Final = 1.0
_INTERVAL_SHARE: Final = 0.02
"""Share of the time so far that lies between two kept events `progress`, as for our own trainer."""


class OwnNotes:
    """Thins the events of one attempt, in their order, beside its results, so that no program floods the store.

    Steps, evaluations and checkpoints are results: none is left out. `trainer.steps` bounds them, and a program that
    writes too many bytes of them ends with a reason.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._begun, self._last = clock, clock(), -_INTERVAL_S
        self._warnings = self._started = 0

    def thinned(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the event, nothing, or in place of a warning how many were left out: at each power of two."""
        match event["type"]:
            case "warning":
                self._warnings += 1
                left_out = self._warnings - MAX_WARNINGS
                if left_out > 0 and left_out & (left_out - 1):
                    return []
                if left_out > 0:
                    text = f"the first {MAX_WARNINGS} are kept; at least {left_out} more were left out"
                    message, evidence = f"of an attempt's warnings {text}", {"left_out": float(left_out)}
                    summary = {"type": "warning", "code": LEFT_OUT, "message": message, "evidence": evidence}
                    return [{**summary, "step": event["step"], "time": event["time"]}]
            case "progress":
                now = self._clock()
                if now - self._last < max(_INTERVAL_S, _INTERVAL_SHARE * (now - self._begun)):
                    return []
                self._last = now
            case "started":
                self._started += 1
                if self._started > MAX_STARTED:
                    return []
            case _:
                pass
        return [dict(event)]


class OwnRecord:
    """The events of one attempt, as ours are: checked, with their times, and with what follows from them.

    Args:
        offset: bytes that were passed on before; they are read again for what later lines must follow, and not passed
            on once more.
    """

    def __init__(self, directory: Path, job: OwnJob, offset: int = 0) -> None:
        self._directory, self._passed_on, self._read, self._line = directory, offset, 0, 0
        self._read_before = offset  # what was read by others before is no backlog
        self.events, self._notes = OwnEvents(job.steps, job.metric, job.after_step), OwnNotes()
        self.problem: str | None = None
        """The mistake in the first bad line; nothing after it is read."""

    def next_part(self) -> EventChunk:
        """Return the next events, which may all have been thinned out, and the bytes between which their lines lie.

        Only a chunk from a byte to the same byte says that there is nothing now.
        """
        start, events = self._passed_on, list[str]()
        while self._passed_on == start and (lines := self._next_lines()):  # those before give nothing
            events = self._take(lines)
        return EventChunk(start, self._passed_on, "".join(f"{line}\n" for line in events))

    def _take(self, lines: list[bytes]) -> list[str]:
        """Return the events of the next lines that were not passed on before, up to a bad one."""
        passed = list[dict[str, Any]]()
        for line in lines:
            self._line += 1
            end = self._read + len(line)
            try:
                if len(line.removesuffix(b"\n")) > MAX_LINE:
                    raise BadEvent(f"it has more than {MAX_LINE} bytes; write less into one event")
                events = self.events.take(line)
                for event in events:
                    if event["type"] == "checkpoint":
                        event["path"] = _whole_path(self._directory, event["path"])
            except BadEvent as error:
                shown = line[:_SHOWN].decode(errors="replace").strip() + ("…" if len(line) > _SHOWN else "")
                self.problem = f"line {self._line} of {EVENTS_FILE}, {shown}: {error}; {REMEDY}"
                break
            self._read = end
            thinned = [one for event in events for one in self._notes.thinned(event)]
            if end > self._passed_on:
                passed += thinned
                self._passed_on = end
        announced = [event for event in passed if event["type"] == "checkpoint"]
        if announced and not is_there(announced[-1]["path"]):  # older ones the program may have removed by now
            last = announced[-1]
            text = f"there is no {last['path']}; announce a checkpoint once it is complete, and keep the newest"
            warning = {"type": "warning", "code": "CHECKPOINT_MISSING", "message": text, "evidence": {}}
            passed += self._notes.thinned({**warning, "step": last["step"], "time": last["time"]})
        return [json.dumps(event, separators=(",", ":")) for event in passed]

    def _next_lines(self) -> list[bytes]:
        if self.problem is not None:
            return []
        try:
            with open_plain(self._directory / EVENTS_FILE) as file:
                size = os.fstat(file.fileno()).st_size
                if size > MAX_FILE:
                    raise BadEvent(f"{EVENTS_FILE} has more than {MAX_FILE >> 20} MiB; write less into it")
                if size - max(self._read, self._read_before) > MAX_BEHIND:
                    raise BadEvent(f"{EVENTS_FILE} grew faster than it is read: {MAX_BEHIND >> 20} MiB wait")
                if size < self._read:
                    raise BadEvent(f"{EVENTS_FILE} has become shorter; append to it, and open it once")
                file.seek(self._read)
                content = file.read(max(MAX_PART, MAX_LINE) + 1)
        except FileNotFoundError:
            return []
        except (BadEvent, NotPlain) as error:
            self.problem = f"{error}; {REMEDY}"
            return []
        if b"\n" not in content[: MAX_LINE + 1] and len(content) > MAX_LINE:
            return [content]
        return [line + b"\n" for line in content.split(b"\n")[:-1]]


def _whole_path(directory: Path, path: str) -> str:
    """Return a checkpoint's path from / on; an absolute one stays.

    Raises: BadEvent, if no file can have such a path.
    """
    whole = directory / path
    if "\x00" in path:
        raise BadEvent(f"path {path!r:.100} holds the character 0, which no path can; leave it out")
    if any(len(os.fsencode(part)) > _MAX_NAME for part in whole.parts) or len(os.fsencode(whole)) > _MAX_PATH:
        limits = f"a name in it has more than {_MAX_NAME} bytes, or all of it more than {_MAX_PATH}"
        raise BadEvent(f"path {path!r:.100}: {limits}; take a shorter one")
    return str(whole)
