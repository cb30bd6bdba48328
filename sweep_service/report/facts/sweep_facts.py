"""The facts that all parts of the report start from: the rows, summed up once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Comparison, ConfigRow, TrialRow, Verdict
from sweep_service.sweep.records import Config, Role


@dataclass(frozen=True)
class Facts:
    """One sweep, after its tables and comparisons are made."""

    inputs: ReportInputs
    trials: Sequence[TrialRow]
    """Trials in the order of their numbers; `objective` is the value that ranks."""
    configs: Mapping[str, Config]
    """Configs by id."""
    rows: Mapping[str, ConfigRow]
    """Table rows by config id."""
    varied: Sequence[str]
    """Dotted names of the parameters in which configs differ."""
    candidates: Sequence[str]
    """Ids of the configs that tuning chose, best first."""
    unsteady: frozenset[str]
    """Ids of configs with a collapsed confirm trial: their spread says nothing about that of the others."""
    comparisons: Sequence[Comparison]
    best: ConfigRow | None
    verdict: Verdict

    @property
    def baseline(self) -> ConfigRow | None:
        """The PPO-clip baseline; None if the sweep has none."""
        return next((row for row in self.rows.values() if Role.BASELINE in row.roles), None)

    def trials_of(self, config_id: str) -> list[TrialRow]:
        """Return a config's trials, by number."""
        return [trial for trial in self.trials if trial.config_id == config_id]
