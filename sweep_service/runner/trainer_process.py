"""One trainer process: starts it, reads its events and says how it ended. Does not import Ray."""

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict

import trainers
from sweep_service.processes.child_processes import started_at, terminate, this_host
from sweep_service.processes.log_files import LOG_FILE, shorten_log
from sweep_service.runner.plain_files import is_there, read_plain
from sweep_service.runner.trainer_launch import Running
from sweep_service.settings import without_secrets
from sweep_service.sweep.endings import Ending
from trainers.config import TrainingConfig
from trainers.config.package_settings import extensible_names
from trainers.process.environment import ENVIRONMENT

EVENTS_FILE: Final = "events.jsonl"
STOP_FILE: Final = "stop"
"""Empty file in an attempt's folder by which its runner asks, wherever the trainer is, that it save and end."""
MAX_PART: Final = 1 << 20
"""Bytes of events that are passed on at a time, unless one line is longer."""
MESSAGE_LENGTH: Final = 2000
"""Most characters of what a trainer says of its end."""
_THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class OwnJob(BaseModel):
    """Needs of an attempt of a trainer of one's own, beside its file."""

    model_config = ConfigDict(frozen=True)

    command: tuple[str, ...]
    """The program and its first arguments."""
    steps: int
    """Number of the last step."""
    metric: str
    """The objective's metric, which every evaluation must give."""
    after_step: int = 0
    """Step of the checkpoint from which the attempt goes on."""


Start = Callable[[Sequence[str], Path], Running]
"""Starts a trainer with command-line arguments in a folder, to whose `stderr.log` it writes."""


class Job(BaseModel):
    """All that an actor needs to run one attempt."""

    model_config = ConfigDict(frozen=True)

    trial_id: str
    attempt: int
    directory: str
    config: dict[str, Any]
    """A complete `TrainingConfig`, or the settings of a trainer of one's own, with the seed."""
    threads: int
    """Number of CPU threads of all processes of the job together."""
    cpus: float = 1
    gpus: float
    processes: int = 1
    resume_from: str | None
    cache: str
    limit_s: float | None = None
    """Seconds after which the trainer is stopped; None for no limit."""
    hung_after_s: float | None = None
    """Seconds without a sign of life after which the trainer is ended as hung; None for no limit."""
    needs: tuple[str, ...] = ()
    """Packages from which the configuration takes something, NAME==VERSION; where one is missing the trainer ends."""
    probe: bool = False
    """True if the job only measures what such a trial costs."""
    keep_models: tuple[int, ...] = ()
    """Optimizer steps after which the model alone is kept, beside the last one."""
    own: OwnJob | None = None
    """The program that trains in place of ours."""
    measure: dict[str, Any] | None = None
    """A `MeasureRequest`, if the job trains nothing and measures a model on benchmarks."""


def needed_packages(config: TrainingConfig) -> tuple[str, ...]:
    """Return the packages that bring what a configuration names, as this machine has them."""
    packages = {key: value for kind, name in extensible_names(config) for key, value in kind.packages(name).items()}
    return tuple(f"{name}=={version}" for name, version in packages.items())


@dataclass(frozen=True)
class EventChunk:
    """Whole lines of an events file: the bytes from `start` to `end`."""

    start: int
    end: int
    lines: str

    @classmethod
    def read(cls, path: Path, start: int, limit: int = MAX_PART) -> Self:
        """Read the next lines from byte `start`; a line that is still being written is left out."""
        try:
            with path.open("rb") as file:
                file.seek(start)
                content = file.read(limit)
                if len(content) == limit and b"\n" not in content:
                    content += file.readline()
        except FileNotFoundError:
            content = b""
        whole = content[: content.rfind(b"\n") + 1]
        return cls(start, start + len(whole), whole.decode(errors="replace"))

    @property
    def events(self) -> list[dict[str, Any]]:
        """The chunk's lines, parsed."""
        return [json.loads(line) for line in self.lines.splitlines()]


class AttemptEnd(NamedTuple):
    """The end of an attempt, and the message of its trainer or its owner."""

    ending: Ending
    message: str | None = None


class Trainer:
    """A trainer at work on a job. It ends with the process that made this object."""

    def __init__(self, job: Job, start: Start) -> None:
        self._directory = Path(job.directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "config.yaml"
        config.write_text(json.dumps(job.config, indent=1))  # JSON is YAML
        self._offset, self._started_at = 0, None
        self._process = start(self._arguments(job, config), self._directory)

    def _arguments(self, job: Job, config: Path) -> list[str]:
        """Return the words after `python -m trainers`."""
        words = [str(config), "--output", job.directory, "--cache", job.cache]
        words += [word for package in job.needs for word in ("--needs", package)]
        if job.measure is not None:
            request = self._directory / "request.json"
            request.write_text(json.dumps(job.measure, indent=1))
            return [*words, "--measure", str(request)]
        resumes = ["--resume-from", job.resume_from] if job.resume_from else []
        keeps = ["--keep-models", ",".join(map(str, job.keep_models))] if job.keep_models else []
        return [*words, "--model-only-at-end", *resumes, *keeps, *(["--probe"] if job.probe else [])]

    @property
    def pid(self) -> int | None:
        """Pid of the trainer's process; None until it has one."""
        return self._process.pid

    @property
    def started_at(self) -> float | None:
        """Start time of the trainer's process, in seconds since this machine booted; None until it has one."""
        if self._started_at is None and self.pid is not None:
            self._started_at = started_at(self.pid)
        return self._started_at

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended, at most `timeout_s` seconds; return whether it has.

        Once the runner asks for it, the trainer is told to save and end.
        """
        if is_there(self._directory / STOP_FILE):
            self._process.ask_to_save()
        shorten_log(self._directory / LOG_FILE)
        self._process.wait(timeout_s)
        return self._process.exit_code is not None

    def next_part(self) -> EventChunk:
        """Return the next lines that the trainer wrote; an empty chunk if there are none now."""
        part = EventChunk.read(self._directory / EVENTS_FILE, self._offset)
        self._offset = part.end
        return part

    @property
    def end(self) -> AttemptEnd:
        """The trainer's end, once its process has ended."""
        return attempt_end(self._process.exit_code, self._directory)

    def stop(self) -> None:
        """End the trainer within a few seconds."""
        self._process.stop()

    def end_from_beside(self, grace_s: float) -> None:
        """End the trainer from another thread than its owner's: SIGTERM, and SIGKILL after `grace_s` seconds."""
        terminate(this_host(), self.pid, self.started_at, grace_s)


def trainer_environment(job: Job, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a trainer's variables: threads of each process, its GPUs as Ray gave them to its actor, no network.

    Secrets stay behind: a trainer reads the catalog, and signs in nowhere.
    """
    packages = str(Path(trainers.__file__).parent.parent)
    paths = [packages, *filter(None, [environment.get("PYTHONPATH")])]
    threads = max(1, job.threads // job.processes)
    changed = dict.fromkeys(_THREAD_VARIABLES, str(threads)) | {
        **ENVIRONMENT,
        "PYTHONPATH": os.pathsep.join(paths),
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "DO_NOT_TRACK": "1",
    }
    if not job.gpus:
        changed["CUDA_VISIBLE_DEVICES"] = ""
    return without_secrets(environment) | changed


def attempt_end(exit_code: int | None, directory: Path) -> AttemptEnd:
    """Return the end of a trainer.

    Args:
        exit_code: negative or above 128 for the signal that killed it; None if unknown, then its events decide.
        directory: where its events and its standard error are.
    """
    match exit_code:
        case 0:
            return AttemptEnd(Ending.SUCCEEDED)
        case 3:
            return AttemptEnd(Ending.DIVERGED, _message(_last_event(directory)))
        case 4:
            return AttemptEnd(Ending.LOST, f"the trainer ended with exit code 4, {as_asked(directory)}")
        case 5:
            return AttemptEnd(Ending.LOST, "the trainer ended with exit code 5: the process that had started it ended")
        case 1 | 2:
            return AttemptEnd(Ending.FAILED, _failure(directory, exit_code))
        case 6:
            return AttemptEnd(Ending.MACHINE_FAULT, _failure(directory, exit_code))
        case None:
            return _recorded_ending(directory)
        case _:
            killed = -exit_code if exit_code < 0 else exit_code - 128  # a launcher of several processes adds 128
            what = f"signal {killed}" if 0 < killed < signal.NSIG else f"exit code {exit_code}"
            last_words = _tail(directory / LOG_FILE)
            message = f"the trainer was ended by {what}" + (f": {last_words}" if last_words else "")
            return AttemptEnd(Ending.KILLED if killed == signal.SIGKILL else Ending.CRASHED, message)


def as_asked(directory: Path) -> str:
    """Say on whose wish a trainer stopped that ended as if it had been told to."""
    return "as its runner asked" if is_there(directory / STOP_FILE) else "as if told to stop, but not by its runner"


def _recorded_ending(directory: Path) -> AttemptEnd:
    last = _last_event(directory)
    match last.get("type"), last.get("outcome"):
        case "finished", ("SUCCEEDED" | "DIVERGED") as outcome:
            return AttemptEnd(Ending(outcome), _message(last))
        case "failed", _:
            ending = Ending.MACHINE_FAULT if last.get("code") == Ending.MACHINE_FAULT else Ending.FAILED
            return AttemptEnd(ending, _failure(directory, None))
        case _:
            return AttemptEnd(Ending.LOST, "the process that had started the trainer ended, and the trainer with it")


def _failure(directory: Path, exit_code: int | None) -> str:
    """Return why a trainer failed, by its last event or else its log, and the exit code if it is known."""
    last = _last_event(directory)
    if last.get("type") == "failed" and (message := _message(last)):
        return message + (f" (exit code {exit_code})" if exit_code else "")
    ended = f"the trainer ended with exit code {exit_code}"
    last_words = _tail(directory / LOG_FILE)
    return f"{ended}: {last_words}" if last_words else f"{ended} and said nothing"


def _message(event: Mapping[str, Any]) -> str | None:
    return str(event.get("message") or "")[:MESSAGE_LENGTH] or None


def _last_event(directory: Path) -> dict[str, Any]:
    lines = read_plain(directory / EVENTS_FILE, 2 * MAX_PART).split(b"\n")[:-1]
    try:
        last = json.loads(lines[-1]) if lines else {}
    except ValueError:  # the machine went down while it was written
        return {}
    return last if isinstance(last, dict) else {}


def _tail(path: Path) -> str:
    lines = read_plain(path, MESSAGE_LENGTH).replace(b"\0", b"").decode(errors="replace").strip().split("\n")
    return "\n".join(line.rpartition("\r")[2] for line in lines)  # of a progress bar only its last state
