"""Tune's hooks: a searcher hands out the ledger's trials, a callback stores results, a scheduler interrupts.

How Tune 2.60 calls them (tune_controller.py, search_generator.py): `suggest` about ten times a second, None passes,
FINISHED ends the search. A result with `done` reaches the callback, then `on_trial_complete`, not `on_trial_result`.
`stop_trial` catches what `on_trial_complete` raises and calls it again with `error`, so ending twice must be harmless.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from sweep_service.runner.ledger import Ledger, Nothing
from sweep_service.runner.wishes import Wishes


class _Unsaved:
    """Base of hooks that Tune pickles into a file that nobody reads; their contents are left out."""

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        return object, ()


class StoreSearcher(_Unsaved, Searcher):
    """Hands out trials of the store, and calls `beat` whenever Tune asks for one."""

    def __init__(self, ledger: Ledger, beat: Callable[[], None]) -> None:
        super().__init__()
        self._ledger, self._beat = ledger, beat

    def suggest(self, trial_id: str) -> Any:
        """Return the next job's configuration, None for now, or FINISHED."""
        self._beat()
        match self._ledger.next_job(trial_id):
            case Nothing.NOW:
                return None
            case Nothing.EVER | Nothing.LATER:  # Tune would wait for minutes without a look at its actors
                return Searcher.FINISHED
            case job:
                return {"job": job.model_dump_json()}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """End the trial's attempt."""
        self._ledger.complete(trial_id, None if error else result)

    def save(self, checkpoint_path: str) -> None:
        """Leave a mark: there is nothing to save, the store has it all."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Refuse: a new runner begins from the store."""
        raise NotImplementedError("a sweep goes on from the store, never from Tune's files")


class StoreCallback(_Unsaved, Callback):
    """Stores every result when it comes, the last one too, and calls `beat` whenever Tune's loop moves."""

    def __init__(self, ledger: Ledger, beat: Callable[[], None]) -> None:
        self._ledger, self._beat = ledger, beat

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Note that Tune's loop moves."""
        self._beat()

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **_: Any
    ) -> None:
        """Store the result's events and take them out of it, so that Tune does not keep them."""
        self._ledger.report(trial.trial_id, result)


class WishScheduler(_Unsaved, FIFOScheduler):
    """First in, first out; once the sweep is interrupted it stops every trial, also one that still waits for a slot.

    A trial is stopped alone that the user wants stopped while the sweep goes on, or that is to be paused for another
    sweep's turn. One that saves is left to end by itself. An actor that waits for a next trial gives its slot back if
    there is none now: it may be another sweep's turn.
    """

    def __init__(self, ledger: Ledger, wishes: Wishes) -> None:
        super().__init__()
        self._ledger, self._wishes = ledger, wishes

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Note Ray's message about an actor that died, just before the searcher hears that its trial has ended."""
        with suppress(OSError):  # Tune has it in a file
            lines = str(trial.get_pickled_error() or "").strip().splitlines()
            if lines:  # an error in the actor's code ends with what it says, any other begins with it
                self._ledger.note_error(trial.trial_id, lines[-1 if lines[0].startswith("ray::") else 0])
        super().on_trial_error(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Return the trial to run next. Tune calls this at every step of its loop."""
        ledger = self._ledger
        ledger.kill_silent_actors()
        ledger.yield_slots()
        interrupted = self._wishes.interruption is not None
        for trial in list(tune_controller.get_trials()) if self._wishes.some_end else ():
            name = trial.trial_id
            if not (trial.is_finished() or ledger.is_wanted(name) or ledger.is_saving(name)):
                tune_controller.stop_trial(trial)
        if interrupted:
            return None
        if ledger.had_nothing:  # often also after a trial, for Tune asks for trials until there is none
            tune = tune_controller._tune_controller
            waiting = [trial for trial in tune.get_live_trials() if trial.status == Trial.PENDING]
            if not any(tune._actor_cache.has_cached_object(trial.placement_group_factory) for trial in waiting):
                tune._cleanup_cached_actors(force_all=True)  # no waiting one can take an idle actor over
        return super().choose_trial_to_run(tune_controller)
