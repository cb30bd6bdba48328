"""Worlds of sweeps whose truth is known: what configs are worth, and what their trials come to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from sweep_service.sweep.endings import Ending
from trainers.evaluation.problem_parts import MIN_PROBLEMS

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
RECORDED: Final = Path(__file__).with_name("recorded_sweeps.json")
RATES: Final = (1e-4, 2e-4, 3e-4)
"""Learning rates of the spaces that have several; the base has the first one."""
BETAS: Final = (0.25, 0.5, 0.75)
LEVEL: Final = 0.6
"""Result around which worlds of shares of right answers lie."""
POINTS: Final = 9
"""Number of points of most spaces."""
_SAMPLES: Final = 10**6


@dataclass(frozen=True)
class Results:
    """Results of trials of some arms, arms by seeds."""

    values_AS: Floats
    """NaN for a failed trial."""
    collapsed_AS: Flags
    right_ASP: Numbers | None = None
    """Right ones among a problem's samples, where the world has problems; the values are then their shares."""
    names: tuple[str, ...] = ()
    """Names of these problems."""
    samples: int = 1
    """Samples of each problem."""
    ending: Ending = Ending.LOST
    """How failed trials end: by no fault of their own, unless said otherwise."""


def without_luck(values_AS: Floats, collapsed_AS: Flags) -> Results:
    """Return results of which so many samples of problems that are all alike were counted that luck has no part."""
    right_ASP = np.repeat(np.rint(values_AS * _SAMPLES).astype(int)[:, :, None], 2 * MIN_PROBLEMS, axis=2)
    return Results(values_AS, collapsed_AS, right_ASP, _names(2 * MIN_PROBLEMS), _SAMPLES)


class World(Protocol):
    """A kind of sweeps whose truth is known."""

    def deal(self, rng: np.random.Generator) -> "Arms":
        """Draw one sweep's configs."""
        ...

    def train(self, arms: "Arms", rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        ...


@dataclass(frozen=True)
class Arms:
    """One sweep's configs: the points of the space, the baseline and the DAPO arm, then further matched baselines."""

    means_A: Floats
    sds_A: Floats
    """Standard deviations of the error, the seeds' part left out."""
    prior: tuple[float, float]
    """Mean and standard deviation of what means are drawn from."""
    source: "World"
    numbers_A: Numbers
    """Which recorded arm each one is."""

    @property
    def points(self) -> int:
        """Number of points of the space."""
        return self.source.points if isinstance(self.source, Rates) else len(self.means_A) - 2

    def train(self, rng: np.random.Generator, which: Sequence[int], seeds: int) -> Results:
        """Train some of the arms on fresh seeds, the same for all."""
        return self.source.train(self, rng, np.asarray(which), seeds)

    def covariance(self, which: Sequence[int]) -> Floats:
        """The true covariance of some arms' errors on one seed, the seed's part left out."""
        sds_A, alike = np.maximum(self.sds_A[which], 1e-6), self.source.alike if isinstance(self.source, Drawn) else 0.0
        of_space_A = np.asarray(which) < self.points
        covariance_AA = np.where(np.outer(of_space_A, of_space_A), alike * np.outer(sds_A, sds_A), 0.0)
        np.fill_diagonal(covariance_AA, sds_A**2)
        return covariance_AA


@dataclass(frozen=True)
class Drawn:
    """Errors and seed effects from a formula, around a share of right answers; all spreads are in units of `unit`."""

    spread: float
    """Standard deviation of the true means of the space's points; the baseline and the DAPO arm have the level's."""
    heavy: bool = False
    """Errors from Student's t with 3 degrees of freedom, scaled to the same standard deviation."""
    noisy: tuple[tuple[int, float], ...] = ()
    """Arms with another standard deviation, and which; 9 is the baseline."""
    points: int = POINTS
    alike: float = 0.0
    """Correlation of the errors of the space's points, which train alike; the comparators train otherwise."""
    unit: float = 0.02
    """Standard deviation of an error, and of what a seed adds to all configs."""

    def deal(self, rng: np.random.Generator) -> Arms:
        """Draw one sweep's configs."""
        means_A = np.append(rng.normal(0, self.spread, self.points) if self.spread else np.zeros(self.points), [0, 0])
        sds_A = np.ones(len(means_A))
        for arm, sd in self.noisy:
            sds_A[arm] = sd
        return self.arms(means_A, sds_A)

    def arms(self, means_A: Floats, sds_A: Floats) -> Arms:
        """Return configs whose means above the level, and whose errors, are given in units."""
        prior, numbers_A = (LEVEL, self.unit * self.spread), np.arange(len(means_A))
        return Arms(LEVEL + self.unit * means_A, self.unit * sds_A, prior, self, numbers_A)

    def train(self, arms: Arms, rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        shape = (len(which), seeds)
        noise_AS = rng.standard_t(3, shape) / math.sqrt(3) if self.heavy else rng.normal(size=shape)
        if self.alike:
            own_AS = math.sqrt(1 - self.alike) * noise_AS
            noise_AS = np.where(
                which[:, None] < self.points, own_AS + math.sqrt(self.alike) * rng.normal(size=seeds), noise_AS
            )
        values_AS = arms.means_A[which, None] + arms.sds_A[which, None] * noise_AS + self.unit * rng.normal(size=seeds)
        return Results(values_AS, np.zeros(shape, dtype=bool))


@dataclass(frozen=True)
class Recorded:
    """Results of a really recorded sweep.

    A trial takes one recorded result of its arm, drawn with replacement, and in place of that seed's effect the effect
    of a seed drawn for all arms. Arms of which a trial collapsed keep their results as they are.
    """

    values_AS: Floats
    collapsed_AS: Flags
    level: bool
    """Whether the arms that never collapsed get one common mean."""
    dealt: bool = False
    """Whether recorded arms are dealt to a smaller space and its comparators at random; else each one is itself."""
    missing: float = 0.03
    """Chance that a trial fails."""

    @property
    def steady_A(self) -> Flags:
        """Which arms never collapsed."""
        return np.logical_not(self.collapsed_AS.any(axis=1))

    @property
    def effects_S(self) -> Floats:
        """What each recorded seed adds."""
        steady_AS = self.values_AS[self.steady_A]
        return steady_AS.mean(axis=0) - steady_AS.mean()

    def deal(self, rng: np.random.Generator) -> Arms:
        """Draw one sweep's configs."""
        numbers_A = self._dealt(rng) if self.dealt else np.roll(np.arange(len(self.values_AS)), -2)
        free_AS = self._without_seeds()
        means_A = self.values_AS.mean(axis=1)
        if self.level:
            means_A = np.where(self.steady_A, means_A[self.steady_A].mean(), means_A)
        prior = float(means_A.mean()), float(means_A.std())
        return Arms(means_A[numbers_A], free_AS.std(axis=1)[numbers_A], prior, self, numbers_A)

    def _dealt(self, rng: np.random.Generator) -> Numbers:
        numbers_A = rng.permutation(len(self.values_AS))
        comparators = [number for number in numbers_A if self.steady_A[number]][:2]  # nobody compares with a ruin
        return np.array([*[number for number in numbers_A if number not in comparators][:POINTS], *comparators])

    def _without_seeds(self) -> Floats:
        return self.values_AS - np.where(self.steady_A[:, None], self.effects_S, 0)

    def train(self, arms: Arms, rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        numbers_A = arms.numbers_A[which]
        drawn_AS = rng.integers(self.values_AS.shape[1], size=(len(which), seeds))
        effects_S = self.effects_S[rng.integers(self.values_AS.shape[1], size=seeds)]
        values_AS = self._without_seeds()[numbers_A[:, None], drawn_AS]
        values_AS += np.where(self.steady_A[numbers_A][:, None], effects_S, 0)
        values_AS += (arms.means_A[which] - self.values_AS.mean(axis=1)[numbers_A])[:, None]
        values_AS[rng.random(values_AS.shape) < self.missing] = np.nan
        return Results(values_AS, self.collapsed_AS[numbers_A[:, None], drawn_AS])


@dataclass(frozen=True)
class Lucky:
    """Shares of right samples on problems of which each config finds some easier than others do, with every seed.

    A trial's chance on a problem is its arm's mean, plus how hard the problem is, plus the arm's luck on it, plus
    effects of the seed, of arm and seed, and of all three. Other problems of the same kind would average all luck out.
    """

    problems: int
    luck: float
    """Standard deviation over problems of an arm's luck."""
    spread: float = 0.0
    """Standard deviation of the true means of the space's points."""
    seed_sd: float = 0.015
    """Standard deviation of what a seed adds to one arm alone."""
    rest_sd: float = 0.05
    """Standard deviation of what a seed adds to one arm on one problem."""
    samples: int = 12
    """Number of samples of a problem in a trial's last evaluations together."""
    counted: bool = True
    """Whether trainers counted right samples by problem, and so recorded halves."""
    families: tuple[int, ...] = ()
    """Sizes of groups of problems that are alike, the first problems; all others stand alone."""
    luck_AP: Floats | None = None
    hard_P: Floats | None = None

    def variance(self, seeds: int, problems: int) -> float:
        """Return the variance of one arm's mean for other seeds and other problems."""
        sampling = (0.25 - 0.3**2 / 12 - self.luck**2) / self.samples  # of shares around 0.5, spread by 0.3
        rest = self.rest_sd**2 + max(sampling, 0.0)
        alike = (sum(size**2 for size in self.families) + self.problems - sum(self.families)) / self.problems
        return self.seed_sd**2 / seeds + alike * self.luck**2 / problems + rest / (seeds * problems)

    def deal(self, rng: np.random.Generator) -> Arms:
        """Draw one sweep's configs, and their luck."""
        means_A = np.append(rng.normal(0, self.spread, POINTS), [0, 0])
        sizes = [*self.families, *[1] * (self.problems - sum(self.families))]
        luck_AP = np.repeat(rng.normal(0, self.luck, (len(means_A), len(sizes))), sizes, axis=1)
        hard_P = np.repeat(rng.uniform(0.35, 0.65, len(sizes)), sizes)
        world = replace(self, luck_AP=luck_AP, hard_P=hard_P)
        sds_A = np.full(len(means_A), math.sqrt(self.variance(1, self.problems)))
        return Arms(means_A, sds_A, (0.0, self.spread), world, np.arange(len(means_A)))

    def train(self, arms: Arms, rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        assert self.luck_AP is not None
        assert self.hard_P is not None
        shape = len(which), seeds, self.problems
        chance_ASP = (self.hard_P + arms.means_A[which, None] + self.luck_AP[which])[:, None]
        chance_ASP = chance_ASP + rng.normal(0, 0.015, (seeds, 1)) + rng.normal(0, self.seed_sd, (*shape[:2], 1))
        chance_ASP = chance_ASP + rng.normal(0, self.rest_sd, shape)
        right_ASP = rng.binomial(self.samples, np.clip(chance_ASP, 0, 1))
        values_AS = right_ASP.mean(axis=2) / self.samples
        kept_ASP = right_ASP if self.counted else None
        names = _names(self.problems, self.families)
        return Results(values_AS, np.zeros(shape[:2], dtype=bool), kept_ASP, names, self.samples)


@dataclass(frozen=True)
class Rates:
    """A space over learning rate and beta1, in which the rate matters, and the loss does or does not.

    Errors and seed effects are those of `Drawn`. The base has the lowest rate.
    """

    gain: float
    """Standard deviation of what a beta1 adds to PPO clip with the same rate."""
    rate: float = 2.0
    """Standard deviation of what another rate than the base's adds to every loss."""

    @property
    def points(self) -> int:
        """Number of points of the space."""
        return len(RATES) * len(BETAS)

    def deal(self, rng: np.random.Generator) -> Arms:
        """Draw one sweep's configs; a grid's last parameter, the rate, changes fastest."""
        of_rates = np.append(0.0, rng.normal(0, self.rate, len(RATES) - 1))
        gains = rng.normal(0, self.gain, (len(BETAS), len(RATES))) if self.gain else np.zeros((len(BETAS), len(RATES)))
        means_A = np.concatenate([(of_rates + gains).ravel(), [0, 0], of_rates[1:]])
        drawn = Drawn(math.hypot(self.gain, self.rate)).arms(means_A, np.ones(len(means_A)))
        return replace(drawn, source=self)

    def train(self, arms: Arms, rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        return Drawn(self.gain).train(arms, rng, which, seeds)


@lru_cache(maxsize=64)
def _names(problems: int, families: tuple[int, ...] = ()) -> tuple[str, ...]:
    """Name problems so that halves take turns among families, since names made from contents are in no order."""
    sizes = [*families, *[1] * (problems - sum(families))]
    groups = [number + (len(sizes) if families and number % 2 else 0) for number in range(len(sizes))]
    return tuple(f"{groups[number]:012x}{place:04x}" for number, size in enumerate(sizes) for place in range(size))
