"""The attempts of a sweep under way, between Tune and the store: they begin, report and end here.

Which trial or evaluation comes next is for `waiting_work`, whether it is the sweep's turn for `turns`.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final

from sweep_service.processes.child_processes import terminate
from sweep_service.runner.early_stops import EarlyStops
from sweep_service.runner.health_watch import HealthWatch, looked_at
from sweep_service.runner.jobs import own_job, resources_of, work_job
from sweep_service.runner.machine_wait import MachineWait
from sweep_service.runner.plain_files import is_there
from sweep_service.runner.recovery import end_unwatched, evaluated
from sweep_service.runner.running_attempt import RunningAttempt
from sweep_service.runner.trainer_process import STOP_FILE, AttemptEnd, Job
from sweep_service.runner.turns import Turns
from sweep_service.runner.waiting_work import WaitingWork
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.budget import left_s, stopped_message
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Attempt, Config, Evaluation, Trial, Work
from sweep_service.sweep.shares import Node, Part

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
        fits: as for `WaitingWork`.
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
        self._store, self._fence, self._settings, self._wishes = store, fence, settings, wishes
        self.waiting = WaitingWork(store, fence, wishes.sweep, fits)
        """The work that waits, and the sweep for whose generation this hands out."""
        self._early_stops, self._health = EarlyStops(store, fence, wishes), HealthWatch(store, fence, wishes)
        self._configs: dict[str, Config] = {}
        self._running: dict[str, RunningAttempt] = {}  # by the names that Tune gives to trials
        self._machine = MachineWait(settings.storage)
        # The furthest step of each trial or evaluation that was lost, and how often in a row it was lost since then.
        self._losses: dict[tuple[str, Ending], tuple[int, int]] = {}
        self._delay: str | None = None  # what the store says of it
        self.had_nothing = True
        """True if nothing was handed out when it was last asked, so that no idle actor is to hold a slot for it."""

    def next_job(self, name: str) -> Job | Nothing:
        """Hand out the next trial or evaluation as `name`, if it is the sweep's turn.

        Its attempt is stored before this returns.
        """
        job = self._next_job(name)
        self.had_nothing = isinstance(job, Nothing)
        return Nothing.LATER if job is Nothing.NOW and not self._running else job

    def outlook(self) -> Nothing | None:
        """Return the answer of `next_job` while nothing of the sweep runs: LATER, EVER, or None if it has a job."""
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
        if work.config_id not in self._configs:
            self._configs = {config.id: config for config in self._store.list_configs(work.sweep_id)}
        directory = self._settings.storage / work.sweep_id / work.id / "{attempt}"
        attempt = self._turns.begin(work.id, str(directory), self._part(work), alone=not self._running)
        self._say_what_delays(self._turns.delay)
        if attempt is None:
            return Nothing.NOW
        self._wishes.stops.pop(work.id, None)  # one that was heard before is over: somebody has it tried again
        self._wishes.dropped.pop(work.id, None)
        self._wishes.ruined.pop(work.id, None)
        self._running[name] = RunningAttempt(attempt, work, self.waiting.sweep.spec.budget.max_trial_hours)
        model = self.waiting.model(work) if isinstance(work, Evaluation) and work.trial_id is not None else None
        config = self._configs[work.config_id]
        return work_job(self._store, self._settings, self.waiting.sweep, config, work, attempt, model)

    def _next_work(self) -> Work | Nothing:
        if self._wishes.interruption:
            return Nothing.EVER
        if self._wishes.sweep.generation != self.waiting.sweep.generation:
            self.waiting.take(self._wishes.sweep)
        if not self._machine.is_over:
            return Nothing.NOW
        self._early_stops.look()
        evaluations = sum(isinstance(running.work, Evaluation) for running in self._running.values())
        work = self.waiting.next_work(len(self._running) - evaluations, evaluations)
        if work is None:
            return Nothing.NOW if self._running else Nothing.EVER
        return work

    def _part(self, work: Work) -> Part:
        return Part.of(resources_of(self.waiting.sweep.spec, work))

    def report(self, name: str, result: dict[str, Any]) -> None:
        """Store a result of a trial's actor; its events are taken out of it."""
        running = self._running[name]
        running.has_reported = True
        if "actor" in result:
            running.actor = tuple(json.loads(result["actor"]))
        running.held_s, running.reported_at = result.get("held_s", running.held_s), time.monotonic()
        if running.held_s - running.stored_s >= MARK_EVERY_S or (running.held_s and not running.stored_s):
            self._store.set_held(self._fence, running.attempt, running.held_s)
            running.stored_s = running.held_s
        if "process" in result and running.attempt.pid is None:
            host, pid, started = json.loads(result["process"])
            process = {"host": host, "pid": pid, "pid_started_at": started}
            running.attempt = running.attempt.model_copy(update=process)  # known to `kill_trainers` before all else
            self._store.set_process(self._fence, running.attempt, host, pid, started)
        events = [json.loads(line) for line in result.pop("events", "").splitlines()]
        if result.get("end", 0) > result.get("start", 0):  # all of its events may have been thinned out
            self._store.ingest(self._fence, running.attempt, result["start"], result["end"], events)
            self._early_stops.note_events(events)
            self._health.note_events(running.work, events)
            if any(event.get("model_only") for event in events):  # a model that can be measured
                self.waiting.look_again()

    def yield_slots(self) -> None:
        """Choose what gives its slot back: a trial that has run for long, for another sweep, or what has no node.

        What health or a rule of early stopping ends is chosen before them.
        """
        self._health.look()
        self._early_stops.look()
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
        spec, attempt, more_held_s = self.waiting.sweep.spec, running.attempt, running.held_s - running.stored_s
        if result is not None and "ending" in result:
            ending, message = Ending(result["ending"]), result.get("message")
            if ending is Ending.LOST and running.asked_at is not None and (halt := self._wishes.halt(running.work.id)):
                ending, message = halt.ending, halt.message
            if ending is Ending.TIMED_OUT:
                ending, message = self._timed_out(running)
            end, own = AttemptEnd(ending, message), own_job(spec)  # whose models no benchmark measures
            ending, message = evaluated(self._store, self._fence, attempt, own, end)
        else:
            if running.reported_at is not None:  # it held them until now, or longer than anyone can tell
                more_held_s += time.monotonic() - running.reported_at
            ending, message = end_unwatched(self._store, self._fence, attempt, own_job(spec))
            if halt := self._wishes.halt(running.work.id):
                ending, message = halt.ending, halt.message
            elif ending is Ending.LOST:
                message = running.actor_error
        if isinstance(running.work, Trial):
            end = AttemptEnd(ending, message)
            ending, message = looked_at(self._store, self._fence, self._wishes.sweep, attempt.trial_id, end)
        self._finish(attempt, ending, message, more_held_s)
        self._early_stops.note_end()
        del self._running[name]
        self._wishes.yielding.pop(attempt.trial_id, None)
        self.waiting.look_again()
        self.waiting.free_models(running.work.trial_id if isinstance(running.work, Evaluation) else running.work.id)

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
        crashes = self.waiting.sweep.spec.retries.max_crashes
        if self._store.finish_attempt(self._fence, attempt, ending, message, crashes, more_held_s).is_over:
            self.waiting.look_for_hope()
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
        """Note Ray's message about an actor that died; Tune then completes its trial."""
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
