"""How often the report is right: whole sweeps drawn from known truths, through selection, confirmation and `build()`.

    python bench/validate_report.py [--runs 2000] [--processes 4]    lines of docs/statistics.md's table
    python bench/validate_report.py --stress                          worlds beyond the targets
    python bench/validate_report.py --problems                        configs that are lucky on problems
    python bench/validate_report.py --rates                           spaces over learning rate and beta1
    python bench/validate_report.py --only "noisy baseline"           lines whose world has that in its name

The exit code is 1 if a target is missed.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import ConfigRow, TrialRow
from sweep_service.report.statistics.critical_values import lower_critical, student_critical
from sweep_service.runner.stages import next_records
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import (
    Config,
    Curve,
    DesiredState,
    ProblemCounts,
    Stage,
    Sweep,
    SweepState,
    Trial,
    TrialState,
)
from sweep_service.sweep.series import EVALUATION, TrialSeries
from sweep_service.sweep.spec import SweepSpec
from trainers.evaluation.problem_parts import MIN_PROBLEMS, part_metric, split_problems

RECORDED: Final = Path(__file__).with_name("recorded_sweeps.json")
SEEDS: Final = (3, 4, 6)
"""Numbers of confirm seeds."""
COVERAGE: Final = 0.93
TOGETHER: Final = 0.95
FALSE_AHEAD: Final = 0.05
POWER: Final = {3: 0.8, 4: 0.8, 6: 0.9}
"""Smallest power relative to the oracle's, by confirm seeds; where configs collapse, the first for all."""
REGRET: Final = 1.1
RATES: Final = (1e-4, 2e-4, 3e-4)
"""Learning rates of the spaces that have several; the base has the first one."""
BETAS: Final = (0.25, 0.5, 0.75)
LEVEL: Final = 0.6
"""Result around which worlds of shares of right answers lie."""
_POINTS: Final = 9
_STEPS: Final = 16
_UPDATES: Final = np.arange(1, 9)
_FALLEN: Final = np.repeat([0.5, 0.1], 4)  # the reward of a trial that collapses: two windows of the shortest length
_KNOWN: Final = 1_000_000  # degrees of freedom of a variance that is known
_BATCH: Final = 250
_SAMPLES: Final = 10**6

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Results:
    """What trials of some arms came to, arms by seeds."""

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
    """Of the error, the seeds' part left out."""
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
    points: int = _POINTS
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
        return np.array([*[number for number in numbers_A if number not in comparators][:_POINTS], *comparators])

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
    """Of what a seed adds to one arm alone."""
    rest_sd: float = 0.05
    """Of what a seed adds to one arm on one problem."""
    samples: int = 12
    """Of a problem in a trial's last evaluations together."""
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
        means_A = np.append(rng.normal(0, self.spread, _POINTS), [0, 0])
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


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    world: World
    seeds: int
    differ: bool
    top_k: int = 2


@dataclass(frozen=True)
class Seen:
    """What one simulated sweep showed; figures of the verdict are None where it gave no interval."""

    better: bool
    false_better: bool
    covered: bool | None
    half_width: float | None
    oracle_better: bool | None
    tie_set_holds: bool | None
    regret: float
    oracle_regret: float
    oracle_half_width: float | None = None
    fair: bool = True
    """Whether the verdict's two differ in the loss alone, or its sentence names what else they differ in; and whether
    the two of which the report says that all else is equal do."""
    together: bool | None = None
    """Whether the lower ends of all differences from the verdict's comparator hold."""


@lru_cache(maxsize=64)
def _start(points: int | None, seeds: int, top_k: int) -> tuple[SweepSpec, tuple[Config, ...], tuple[Trial, ...]]:
    """A sweep's spec with the configs and tune trials that it begins with; without a number of points, over rates."""
    other, betas = {"optimizer.learning_rate": list(RATES)}, [*BETAS]
    if points is not None and points % len(BETAS):
        other, betas = {}, [(index + 1) / (points + 1) for index in range(points)]
    elif points is not None:
        other = {"loss.beta2": [(index + 1) / 8 for index in range(points // len(BETAS))]}
    spec = SweepSpec.model_validate(
        {
            "name": "simulated",
            "training": {
                "loss": {"name": "ce_gppo"},
                "optimizer": {"learning_rate": RATES[0]},
                "steps": _STEPS,
            },
            "space": {"loss.beta1": betas, **other},
            "seeds": {"tune": [0, 1], "confirm": {"top_k": top_k, "seeds": list(range(10, 10 + seeds))}},
        }
    )
    configs, trials = first_records(spec, "swp_simulated")
    return spec, tuple(configs), tuple(trials)


def simulate(row: Row, rng: np.random.Generator) -> tuple[Report, Arms]:
    """Run one sweep as the runner does, and build its report."""
    inputs, arms = run_sweep(row, rng)
    return build(inputs), arms


def run_sweep(row: Row, rng: np.random.Generator) -> tuple[ReportInputs, Arms]:
    """Run one sweep as the runner does."""
    arms = row.world.deal(rng)
    points = None if isinstance(row.world, Rates) else arms.points
    spec, configs, planned = _start(points, row.seeds, row.top_k)
    sweep = Sweep(
        id="swp_simulated",
        name=spec.name,
        state=SweepState.FINALIZING,
        desired_state=DesiredState.RUN,
        created_at=0.0,
        spec=spec,
        spec_digest="",
    )
    trials, series, counted = _train(arms, configs, planned, rng)
    curves = [curve for trial in trials if trial.id in series for curve in _curves(trial, series[trial.id])]
    confirm = next_records(sweep, configs, trials, curves) or ([], [])  # nothing if every trial crashed
    by_id = {config.id: config for config in (*configs, *confirm[0])}
    more, more_series, counts = _train(arms, [*by_id.values()], confirm[1], rng)
    inputs = ReportInputs(
        sweep=sweep,
        configs=tuple(by_id.values()),
        trials=(*trials, *more),
        series=series | more_series,
        problem_counts=(*counted, *counts),
    )
    return inputs, arms


def _train(
    arms: Arms, configs: Sequence[Config], planned: Sequence[Trial], rng: np.random.Generator
) -> tuple[list[Trial], dict[str, TrialSeries], list[ProblemCounts]]:
    """Give trials of one stage, which go seed by seed, their results."""
    if not planned:
        return [], {}, []
    places = {config.id: arm_of(config, arms) for config in configs}
    which = [places[config_id] for config_id in dict.fromkeys(trial.config_id for trial in planned)]
    found = arms.train(rng, which, len(planned) // len(which))
    values, collapsed = found.values_AS.T.ravel().tolist(), found.collapsed_AS.T.ravel().tolist()
    trials: list[Trial] = []
    series: dict[str, TrialSeries] = {}
    counts: list[ProblemCounts] = []
    rights = [None] * len(planned) if found.right_ASP is None else [*np.concatenate([*found.right_ASP.swapaxes(0, 1)])]
    for trial, value, fell, right_P in zip(planned, values, collapsed, rights, strict=True):
        failed = math.isnan(value)
        state = TrialState.FAILED if failed else TrialState.SUCCEEDED
        ended = {
            "state": state,
            "step": trial.total_steps,
            "attempts": 1,
            "ending": found.ending if failed else Ending.SUCCEEDED,
        }
        trials.append(trial.model_copy(update=ended))
        if not failed:
            metrics = {"eval/avg_at_k": np.array([value])}
            if right_P is not None:
                metrics |= _of_parts(right_P / found.samples, found.names)
                counts.append(_counts(trial.id, right_P, found))
            if fell:
                metrics = {name: _fallen(float(values[-1])) for name, values in metrics.items()}
                metrics["reward/mean"] = _FALLEN
            evaluations = len(metrics["eval/avg_at_k"])
            series[trial.id] = TrialSeries(
                trial_id=trial.id,
                steps=_UPDATES,
                eval_steps=np.linspace(_STEPS / evaluations, _STEPS, evaluations),
                eval_times=np.zeros(evaluations),
                metrics=metrics,
            )
    return trials, series, counts


def _fallen(value: float) -> Floats:
    """Evaluations that end with a value, far below the first."""
    return np.array([max(3 * value, value + 0.3), value, value, value])


def _of_parts(rates_P: Floats, names: tuple[str, ...]) -> dict[str, Floats]:
    """The means over each half of the problems, as trainers record them."""
    return {
        part_metric("eval/avg_at_k", part): rates_P[indices].mean(keepdims=True)
        for part, indices in _halves(names).items()
    }


_halves = lru_cache(maxsize=64)(split_problems)


def _counts(trial_id: str, right_P: Numbers, found: Results) -> ProblemCounts:
    """One evaluation's counts. They are not validated, which would take longer than everything else."""
    return ProblemCounts.model_construct(
        trial_id=trial_id,
        step=_STEPS,
        names=found.names,
        judged=(found.samples,) * len(right_P),
        right=tuple(right_P.tolist()),
    )


@lru_cache(maxsize=64)
def _names(problems: int, families: tuple[int, ...] = ()) -> tuple[str, ...]:
    """Name problems so that halves take turns among families, since names made from contents are in no order."""
    sizes = [*families, *[1] * (problems - sum(families))]
    groups = [number + (len(sizes) if families and number % 2 else 0) for number in range(len(sizes))]
    return tuple(f"{groups[number]:012x}{place:04x}" for number, size in enumerate(sizes) for place in range(size))


def arm_of(config: Config | ConfigRow, arms: Arms) -> int:
    """The place of a config among the arms: a sweep begins with its baseline and its DAPO arm, then has its points."""
    if config.number < 2:
        return arms.points + config.number
    if config.number < arms.points + 2:
        return config.number - 2
    return arms.points + 1 + RATES.index(config.params["optimizer.learning_rate"])


def _curves(trial: Trial, series: TrialSeries) -> list[Curve]:
    """A trial's evaluations as the runner reads them."""
    return [
        Curve(
            trial_id=trial.id,
            config_id=trial.config_id,
            seed=trial.seed,
            stage=trial.stage,
            key=key,
            steps=series.eval_steps.tolist(),
            times=series.eval_times.tolist(),
            values=values.tolist(),
        )
        for key, values in series.metrics.items()
        if key.startswith(EVALUATION)
    ]


def fair(report: Report) -> bool:
    """Whether all that the report says to be equal in two configs is, by the parameters of the space."""
    rows, found, best = {row.id: row for row in report.configs}, report.verdict.comparison, report.best
    assert best is not None
    if found:
        unequal = _besides_the_loss(rows[found.config_id], rows[found.comparator_id])
        if any(name not in report.verdict.sentence for name in unequal):
            return False
    _, claimed, rest = best.why.partition("with PPO clip and all else equal (")
    named = [row for row in report.configs if claimed and rest.startswith(f"{row.label})")]
    return bool(named) == bool(claimed) and not any(_besides_the_loss(rows[best.config_id], row) for row in named)


def _besides_the_loss(one: ConfigRow, other: ConfigRow) -> list[str]:
    """The parameters in which two configs differ, but for those of the loss."""
    return [name for name in one.params if one.params[name] != other.params[name] and not name.startswith("loss.")]


def judge(row: Row, report: Report, arms: Arms) -> Seen:
    """Hold a report against the truth."""
    places = {config.id: arm_of(config, arms) for config in report.configs}
    means = {id_: float(arms.means_A[place]) for id_, place in places.items()}
    best_of_space = float(arms.means_A[: arms.points].max())
    assert report.best is not None
    found = report.verdict.comparison
    seen = Seen(
        better=report.verdict.outcome.sign == 1,
        false_better=False,
        covered=None,
        half_width=None,
        oracle_better=None,
        tie_set_holds=None,
        regret=best_of_space - means[report.best.config_id],
        oracle_regret=best_of_space - float(arms.means_A[_oracle_choice(report, arms, places)]) if row.differ else 0.0,
        fair=fair(report),
    )
    if report.verdict.ties is not None:
        members = report.verdict.ties.members
        truly_best = max(members, key=lambda member: (means[member.config_id], member.config_id))  # not by its result
        seen = replace(seen, tie_set_holds=truly_best.in_sound_set)
    if found is None or found.low is None or found.high is None:
        return seen
    true_difference = means[found.config_id] - means[found.comparator_id]
    error, df = oracle_error(report, arms, places)
    critical = lower_critical(found.family, df)
    return replace(
        seen,
        false_better=seen.better and true_difference <= 1e-12,
        covered=found.low <= true_difference <= found.high,
        half_width=(found.high - found.low) / 2,
        oracle_better=found.difference > critical * error,
        oracle_half_width=(critical + student_critical(df)) / 2 * error,
        together=all(
            other.low <= means[other.config_id] - means[other.comparator_id]
            for other in report.comparisons
            if other.comparator_id == found.comparator_id and other.low is not None
        ),
    )


def oracle_error(report: Report, arms: Arms, places: dict[str, int]) -> tuple[float, int]:
    """The standard error of the verdict's difference, and its degrees of freedom, by an oracle.

    It knows the kind of the world: how many times as noisy one arm is as another, and which errors are correlated. How
    large they are it estimates, from the residuals of all confirmed trials. Of luck on problems it knows all variances.
    """
    found = report.verdict.comparison
    assert found is not None
    if isinstance(arms.source, Lucky):
        variance = arms.source.variance(found.num_seeds, found.num_problems or arms.source.problems)
        return math.sqrt(2 * variance), _KNOWN
    pair_AA = arms.covariance([places[found.config_id], places[found.comparator_id]])
    of_pair = float(pair_AA[0, 0] + pair_AA[1, 1] - 2 * pair_AA[0, 1])
    trials = [trial for trial in report.trials if trial.stage is Stage.CONFIRM and trial.objective is not None]
    columns = {id_: number for number, id_ in enumerate(dict.fromkeys(trial.config_id for trial in trials))}
    by_seed: dict[int, list[TrialRow]] = {}
    for trial in trials:
        by_seed.setdefault(trial.seed, []).append(trial)
    blocks, values = list[Floats](), list[Floats]()
    for number, own in enumerate(by_seed.values()):
        design = np.zeros((len(own), len(columns) + len(by_seed)))
        design[range(len(own)), [columns[trial.config_id] for trial in own]] = 1
        design[:, len(columns) + number] = 1
        whiten = np.linalg.inv(np.linalg.cholesky(arms.covariance([places[trial.config_id] for trial in own])))
        blocks.append(whiten @ design)
        values.append(whiten @ np.array([trial.objective for trial in own], dtype=float))
    design, value = np.concatenate(blocks), np.concatenate(values)
    fitted, _, rank, _ = np.linalg.lstsq(design, value)
    df = len(value) - int(rank)
    squares = float(((value - design @ fitted) ** 2).sum()) / df
    return math.sqrt(squares * of_pair / found.num_seeds), df


def _oracle_choice(report: Report, arms: Arms, places: dict[str, int]) -> int:
    """The point of the space with the highest expected mean: best linear prediction in config + seed + error.

    It is given all trials, the errors' true variances and what means are drawn from.
    """
    rows = [
        (places[trial.config_id], trial.stage is Stage.CONFIRM, trial.seed, trial.objective)
        for trial in report.trials
        if trial.objective is not None
    ]
    seeds = {seed: index for index, seed in enumerate(sorted({(stage, seed) for _, stage, seed, _ in rows}))}
    num_arms = len(arms.means_A)
    design = np.zeros((len(rows), num_arms + len(seeds)))
    weights = np.zeros(len(rows))
    for index, (place, stage, seed, _) in enumerate(rows):
        design[index, place] = design[index, num_arms + seeds[stage, seed]] = 1
        weights[index] = 1 / max(arms.sds_A[place] ** 2, 1e-12)
    middle, spread = arms.prior
    values = np.array([value for *_, value in rows], dtype=float)
    normal = design.T @ (weights[:, None] * design)
    normal[:num_arms, :num_arms] += np.eye(num_arms) / spread**2
    right = design.T @ (weights * values)
    right[:num_arms] += middle / spread**2
    return int(np.linalg.solve(normal, right)[: arms.points].argmax())


@dataclass(frozen=True)
class Tally:
    """Shares of runs, and whether each target is met."""

    row: Row
    runs: int
    coverage: float
    false_better: float
    false_better_bound: float
    """The 99 % upper bound (Clopper-Pearson)."""
    better: float
    power: float | None
    """Share of AHEAD relative to the oracle's; None without true differences."""
    regret: float | None
    """Relative to the oracle's."""
    ties: float
    """How often the truly best confirmed config is in the tie set."""
    undecided: float
    """Too few seeds with a result for both."""
    half_width: float
    oracle_half_width: float
    fair: float
    """Share of reports that call nothing equal that is not."""
    together: float
    """How often the lower ends of all differences from one comparator hold."""

    @property
    def missed(self) -> list[str]:
        """The targets that are not met."""
        if isinstance(self.row.world, Rates):
            wrong = {
                "coverage": self.coverage < COVERAGE,
                "false AHEAD": self.false_better > FALSE_AHEAD,
                "all else equal": self.fair < 1,
            }
            return [name for name, misses in wrong.items() if misses]
        if isinstance(self.row.world, Lucky):
            wrong = {"coverage": self.coverage < COVERAGE, "false AHEAD": self.false_better > FALSE_AHEAD}
            return [name for name, misses in wrong.items() if misses and self.row.world.counted]
        seeds = min(SEEDS) if isinstance(self.row.world, Recorded) else self.row.seeds
        tests = {
            "coverage": self.coverage >= COVERAGE,
            "lower ends together": self.together >= TOGETHER,
            "false AHEAD": self.false_better_bound <= FALSE_AHEAD,
            "power": self.power is None or self.power >= POWER[seeds],
            "regret": self.regret is None or self.regret <= REGRET,
        }
        return [name for name, met in tests.items() if not met]


def tally(row: Row, seen: Sequence[Seen]) -> Tally:
    """Sum up the runs of one row."""
    decided = [run for run in seen if run.covered is not None]
    false = sum(run.false_better for run in seen)
    better = sum(run.better for run in decided)
    oracle = sum(run.oracle_better or False for run in decided)
    held = [run.tie_set_holds for run in seen if run.tie_set_holds is not None]
    regret, least = sum(run.regret for run in seen), sum(run.oracle_regret for run in seen)
    return Tally(
        row=row,
        runs=len(seen),
        coverage=_share([bool(run.covered) for run in decided]),
        false_better=false / len(seen),
        false_better_bound=float(beta.ppf(0.99, false + 1, len(seen) - false)) if false < len(seen) else 1.0,
        better=better / len(seen),
        power=better / oracle if row.differ and oracle else None,
        regret=regret / least if row.differ and least > 0 else None,
        ties=_share(held),
        undecided=1 - len(decided) / len(seen),
        half_width=_mean([run.half_width for run in decided]),
        oracle_half_width=_mean([run.oracle_half_width for run in decided]),
        fair=_share([run.fair for run in seen]),
        together=_share([bool(run.together) for run in decided]),
    )


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else math.nan


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([math.nan if value is None else value for value in values]))


def worlds(recorded: Path = RECORDED) -> dict[str, tuple[World, World]]:
    """Each world without and with true differences."""
    arms = json.loads(recorded.read_text())["arms"]  # written by record_sweep.py
    values_AS = np.array([[float(np.mean(run["evaluations"])) for run in arm["runs"]] for arm in arms])
    collapsed_AS = np.array([[run["collapsed"] for run in arm["runs"]] for arm in arms])
    return {
        "Gaussian": (Drawn(0), Drawn(2)),
        "heavy tails": (Drawn(0, heavy=True), Drawn(2, heavy=True)),
        "recorded": (Recorded(values_AS, collapsed_AS, level=True), Recorded(values_AS, collapsed_AS, level=False)),
    }


def target_rows() -> list[Row]:
    """The worlds that the targets are about."""
    apart = [
        Row(name, world, seeds, differ)
        for name, pair in worlds().items()
        for differ, world in zip((False, True), pair, strict=True)
        for seeds in SEEDS
    ]
    alike = [Row("near-duplicates", Drawn(0, alike=0.95), seeds, differ=False, top_k=3) for seeds in SEEDS]
    noisy = [
        Row(f"noisy baseline, variance x {ratio}", Drawn(0, noisy=((_POINTS, math.sqrt(ratio)),)), seeds, differ=False)
        for ratio in (2, 4)
        for seeds in SEEDS
    ]
    return [*apart, *alike, *noisy]


def stress_rows() -> list[Row]:
    """Worlds beyond: they show where the method ends."""
    small = [Row("Gaussian, differences half as large", Drawn(1), seeds, differ=True) for seeds in SEEDS]
    dealt = [
        Row("recorded, arms dealt at random", replace(world, dealt=True), seeds, differ)
        for differ, world in zip((False, True), worlds()["recorded"], strict=True)
        if isinstance(world, Recorded)
        for seeds in SEEDS
    ]
    base = [Row("baseline's sd x 3", Drawn(0, noisy=((9, 3.0),)), seeds, differ=False) for seeds in SEEDS]
    return [
        *small,
        *dealt,
        *base,
        Row("baseline's sd / 3", Drawn(0, noisy=((9, 1 / 3),)), 4, differ=False),
        Row("two configs' sd x 3", Drawn(0, noisy=((0, 3.0), (1, 3.0))), 4, differ=False),
        Row("DAPO arm's sd x 6", Drawn(0, noisy=((10, 6.0),)), 4, differ=False),
        Row("DAPO arm's sd x 6", Drawn(2, noisy=((10, 6.0),)), 4, differ=True),
        Row("top_k 5 of 27 configs", Drawn(0, points=27), 4, differ=False, top_k=5),
        Row("top_k 5 of 27 configs", Drawn(2, points=27), 4, differ=True, top_k=5),
    ]


def problem_rows() -> list[Row]:
    """Worlds in which configs are lucky on problems; the last ones as a report sees them that knows no problems."""
    sizes = ((10, 0.1), (20, 0.05), (20, 0.1), (49, 0.1), (100, 0.1), (500, 0.1))
    apart = [
        Row(_lucky_name(problems, luck), Lucky(problems, luck, spread), seeds, differ=spread > 0)
        for spread in (0.0, 0.05)
        for problems, luck in sizes
        for seeds in SEEDS
        if not spread or seeds == 4
    ]
    blind = [
        Row(f"{_lucky_name(problems, luck)}, not counted", Lucky(problems, luck, counted=False), 4, differ=False)
        for problems, luck in sizes
    ]
    families = {
        "100 problems in families of 5": Lucky(100, 0.1, families=(5,) * 20),
        "200 problems in families of 5": Lucky(200, 0.1, families=(5,) * 40),
        "100 problems in families of 10": Lucky(100, 0.1, families=(10,) * 10),
        "200 problems in families of 20": Lucky(200, 0.1, families=(20,) * 10),
        "80 problems, one of them 20 times": Lucky(80, 0.1, families=(20,)),
        "80 problems, 20 of them alike": Lucky(80, 0.1, families=(4,) * 5),
    }
    return [*apart, *(Row(name, world, 4, differ=False) for name, world in families.items()), *blind]


def rate_rows() -> list[Row]:
    """Spaces over learning rate and beta1, in which tuning chooses a rate, too."""
    sizes = [(seeds, top_k) for top_k in (2, 3) for seeds in SEEDS]
    return [
        Row(f"rates, top_k {top_k}", Rates(gain), seeds, differ=gain > 0, top_k=top_k)
        for gain in (0.0, 1.0)
        for seeds, top_k in sizes
    ]


def _lucky_name(problems: int, luck: float) -> str:
    return f"{problems} problems, luck {luck:g}"


def run_batch(row: Row, seed: int, batch: int, runs: int) -> list[Seen]:
    """A part of a row's runs; the same arguments give the same runs."""
    rng = np.random.default_rng([seed, batch])
    return [judge(row, *simulate(row, rng)) for _ in range(runs)]


def run_rows(rows: Sequence[Row], runs: int, processes: int) -> Iterator[Tally]:
    """Run every row, `processes` batches at a time."""
    sizes = [min(_BATCH, runs - done) for done in range(0, runs, _BATCH)]
    with ProcessPoolExecutor(processes) as pool:
        parts = [
            [pool.submit(run_batch, row, index, batch, size) for batch, size in enumerate(sizes)]
            for index, row in enumerate(rows)
        ]
        for row, futures in zip(rows, parts, strict=True):
            yield tally(row, [seen for future in futures for seen in future.result()])


HEAD: Final = (
    "world",
    "truth",
    "confirm seeds",
    "interval covers",
    "lower ends hold together",
    "false AHEAD (99 % bound)",
    "AHEAD",
    "of the oracle's",
    "half width, of the oracle's",
    "regret, of the oracle's",
    "tie set holds the best",
    "too few pairs",
)


def truth(row: Row) -> str:
    """Whether the configs of a row's world differ, in words."""
    return "differences" if row.differ else "none"


def line(found: Tally) -> str:
    """One line of the Markdown table."""
    row = found.row
    cells = [
        row.name,
        truth(row),
        str(row.seeds),
        f"{found.coverage:.1%}",
        f"{found.together:.1%}",
        f"{found.false_better:.1%} ({found.false_better_bound:.1%})",
        f"{found.better:.0%}",
        "" if found.power is None else f"{found.power:.0%}",
        f"{found.half_width / found.oracle_half_width:.2f}",
        "" if found.regret is None else f"{found.regret:.2f}",
        f"{found.ties:.1%}",
        f"{found.undecided:.0%}",
    ]
    return f"| {' | '.join(cells)} |"


PROBLEM_HEAD: Final = (*HEAD[:7], "half width", "of the oracle's")


def problem_line(found: Tally) -> str:
    """One line of the Markdown table of worlds with problems."""
    cells = line(found).strip("| ").split(" | ")[:7]
    cells += [f"{found.half_width:.3f}", f"{found.half_width / found.oracle_half_width:.2f}"]
    return f"| {' | '.join(cells)} |"


RATE_HEAD: Final = (*HEAD[:7], "equal in all but the loss, or says so")


def rate_line(found: Tally) -> str:
    """One line of the Markdown table of spaces over learning rate and beta1."""
    return f"| {' | '.join([*line(found).strip('| ').split(' | ')[:7], f'{found.fair:.1%}'])} |"


def _table(asked: argparse.Namespace) -> tuple[list[Row], Sequence[str], Callable[[Tally], str]]:
    """The rows of the table that is asked for, its head, and what writes a line of it."""
    if asked.problems:
        return problem_rows(), PROBLEM_HEAD, problem_line
    if asked.rates:
        return rate_rows(), RATE_HEAD, rate_line
    return stress_rows() if asked.stress else target_rows(), HEAD, line


def main() -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="How often the report is right, in simulated sweeps.")
    parser.add_argument("--runs", type=int, default=2000, help="of each row")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stress", action="store_true", help="worlds beyond the targets; the exit code is 0")
    parser.add_argument("--only", default="", help="part of the name of the worlds to run")
    parser.add_argument("--problems", action="store_true", help="worlds in which configs are lucky on problems")
    parser.add_argument("--rates", action="store_true", help="spaces over learning rate and beta1")
    asked = parser.parse_args()
    started, missed = time.monotonic(), list[str]()
    rows, head, line_of = _table(asked)
    rows = [row for row in rows if asked.only in row.name]
    print(f"| {' | '.join(head)} |\n| {' | '.join(['---'] * len(head))} |", flush=True)
    for found in run_rows(rows, asked.runs, asked.processes):
        print(line_of(found), flush=True)
        missed += [f"{found.row.name}, {truth(found.row)}, {found.row.seeds} seeds: {name}" for name in found.missed]
    minutes = (time.monotonic() - started) / 60
    print(f"\n{asked.runs:,} sweeps a line, {minutes:.0f} minutes on {asked.processes} processes", file=sys.stderr)
    if asked.stress or not missed:
        return 0
    print("Targets missed:", *missed, sep="\n  ", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
