"""The stretch of values that a chart of curves shows, and the zones of entropy that belong into it."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sweep_service.health.run_health import ENTROPY_COLLAPSE
from sweep_service.health.signs import EXPLOSION
from sweep_service.report.model import Report, ReportCurve

_NEAR: Final = 0.75
"""A zone is shown once a curve has gone this share of the way from the start to the zone's limit."""
_ROOM: Final = 0.15
"""Beyond the curves a band is shown up to this multiple of their span, so that wide bands press no curves together."""


class Zone(NamedTuple):
    """Entropies that mean collapse or explosion for a trial that started at the configs' average."""

    low: float
    high: float
    words: str
    at_top: bool
    """True if the words stand at its upper edge."""


class ValueRange(NamedTuple):
    """The least and the largest value that must be seen."""

    low: float
    high: float

    @property
    def from_zero(self) -> bool:
        """True if an axis from zero leaves at least half of its length to the values; else it begins near them."""
        return 0 <= self.low <= self.high - self.low

    @property
    def ends(self) -> tuple[float, float]:
        """The ends that an axis may have at most."""
        room = _ROOM * ((self.high - self.low) or abs(self.high) or 1.0)
        return 0 if self.from_zero else self.low - room, self.high + room


def value_range(curves: Iterable[ReportCurve], zones: Iterable[Zone] = ()) -> ValueRange:
    """Return the range of curves' means and single seeds, and of the zones that are shown."""
    lines = [line for curve in curves for line in (curve.mean, *(seed.values for seed in curve.seeds))]
    values = [value for line in lines for value in line if value is not None]
    values += [end for zone in zones for end in (zone.low, zone.high)]
    return ValueRange(min(values, default=0.0), max(values, default=1.0))


def entropy_zones(report: Report, curves: Iterable[ReportCurve]) -> list[Zone]:
    """Return the zones that a curve comes near; others would stretch the axis for nothing."""
    starts = [row.entropy_start for row in report.configs if row.entropy_start is not None]
    if not starts:
        return []
    start, (lowest, highest) = sum(starts) / len(starts), value_range(curves)
    floor, ceiling = ENTROPY_COLLAPSE * start, EXPLOSION * start
    zones = list[Zone]()
    if lowest < start + _NEAR * (floor - start):
        zones.append(Zone(0, floor, "entropy collapse (below a fifth of the start)", at_top=False))
    if highest > start + _NEAR * (ceiling - start):
        top = max(highest, 1.05 * ceiling)
        zones.append(Zone(ceiling, top, "entropy explosion (above 3 x the start)", at_top=True))
    return zones
