"""Effect of one setting on a result, all else equal: a straight line for each training seed.

Every seed of a stage trains the same configs, so that the seeds' slopes are draws of one quantity, and Student's t over
seeds is exact for normal errors. Nothing is assumed of the configs: one may be noisier than others, results may be
curved in the setting, and a seed may change the slope. The seeds' own effects drop out. Where trials are
missing, seeds' slopes are unlike in precision, and Student's t with equal weights stays valid (Ibragimov and Mueller,
2010: it is conservative at 5 %). Simulations behind the choice: docs/statistics.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

_LEAST_SPREAD: Final = 0.5
"""A seed counts if it has this share of the widest seed's spread; a fragment would weigh as much as a whole design."""
_NO_SPREAD: Final = 1e-12


@dataclass(frozen=True)
class SettingPoint:
    """One trial's setting and result."""

    seed: int
    group: str
    """Name of everything but the setting: trials are compared within a seed and a group."""
    setting: float
    result: float


class SeedSlopes(NamedTuple):
    """Change of the result per unit of the setting."""

    by_seed: Mapping[int, float]
    partial: int
    """Number of seeds left out because they lack too many trials."""


def seed_slopes(points: Iterable[SettingPoint]) -> SeedSlopes:
    """Fit each seed's groups by parallel straight lines; seeds on which no group varies have no slope."""
    seeds: dict[int, dict[str, list[SettingPoint]]] = {}
    for point in points:
        seeds.setdefault(point.seed, {}).setdefault(point.group, []).append(point)
    products: dict[int, float] = dict.fromkeys(seeds, 0.0)  # of the setting about its group's mean and the result
    spreads: dict[int, float] = dict.fromkeys(seeds, 0.0)  # squares of the setting about its group's mean
    for seed, groups in seeds.items():
        for group in groups.values():
            rows = np.array([(point.setting, point.result) for point in group])
            centred = rows[:, 0] - rows[:, 0].mean()
            products[seed] += float(centred @ rows[:, 1])
            spreads[seed] += float(centred @ centred)
    varied = [seed for seed, spread in spreads.items() if spread > _NO_SPREAD]
    least = _LEAST_SPREAD * max((spreads[seed] for seed in varied), default=0.0)
    whole = sorted(seed for seed in varied if spreads[seed] >= least)
    return SeedSlopes({seed: products[seed] / spreads[seed] for seed in whole}, len(varied) - len(whole))
