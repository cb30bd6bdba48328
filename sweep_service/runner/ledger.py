"""The runner's book of trials and evaluations, between Tune and the store: hands out, stores reports, ends.

An evaluation on benchmarks is handed out only while no trial can begin, and none while a trial waits for evaluations to
end. So training waits for nothing but evaluations that had begun before there was a trial for their place.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final

from sweep_service.processes.child_processes import terminate
from sweep_service.runner.machine_wait import MachineWait
from sweep_service.runner.plain_files import is_there
from sweep_service.runner.recovery import end_unwatched, evaluated, own_job
from sweep_service.runner.running_attempt import RunningAttempt
from sweep_service.runner.trainer_process import STOP_FILE, AttemptEnd, Job, needed_packages
from sweep_service.runner.turns import Turns
from sweep_service.runner.waiting_work import WaitingWork
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.budget import (
    left_s,
    stopped_message,
)
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.evaluations import benchmarks_of, measuring_request, steps_to_keep
from sweep_service.sweep.records import Attempt, Config, Evaluation, Sweep, Trial, Work
from sweep_service.sweep.shares import Node, Part
from sweep_service.sweep.spec import Resources
from trainers.config import TrainingConfig

MARK_EVERY_S: Final = 5.0
"""Seconds between two notes in the store of how long a trial has held its resources."""
MOST_IN_A_ROW: Final = {Ending.LOST: 10, Ending.MACHINE_FAULT: 100}
"""Number of attempts of a trial that may end so in a row before one gets further. A disk may be full for an hour, in
which one is tried every minute; what meets such an error for ever, such as files left open, is the trial's own fault.
"""


def _last(works: Sequence[Work]) -> Work:
    return max(works, key=lambda work: work.number)


class Nothing(Enum):
    """Reason why no trial is handed out."""

    NOW = "now"  # all slots are taken, or running trials decide what comes next
    LATER = "later"  # nothing of the sweep runs, and nothing may begin now, such as in another sweep's turn
    EVER = "ever"  # the sweep needs no more trials, or is interrupted


class Ledger:
    """The one owner of a sweep's attempts while its runner lives. Not thread-safe, but for `kill_trainers`.

    Args:
        fence: the right to write; every method may raise StaleEpoch.
        fits: whether so many trials and so many evaluations may run at a time, asked anew each time.
        nodes, give_way: as for `Turns`.
    """

    def __init__(
        self,
        store: Store,
        fence: Fence,
        settings: Settings,
        fits: Callable[[int, int], bool],
        wishes: Wishes,
        nodes: Callable[[], Sequence[Node]],
        give_way: Callable[[], None],
    ) -> None:
        self._turns = Turns(store, fence, nodes, give_way)
        self._store, self._fence, self._settings, self._fits, self._wishes = store, fence, settings, fits, wishes
        self._configs: dict[str, Config] = {}
        self._running: dict[str, RunningAttempt] = {}  # by the names that Tune gives to trials
        # With this room the rows gave nothing to do, and none of them has changed since.
        self._idle_room: tuple[bool, ...] | None = None
        self._machine = MachineWait(settings.storage)
        # The furthest step of each trial or evaluation that was lost, and how often in a row it was lost since then.
        self._losses: dict[tuple[str, Ending], tuple[int, int]] = {}
        self._delay: str | None = None  # what the store says of it
        self.had_nothing = True
        """True if nothing was handed out when it was last asked, so that no idle actor is to hold a slot for it."""
        self._sweep = wishes.sweep
        self._waiting = WaitingWork(store, fence, wishes.sweep)

    @property
    def generation(self) -> int:
        """The sweep's generation for which this hands out."""
        return self._sweep.generation

    @property
    def given_up(self) -> str | None:
        """Why no other trial begins because those so far have failed; None while there is hope."""
        return self._waiting.given_up

    def _take(self, sweep: Sweep) -> None:
        self._sweep, self._idle_room = sweep, None
        self._waiting.take(sweep)

    def next_job(self, name: str) -> Job | Nothing:
        """Hand out the next trial or evaluation as `name`, if it is the sweep's turn.

        Its attempt is stored before this returns.
        """
        job = self._next_job(name)
        self.had_nothing = isinstance(job, Nothing)
        return Nothing.LATER if job is Nothing.NOW and not self._running else job

    def outlook(self) -> Nothing | None:
        """Return what `next_job` would say while nothing of the sweep runs: LATER, EVER, or None if it has a job."""
        work = self._next_work()
        if isinstance(work, Nothing):
            self._turns.withdraw()
            return Nothing.LATER if work is Nothing.NOW else work
        may_begin = self._turns.could_begin(self._part(work))
        self._say_what_delays(self._turns.delay)
        return None if may_begin else Nothing.LATER

    def _next_job(self, name: str) -> Job | Nothing:
        if self._turns.is_early and not self._wishes.interruption:
            return Nothing.NOW
        work = self._next_work()
        if isinstance(work, Nothing):
            self._turns.withdraw()
            return work
        directory = self._settings.storage / work.sweep_id / work.id / "{attempt}"
        attempt = self._turns.begin(work.id, str(directory), self._part(work), alone=not self._running)
        self._say_what_delays(self._turns.delay)
        if attempt is None:
            return Nothing.NOW
        self._wishes.stops.pop(work.id, None)  # one that was heard before is over: somebody has it tried again
        self._running[name] = RunningAttempt(attempt, work, self._sweep.spec.budget.max_trial_hours)
        return self._job(work, attempt)

    def _next_work(self) -> Work | Nothing:
        if self._wishes.interruption:
            return Nothing.EVER
        if self._wishes.sweep.generation != self._sweep.generation:
            self._take(self._wishes.sweep)
        most = self._sweep.spec.resources.max_parallel
        if not self._machine.is_over or (most is not None and len(self._running) >= most):
            return Nothing.NOW
        evaluations = sum(isinstance(running.work, Evaluation) for running in self._running.values())
        trials, fits = len(self._running) - evaluations, self._fits
        trains, measures, alone = room = (
            fits(trials + 1, evaluations),
            fits(trials, evaluations + 1),
            fits(trials + 1, 0),
        )
        if room == self._idle_room or not (trains or measures):
            return Nothing.NOW
        may_train, others_run = alone and not self._sweep.has_trained, bool(self._running)
        trial = self._waiting.next_trial(others_run=others_run) if may_train else None
        if self.given_up is not None:
            return Nothing.NOW if self._running else Nothing.EVER
        work = trial if trains else None  # else it waits for evaluations to end, and no other goes before it
        if trial is None and measures:
            work = self._waiting.next_evaluation(others_run=others_run)
        if work is None:
            self._idle_room = room if self._running else None
            return Nothing.NOW if self._running else Nothing.EVER
        return work

    def _part(self, work: Work) -> Part:
        return Part.of(self._resources(work))

    def _resources(self, work: Work) -> Resources:
        spec = self._sweep.spec
        return spec.evaluation_resources if isinstance(work, Evaluation) else spec.resources

    def _job(self, work: Work, attempt: Attempt) -> Job:
        if work.config_id not in self._configs:
            self._configs = {config.id: config for config in self._store.list_configs(self._sweep.id)}
        spec, config = self._sweep.spec, self._configs[work.config_id].settings | {"seed": work.seed}
        measures = isinstance(work, Evaluation)
        resources = self._resources(work)
        checkpoint = None if measures else self._store.newest_checkpoint(work.id)
        if checkpoint is not None and not is_there(checkpoint.path):
            checkpoint = None
        training = TrainingConfig.model_validate(config) if spec.trainer is None else None
        return Job(
            trial_id=work.id,
            attempt=attempt.number,
            directory=attempt.directory,
            config=config,
            threads=work.threads,
            cpus=resources.cpus,
            gpus=resources.gpus,
            processes=1 if measures or training is None else resources.processes_for(training),
            resume_from=checkpoint.path if checkpoint else None,
            own=own_job(spec, checkpoint.step if checkpoint else 0),
            cache=str(self._settings.cache),
            needs=() if training is None else needed_packages(training),
            limit_s=left_s(spec, work.held_s),
            hung_after_s=60 * spec.retries.hung_after_minutes,
            keep_models=steps_to_keep(spec, work) if isinstance(work, Trial) else (),
            measure=self._request(work) if isinstance(work, Evaluation) else None,
        )

    def _request(self, evaluation: Evaluation) -> dict[str, Any]:
        """Return what is to be measured; samples of a trained model stay in one folder over all attempts."""
        if evaluation.trial_id is None:
            return measuring_request(benchmarks_of(self._sweep, None, 0), None, None)
        benchmarks = benchmarks_of(self._sweep, self._store.get_trial(evaluation.trial_id), evaluation.model_step)
        results = self._settings.storage / evaluation.sweep_id / evaluation.id / "results"
        return measuring_request(benchmarks, self._waiting.model(evaluation), str(results))

    def report(self, name: str, result: dict[str, Any]) -> None:
        """Store what a trial's actor sent; its events are taken out of the result."""
        running = self._running[name]
        running.has_reported = True
        if "actor" in result:
            running.actor = tuple(json.loads(result["actor"]))
        self._note_held(running, result.get("held_s", running.held_s))
        if "process" in result and running.attempt.pid is None:
            host, pid, started = json.loads(result["process"])
            process = {"host": host, "pid": pid, "pid_started_at": started}
            running.attempt = running.attempt.model_copy(update=process)  # known to `kill_trainers` before all else
            self._store.set_process(self._fence, running.attempt, host, pid, started)
        events = [json.loads(line) for line in result.pop("events", "").splitlines()]
        if result.get("end", 0) > result.get("start", 0):  # all of its events may have been thinned out
            self._store.ingest(self._fence, running.attempt, result["start"], result["end"], events)
            if any(event.get("model_only") for event in events):  # a model that can be measured
                self._idle_room = None

    def _note_held(self, running: RunningAttempt, held_s: float) -> None:
        """Note for how long an attempt has held its resources, and tell the store every `MARK_EVERY_S` seconds."""
        running.held_s, running.reported_at = held_s, time.monotonic()
        if held_s - running.stored_s >= MARK_EVERY_S or (held_s and not running.stored_s):
            self._store.set_held(self._fence, running.attempt, held_s)
            running.stored_s = held_s

    def yield_slots(self) -> None:
        """Choose what gives its slot back: a trial that has run for long, for another sweep, or what has no node."""
        yielding, turn_s = self._wishes.yielding, 60 * self._settings.turn_minutes
        goes_on = [one for one in self._running.values() if one.work.id not in yielding]
        long = [one.work for one in goes_on if isinstance(one.work, Trial) and one.held_s >= turn_s]
        freeing = [self._part(one.work) for one in self._running.values() if one.work.id in yielding]
        if long and (first := self._turns.comes_first(freeing)):
            yielding[_last(long).id] = f"it has saved and waits, because it is the turn of sweep {first.name}"
        unplaced = [one.work for one in goes_on if one.waits_for_place]
        if unplaced and self._turns.is_overdrawn():
            yielding[_last(unplaced).id] = "it waits again, because the node for it went away before it began"

    def is_wanted(self, name: str) -> bool:
        """True if an attempt may go on: neither its sweep nor its trial is to end, nor is it another sweep's turn."""
        running = self._running.get(name)
        return (self._wishes.halt(running.work.id) if running else self._wishes.interruption) is None

    def is_saving(self, name: str) -> bool:
        """True if an attempt that is not wanted any more has time left to save. The first call asks its trainer to."""
        running = self._running.get(name)
        halt = self._wishes.halt(running.work.id) if running else None
        if halt is None or running is None or running.reported_at is None:  # without a trainer yet
            return False
        if running.asked_at is None:
            running.asked_at = time.monotonic()
        stop = Path(running.attempt.directory) / STOP_FILE
        if halt.save_within_s and not is_there(stop):
            with suppress(OSError):  # the disk is full: the next call tries again
                stop.touch()
        return time.monotonic() - running.asked_at < halt.save_within_s

    def complete(self, name: str, result: dict[str, Any] | None) -> None:
        """End a trial's attempt. Ending it again changes nothing.

        Args:
            result: the last result; None or without an ending if the attempt was interrupted or its actor died.
        """
        running = self._running.get(name)
        if running is None:
            return
        attempt, more_held_s = running.attempt, running.held_s - running.stored_s
        if result is not None and "ending" in result:
            ending, message = Ending(result["ending"]), result.get("message")
            if ending is Ending.LOST and running.asked_at is not None and (halt := self._wishes.halt(running.work.id)):
                ending, message = halt.ending, halt.message
            if ending is Ending.TIMED_OUT:
                ending, message = self._timed_out(running)
            end, own = AttemptEnd(ending, message), own_job(self._sweep.spec)  # whose models no benchmark measures
            ending, message = evaluated(self._store, self._fence, attempt, own, end)
            self._finish(attempt, ending, message, more_held_s)
        else:
            if running.reported_at is not None:  # it held them until now, or longer than anyone can tell
                more_held_s += time.monotonic() - running.reported_at
            ending, message = end_unwatched(self._store, self._fence, attempt, own_job(self._sweep.spec))
            if halt := self._wishes.halt(running.work.id):
                ending, message = halt.ending, halt.message
            elif ending is Ending.LOST:
                message = running.actor_error
            self._finish(attempt, ending, message, more_held_s)
        del self._running[name]
        self._wishes.yielding.pop(attempt.trial_id, None)
        self._idle_room = None
        self._waiting.free_models(running.work.trial_id if isinstance(running.work, Evaluation) else running.work.id)

    def _timed_out(self, running: RunningAttempt) -> AttemptEnd:
        """Return the ending of an attempt that has used its time; by now the limit may be higher."""
        spec, work = self._wishes.sweep.spec, self._store.get_work(running.work.id)
        more_s = left_s(spec, work.held_s + running.held_s - running.stored_s)
        if spec.budget.max_trial_hours != running.limit_hours and (more_s is None or more_s > 0):
            return AttemptEnd(Ending.PAUSED, "it goes on: its limit was raised while it ran")
        return AttemptEnd(Ending.TIMED_OUT, stopped_message(spec, work))

    def _finish(self, attempt: Attempt, ending: Ending, message: str | None, more_held_s: float) -> None:
        if ending in MOST_IN_A_ROW:
            ending, message = self._judge_loss(attempt, ending, message)
        crashes = self._sweep.spec.retries.max_crashes
        if self._store.finish_attempt(self._fence, attempt, ending, message, crashes, more_held_s).is_over:
            self._waiting.look_for_hope()
        if ending is Ending.MACHINE_FAULT:
            self._machine.begin()
            where = attempt.host or "its machine"
            self._say_what_delays(f"nothing begins until {where} is well again, and then the sweep goes on: {message}")
        elif ending is not Ending.LOST:
            self._machine.forget()

    def _judge_loss(self, attempt: Attempt, ending: Ending, message: str | None) -> AttemptEnd:
        """Decide on a trial whose attempt was lost by no fault of its own; the next attempt begins later.

        It is tried again and again, but not for ever if none of its attempts gets further.
        """
        work = self._store.get_work(attempt.trial_id)
        furthest, losses = self._losses.get((work.id, ending), (0, 0))
        if work.step > furthest:
            furthest, losses = work.step, 0
            self._machine.forget()
        losses += 1
        self._losses[work.id, ending] = furthest, losses
        self._machine.begin()
        if losses < MOST_IN_A_ROW[ending]:
            again = f"This was loss {losses} in a row without getting further; {MOST_IN_A_ROW[ending]} end it."
            return AttemptEnd(ending, f"{message or 'nobody could say why'}\n{again}")
        text = f"{losses} of its attempts in a row were lost before one got further, the last because {message}"
        return AttemptEnd(Ending.FAILED, f"{text}; the logs of Ray on {attempt.host or 'its nodes'} may say more")

    def note_error(self, name: str, message: str) -> None:
        """Note what Ray says of an actor that died; Tune then completes its trial."""
        if name in self._running:
            self._running[name].actor_error = message

    def kill_silent_actors(self) -> None:
        """Kill actors of this host that live and report no more: Ray then notices, and Tune completes their trials."""
        for running in self._running.values():
            if running.vigil.hangs() and running.actor is not None:
                running.vigil.begin_anew()
                terminate(*running.actor)

    def _say_what_delays(self, message: str | None) -> None:
        if message != self._delay:
            self._store.say_what_delays(self._fence, message)
            self._delay = message

    def kill_trainers(self) -> None:
        """Kill this host's trainers without writing to the store, for another runner may own the sweep by now."""
        for running in list(self._running.values()):
            attempt = running.attempt
            with suppress(OSError):
                terminate(attempt.host, attempt.pid, attempt.pid_started_at)
