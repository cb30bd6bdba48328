"""The base of every part of the service: store, settings, and trials with their objectives."""

from pydantic import ValidationError

from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.budget import StageCounts
from sweep_service.sweep.objective import objective_metrics, trial_objectives
from sweep_service.sweep.plan import stage_counts
from sweep_service.sweep.records import Sweep, Trial


class ServicePart:
    """Store and settings, and what several parts read of them."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self._planned: dict[
            str, StageCounts
        ] = {}  # by the spec's digest; a list of sweeps asks for many, again and again

    def planned(self, sweep: Sweep) -> StageCounts:
        """Return how many trials a sweep has at most; none once it trains no more."""
        if not sweep.state.trials_may_change:
            return StageCounts(0, 0)
        if sweep.spec_digest not in self._planned:
            try:
                self._planned[sweep.spec_digest] = stage_counts(sweep.spec)
            except ValidationError:  # stored by another version; its runner says so
                return StageCounts(0, 0)
        return self._planned[sweep.spec_digest]

    def objectives(self, sweep: Sweep) -> tuple[list[Trial], dict[str, float | None]]:
        """Return the trials of a sweep, and the objective of each by id; None without a result."""
        trials = self.store.list_trials(sweep.id)
        deletion = self.store.deletions([sweep.id]).get(sweep.id)
        curves = self.store.curves(sweep.id, objective_metrics(sweep.spec))
        if deletion and not (deletion.keep_report and curves):  # else a trial that diverged would count alone
            return trials, dict.fromkeys((trial.id for trial in trials), None)
        return trials, trial_objectives(trials, curves, sweep.spec)
