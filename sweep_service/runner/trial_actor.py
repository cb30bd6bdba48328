"""The actor around one trainer: thin, without torch. It ends with its raylet, and its trainer with it."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any, Final

from ray import tune

from sweep_service.processes.child_processes import started_at, this_host
from sweep_service.processes.log_files import LOG_FILE
from sweep_service.runner.leftovers import remove_leftovers
from sweep_service.runner.limits import Deadline, HangWatch
from sweep_service.runner.own_trainer_process import AFTER_STEP_FILE, OwnTrainerProcess
from sweep_service.runner.plain_files import make_room
from sweep_service.runner.trainer_launch import KeptProgram, Preloaded, spawned
from sweep_service.runner.trainer_process import (
    EVENTS_FILE,
    STOP_FILE,
    AttemptEnd,
    Job,
    Start,
    Trainer,
    trainer_environment,
)
from sweep_service.sweep.endings import MEANINGS, Ending
from trainers.process.lifeline import die_with_parent
from trainers.process.machine_faults import machine_fault

STEP_S: Final = 1.0
_WRITTEN: Final = ("config.yaml", "request.json", LOG_FILE, EVENTS_FILE, STOP_FILE, AFTER_STEP_FILE)
"""Names of the files in an attempt's folder that have a meaning to us."""


class TrialActor(tune.Trainable):
    """Runs one attempt after another. Every ending is a result; nothing is raised.

    Its configuration is `{"job": JSON of a Job}`. A result has `events` (JSON lines), the bytes `start` and `end`
    between which they lie in `events.jsonl`, `actor` and `process` (host, pid and start of this process and of the
    trainer), and `held_s`, for how long the attempt has held its resources; with `done` an `ending` and a `message`.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Start the trainer."""
        _end_with_raylet()
        self._preloaded: Preloaded | None = None
        self._start(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next job in the same process."""
        self._end_trainer()
        self._start(new_config)
        return True

    def _start(self, config: dict[str, Any]) -> None:
        job = self._job = Job.model_validate_json(config["job"])
        self._held_since = time.monotonic()
        self._trainer: Trainer | None = None
        self._deadline: Deadline | None = None
        self._hang_watch: HangWatch | None = None
        self._problem = AttemptEnd(Ending.FAILED)
        try:
            Path(job.directory).mkdir(parents=True, exist_ok=True)
            make_room(Path(job.directory), _WRITTEN)
            _tidy(job)
            starter = self._starter(job)
            self._trainer = OwnTrainerProcess(job, job.own, starter) if job.own else Trainer(job, starter)
            if job.limit_s is not None:
                self._deadline = Deadline(self._trainer, job.limit_s)
            if job.hung_after_s is not None:
                self._hang_watch = HangWatch(self._trainer, Path(job.directory), job.hung_after_s)
        except OSError as error:
            message = f"the trainer could not be started in {job.directory}: {error}"
            self._problem = AttemptEnd(Ending.MACHINE_FAULT if machine_fault(error) else Ending.FAILED, message)

    def _starter(self, job: Job) -> Start:
        """Fork from a preloaded process on CPUs; with a GPU or several processes, or another program, a fresh one."""
        environment = trainer_environment(job, os.environ)
        if job.own:
            return lambda command, directory: KeptProgram(command, directory, environment)
        if job.gpus or job.processes > 1:
            return lambda arguments, directory: spawned(arguments, directory, environment, job.processes)
        preloaded = self._preloaded
        if preloaded is None or not preloaded.alive or preloaded.environment != environment:
            if preloaded is not None:
                preloaded.close()
            preloaded = self._preloaded = Preloaded(environment, Path(job.directory) / "stderr.log")
        return preloaded.start

    def step(self) -> dict[str, Any]:
        """Return the trainer's events of the next second, or those until it ended."""
        try:
            return self._next_result()
        except OSError as error:
            if (fault := machine_fault(error)) is None:
                raise
            self._end_trainer()
            self._problem = AttemptEnd(Ending.MACHINE_FAULT, f"the trainer could not be followed: {fault}")
            return self._next_result()

    def _next_result(self) -> dict[str, Any]:
        trainer = self._trainer
        if trainer is None:
            nothing = {"events": "", "start": 0, "end": 0}
            return nothing | {"done": True, "ending": self._problem.ending, "message": self._problem.message}
        ended = trainer.wait(STEP_S)
        part = trainer.next_part()
        result: dict[str, Any] = {"events": part.lines, "start": part.start, "end": part.end, "done": False}
        result["held_s"] = time.monotonic() - self._held_since
        result["actor"] = json.dumps([this_host(), os.getpid(), started_at(os.getpid())])
        if trainer.started_at is not None:
            result["process"] = json.dumps([this_host(), trainer.pid, trainer.started_at])
        if ended and part.end == part.start:  # only once everything it wrote has been passed on
            ending, message = trainer.end
            if ending is Ending.SUCCEEDED:
                _tidy(self._job, ended=True)
            elif MEANINGS[ending].retried and self._deadline is not None and self._deadline.passed:
                ending = Ending.TIMED_OUT
            elif MEANINGS[ending].retried and self._hang_watch is not None and self._hang_watch.hung:
                ending, message = Ending.HUNG, self._hang_watch.message
            result |= {"done": True, "ending": ending, "message": message}
        return result

    def cleanup(self) -> None:
        """End the trainer and wait for it."""
        self._end_trainer()
        if self._preloaded is not None:
            self._preloaded.close()

    def _end_trainer(self) -> None:
        for limit in (self._deadline, self._hang_watch):
            if limit is not None:
                limit.lift()
        self._deadline = self._hang_watch = None
        if self._trainer is not None:
            self._trainer.stop()
            self._trainer = None


def _tidy(job: Job, *, ended: bool = False) -> None:
    if job.own:  # what its folders hold, and which of them it needs, only the program knows
        return
    remove_leftovers(Path(job.directory), Path(job.resume_from) if job.resume_from else None, ended=ended)


def _end_with_raylet() -> None:
    """Have this process killed when the raylet that started it ends; Ray itself takes a minute and more."""
    raylet = int(os.environ["RAY_RAYLET_PID"])
    die_with_parent()
    if os.getppid() != raylet:
        os._exit(1)

    def watch() -> None:  # the death signal may be lost, as when the starting thread ends early
        while os.getppid() == raylet:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, name="raylet-watch", daemon=True).start()
