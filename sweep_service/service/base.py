"""The base of every part of the service: store, settings, and trials with their objectives."""

from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.objective import objective_metrics, trial_objectives
from sweep_service.sweep.records import Sweep, Trial


class ServicePart:
    """Store and settings, and what several parts read of them."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings

    def objectives(self, sweep: Sweep) -> tuple[list[Trial], dict[str, float | None]]:
        """Return the trials of a sweep, and the objective of each by id; None without a result."""
        trials = self.store.list_trials(sweep.id)
        deletion = self.store.deletions([sweep.id]).get(sweep.id)
        curves = self.store.curves(sweep.id, objective_metrics(sweep.spec))
        if deletion and not (deletion.keep_report and curves):  # else a trial that diverged would count alone
            return trials, dict.fromkeys((trial.id for trial in trials), None)
        return trials, trial_objectives(trials, curves, sweep.spec)
