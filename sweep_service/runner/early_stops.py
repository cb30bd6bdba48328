"""Asks the sweep's rule of early stopping when rows have changed, and stores its judgements before anybody acts."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sweep_service.runner.wishes import Wishes
from sweep_service.stopping.table import judge
from sweep_service.store import Fence, Store
from sweep_service.sweep.early_stopping import looks_at_all
from sweep_service.sweep.objective import objective_metrics

ASK_EVERY_S: Final = 1.0
"""Seconds between two looks at evaluations of trials that run."""


class EarlyStops:
    """The judgements of one sweep, while its runner lives. Without a rule it does nothing."""

    def __init__(self, store: Store, fence: Fence, wishes: Wishes) -> None:
        self._store, self._fence, self._wishes = store, fence, wishes
        self._changed = True  # an earlier runner may have died before it asked
        self._asked_at = float("-inf")

    def note_end(self) -> None:
        """Note that a trial has ended: the next look comes before another trial is handed out."""
        self._changed, self._asked_at = True, float("-inf")

    def note_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Note new events of a trial that runs, on which only rules that judge single runs depend."""
        rule = self._wishes.sweep.spec.early_stopping
        if rule is not None and not looks_at_all(rule):
            self._changed = self._changed or any(event["type"] == "evaluation" for event in events)

    def look(self) -> None:
        """Ask the rule until it has nothing more to say, if something has changed; dropped trials are to end."""
        now, sweep = time.monotonic(), self._wishes.sweep
        if not self._changed or now - self._asked_at < ASK_EVERY_S or sweep.spec.early_stopping is None:
            return
        self._changed, self._asked_at = False, now
        configs, metrics = self._store.list_configs(sweep.id), objective_metrics(sweep.spec)
        trials, curves = self._store.list_trials(sweep.id), self._store.curves(sweep.id, metrics)
        while new := judge(sweep.spec, configs, trials, curves, self._store.judgements(sweep.id)):
            self._store.judge(self._fence, new)
        self._wishes.dropped = self._store.dropped_running(sweep.id)
