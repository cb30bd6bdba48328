"""Effects of beta1 and beta2 on entropy in one sweep, seed by seed: the figures behind `beta_claims`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sweep_service.report.statistics.differences import MIN_SEEDS, Interval, mean_interval
from sweep_service.report.statistics.seed_slopes import SettingPoint, seed_slopes
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.beta_design import BETAS
from sweep_service.sweep.records import Stage

_ONE_SIDED: Final = 0.01
"""Error of each bound of an interval, for normal errors.

It leaves room for skewed seeds: where a beta does nothing on average, and its effect over seeds is exponential with
three times the spread of what trials add, a bound errs in 5 % at most with 3 or 4 seeds (docs/statistics.md).
"""
_DEPENDS_ERROR: Final = 0.05
"""Chance that one of all the bounds errs, which opposite signs at two values of the other beta would take."""


@dataclass(frozen=True)
class BetaRun(SettingPoint):
    """One trial of a ce_gppo config: the setting is a beta, and the result is the slope of log entropy over training.

    Its group is the text of all other settings.
    """

    stage: Stage
    config_id: str
    other: float
    """The other beta."""
    steady: bool


@dataclass(frozen=True)
class EffectAt:
    """Effect of a beta at one value of the other beta."""

    other: float
    effect: Interval | None
    """None if no seed trained two configs there."""

    @property
    def side(self) -> int:
        """Sign of the effect where its interval shows one, else 0."""
        return side(self.effect) if self.effect else 0


@dataclass(frozen=True)
class BetaEffect:
    """Change of the slope of log entropy per unit of a beta, all else equal, on the seeds of one stage."""

    stage: Stage
    confidence: float
    """Confidence of each interval."""
    average: Interval
    num_configs: int
    """Number of configs that the lines go through."""
    partial: int
    """Number of seeds left out because they lack too many trials."""
    values: Sequence[EffectAt]
    """The effect at every value of the other beta at which configs differ in this one, in ascending order."""
    interaction: Interval | None
    """Effect at the highest minus effect at the lowest of several values, on the seeds that have both."""

    @property
    def sides(self) -> set[int]:
        """The signs that the values show; 0 for one that shows none."""
        return {value.side for value in self.values}


def side(effect: Interval) -> int:
    """Return the sign that an interval shows; 0 where it contains zero, and without one."""
    if effect.low is None or effect.high is None:
        return 0
    return (effect.low > 0) - (effect.high < 0)


def beta_runs(facts: Facts, beta: str) -> list[BetaRun]:
    """Return the trials that say something about a beta."""
    (other,) = (name for name in BETAS if name != beta)
    groups = {
        id_: json.dumps({**config.training, "loss": {**config.training.get("loss", {}), beta: None}}, sort_keys=True)
        for id_, config in facts.configs.items()
    }
    return [
        BetaRun(
            stage=trial.stage,
            seed=trial.seed,
            config_id=trial.config_id,
            group=groups[trial.config_id],
            setting=float(facts.configs[trial.config_id].training["loss"][beta]),
            other=float(facts.configs[trial.config_id].training["loss"][other]),
            result=facts.entropy_slopes[trial.id],
            steady=not trial.reward_collapsed,
        )
        for trial in facts.trials
        if trial.id in facts.entropy_slopes
    ]


def beta_effect(runs: Sequence[BetaRun]) -> BetaEffect | None:
    """Return a beta's effect from the first stage that has enough seeds, else from the one with more; None without any.

    The tune stage goes first: it has all configs, and none was chosen. Stages are not joined, since each seed's line
    must go through the same configs.
    """
    effects = [_of_stage([run for run in runs if run.stage is stage]) for stage in (Stage.TUNE, Stage.CONFIRM)]
    present = [effect for effect in effects if effect is not None]
    return max(present, key=lambda effect: min(effect.average.n, MIN_SEEDS), default=None)


def _of_stage(runs: Sequence[BetaRun]) -> BetaEffect | None:
    groups: dict[str, list[BetaRun]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    used = [run for group in groups.values() if len({run.setting for run in group}) > 1 for run in group]
    slopes = seed_slopes(used)
    if not slopes.by_seed:
        return None
    others = sorted({run.other for run in used})
    confidence = 1 - 2 * min(_ONE_SIDED, _DEPENDS_ERROR / len(others))
    at = {other: seed_slopes(run for run in used if run.other == other).by_seed for other in others}
    lowest, highest = at[others[0]], at[others[-1]]
    apart = [highest[seed] - lowest[seed] for seed in lowest if seed in highest] if len(others) > 1 else []
    return BetaEffect(
        stage=used[0].stage,
        confidence=confidence,
        average=mean_interval([*slopes.by_seed.values()], confidence),
        num_configs=len({run.config_id for run in used}),
        partial=slopes.partial,
        values=[EffectAt(other, mean_interval([*by.values()], confidence) if by else None) for other, by in at.items()],
        interaction=mean_interval(apart, confidence) if apart else None,
    )
