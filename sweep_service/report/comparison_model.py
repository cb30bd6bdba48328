"""The answer to a comparison of sweeps as one typed object."""

from typing import Any

from pydantic import Field

from sweep_service.report.model import ReportPart
from sweep_service.sweep.records import SweepState


class ComparedSweep(ReportPart):
    """One of the sweeps that are compared."""

    id: str
    name: str
    state: SweepState
    spec_digest: str
    objective: str
    configs: int
    only_here: int
    """Number of configs that are not among the shared ones."""


class ConfigValues(ReportPart):
    """A config's objective in one sweep, over all its sound runs."""

    n: int
    mean: float | None
    sd: float | None
    ruined: int = 0
    """Number of ruined runs that are left out."""


class ConfigDifference(ReportPart):
    """A config's objective in another sweep, minus the one in the first, in sound runs."""

    sweep_id: str
    paired: bool
    """True if the values were paired by seed; otherwise the two means were compared."""
    seeds: int
    """Number of pairs, or the smaller number of seeds."""
    difference: float | None = None
    low: float | None = None
    """95 % interval that holds for all comparisons at once; None below 3 seeds, and where nothing varies."""
    high: float | None = None
    repeated: int = 0
    """Number of common seeds, if all of them gave exactly the same value; else 0."""


class SharedConfig(ReportPart):
    """A config that the first sweep and another one have tried."""

    config_id: str
    params: dict[str, Any]
    """Its parameters, and other settings in which the shared configs differ."""
    values: list[ConfigValues]
    """Values in each sweep, in the order of the sweeps."""
    differences: list[ConfigDifference]
    """Differences of each sweep after the first, in their order."""


class ComparedSetting(ReportPart):
    """A setting of the training, outside of the spaces, in which the sweeps differ."""

    name: str
    values: list[Any]
    """Its value in each sweep, in the order of the sweeps; null also where a training has no such setting."""


class SweepsComparison(ReportPart):
    """Sweeps beside each other, joined by config."""

    sweeps: list[ComparedSweep]
    settings: list[ComparedSetting] = Field(default=[])
    """Settings of the base training in which they differ, by name."""
    shared: list[SharedConfig]
    notes: list[str]
    """Cautions about the differences."""
    method: list[str]
