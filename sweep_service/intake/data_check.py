"""Has a trainer read the data of a sweep before it runs, in a process of its own, and keeps what it said.

Reading 200,000 rows takes the better part of a minute, so a request waits for a while and then asks for patience; the
reading goes on, and whoever asks again gets what it found.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Final, cast

from sweep_service.errors import InvalidSpec, SpecError, StillReading
from sweep_service.intake.catalog_check import Catalog, entries_of
from sweep_service.processes.child_processes import log_tail, start_kept, stop
from sweep_service.settings import without_secrets
from trainers.catalog.entries import KINDS, ModelEntry
from trainers.config import TrainingConfig, WordProblemsTask
from trainers.process.environment import EXIT_CODES
from trainers.rewards import REWARDS
from trainers.tasks.data_record import Preview

LIMIT_S: Final = 900.0
"""Seconds that reading may take."""
LIMIT_BYTES: Final = 4 * 2**30
"""Memory that reading may take; it takes half a GB, and more for a large dataset."""
WAIT_S: Final = 45.0
"""Seconds for which a request waits: less than the minute that clients and proxies give it."""
MAX_WAITING: Final = 4
"""Requests that may wait at a time; each keeps one of the API's forty threads meanwhile."""
_MAX_PENDING: Final = 16
"""Readings that may be begun or wait for their turn."""
_KEPT: Final = 256
"""Readings that are remembered, a few KB each."""
_KEPT_UNREAD_S: Final = 600.0
"""Seconds for which it is remembered that data could not be read."""
_READ: Final = ("task", "model", "rollout", "evaluation")
"""Parts of a configuration on which the trainer's answer depends."""
_OUT_OF_MEMORY: Final = re.compile(
    r"MemoryError|error return without exception set|[Mm]emory allocation|[Cc]annot allocate memory|bad_alloc|"
    r"(failed to|cannot) map"
)
_SETTING: Final = re.compile(r"[a-z_]+(\.[a-z0-9_-]+)*")


class DataReader:
    """Readings of data, one at a time, each in a process; what is read once is remembered while the service runs.

    Args:
        wait_s: seconds for which `read` waits.
        limit_s: seconds that one reading may take.
    """

    def __init__(self, wait_s: float = WAIT_S, limit_s: float = LIMIT_S) -> None:
        self._wait_s, self._limit_s = wait_s, limit_s
        self._readings = OrderedDict[str, Future[Preview | str]]()
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._places = threading.BoundedSemaphore(MAX_WAITING)

    def read(self, configs: Sequence[TrainingConfig], cache: Path) -> list[Preview | str | InvalidSpec]:
        """Return for each configuration what a trainer reads, the refusal of its data, tokenizer or template, or the
        reason why it could not read: too much time or memory.

        Raises: StillReading, if that takes longer than a request waits.
        """
        readings = {key: self._reading(key, config, cache) for config in configs for key in (_key(config, cache),)}
        if not all(reading.done() for reading in readings.values()):
            self._wait(list(readings.values()))
        answers = list[Preview | str | InvalidSpec]()
        for key, reading in readings.items():
            error = reading.exception()
            if error is not None:  # what is refused may be mended without a change that the key knows of
                with self._lock:
                    self._readings.pop(key, None)
            if error is not None and not isinstance(error, InvalidSpec):
                raise error
            answers.append(error or reading.result())
        return answers

    def _wait(self, readings: "Sequence[Future[Preview | str]]") -> None:
        """Return once they are done. Raises: StillReading, after a while, or at once where too many wait."""
        if not self._places.acquire(blocking=False):
            raise StillReading("the server is reading the data of other sweeps; ask again in a minute")
        try:
            _, waiting = wait(readings, self._wait_s)
        finally:
            self._places.release()
        if waiting:
            raise StillReading("the server is still reading the data of this sweep; ask again in a minute")

    def _reading(self, key: str, config: TrainingConfig, cache: Path) -> "Future[Preview | str]":
        """Return the reading of this key; begin it, if there is none."""
        with self._lock:
            if key not in self._readings:
                if sum(not reading.done() for reading in self._readings.values()) >= _MAX_PENDING:
                    raise StillReading("the server has the data of many sweeps to read; ask again in a minute")
                self._readings[key] = Future()
                threading.Thread(
                    target=self._run, args=(self._readings[key], config, cache), name="data", daemon=True
                ).start()
            self._readings.move_to_end(key)
            for old in [old for old, reading in self._readings.items() if reading.done()][:-_KEPT]:
                del self._readings[old]
            return self._readings[key]

    def _run(self, reading: "Future[Preview | str]", config: TrainingConfig, cache: Path) -> None:
        with self._turn:  # each takes a core, and half a GB
            try:
                answer = _read(config, cache, self._limit_s)
                reading.set_result(answer)
                if isinstance(answer, str):  # it stays for the submission after the plan; then the reading goes on
                    self._forget_later(reading)
            except Exception as error:  # noqa: BLE001 -- whoever asks gets it
                reading.set_exception(error)

    def _forget_later(self, reading: "Future[Preview | str]") -> None:
        def forget() -> None:
            with self._lock:
                for key in [key for key, one in self._readings.items() if one is reading]:
                    del self._readings[key]

        timer = threading.Timer(_KEPT_UNREAD_S, forget)
        timer.daemon = True
        timer.start()


READER: Final = DataReader()
"""The one of this process."""


def _key(config: TrainingConfig, cache: Path) -> str:
    """Return what names a reading: all that the trainer's answer depends on."""
    catalog, task, entries = Catalog(cache), config.task, list[tuple[str, str, str]]()
    for kind, name in entries_of(config):
        entry: Any = catalog.find(cast("type[ModelEntry]", kind), name)
        entries.append((KINDS[kind], name, getattr(entry, "digest", "")))
    content = {
        "config": config.model_dump(mode="json", include=set(_READ)),
        "entries": sorted(entries),
        "rewards": [REWARDS.code(one.name) for one in task.rewards] if isinstance(task, WordProblemsTask) else [],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(config: TrainingConfig, cache: Path, limit_s: float) -> Preview | str:
    """Return the trainer's preview, or that it took more time or memory than it may."""
    with tempfile.TemporaryDirectory(prefix="preview-") as name:
        folder = Path(name)
        code = _run(config, cache, folder, limit_s)
        output, last = (folder / "output").read_bytes(), (log_tail(folder / "log").splitlines() or ["nothing"])[-1]
    if code is None:
        return f"reading data and tokenizer took longer than {limit_s:g} s"
    answer = (output.splitlines() or [b""])[-1]  # libraries may have printed before
    if code == EXIT_CODES["SUCCEEDED"] and answer:
        return Preview.model_validate_json(answer)
    if code == EXIT_CODES["BAD_CONFIG"]:
        problems = [" ".join(problem.split()) for problem in json.loads(answer)["problems"]]
        raise InvalidSpec([SpecError(_pointer(problem), f"{problem:.1000}") for problem in problems])
    ended = f"ended by signal {code - 128}" if code > 128 else f"exit code {code}"
    if _OUT_OF_MEMORY.search(last):
        return f"reading data and tokenizer took more than {LIMIT_BYTES / 2**30:g} GiB"
    detail = f"the trainer could not read data and tokenizer: {last:.500} ({ended})"
    raise InvalidSpec([SpecError("/training/task", detail)])


def _run(config: TrainingConfig, cache: Path, folder: Path, limit_s: float) -> int | None:
    """Run the trainer, its answer and its log into files of the folder; None if it took longer than the limit."""
    file = folder / "config.yaml"
    file.write_text(config.model_dump_json(), encoding="utf-8")
    limited = ["sh", "-c", f'ulimit -d {LIMIT_BYTES >> 10}; exec "$@"', "sh"]  # below the keeper, which has no limit
    command = [sys.executable, "-m", "trainers", str(file), "--preview", "--json", "--cache", str(cache)]
    environment = without_secrets(os.environ) | {"OMP_NUM_THREADS": "1"}
    process = start_kept([*limited, *command], environment, folder / "log", answer=folder / "output")
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        stop(process, 0)


def _pointer(problem: str) -> str:
    """Return the place of the setting with which a problem begins; the task's, if it begins with none."""
    match = _SETTING.match(problem)
    path = match[0].split(".") if match else [""]
    return "/training/" + ("/".join(path) if path[0] in TrainingConfig.model_fields else "task")
