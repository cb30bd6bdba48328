"""Findings of the tune stage about parameters: main effects by analysis of variance, and a response surface.

Each config counts once, by its mean over tune seeds (as if it had all of them). A parameter with at most 6 values is a
factor; a numeric one with more is a quadratic trend. What main effects leave, interactions and noise, is the error.
Every effect is adjusted for the others (type II), so designs may be unbalanced and have holes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from search_spaces.distributions import Distribution
from sweep_service.report.formatting import count, number
from sweep_service.report.model import Effect, EffectLevel, Exploration
from sweep_service.report.parts.factors import Coding, Factor, code
from sweep_service.report.parts.surface import surface
from sweep_service.report.parts.tuned_points import TunedPoint, fit_seeds, tuned_points
from sweep_service.report.statistics.critical_values import Floats, student_critical
from sweep_service.report.statistics.least_squares import LinearFit, fit, p_of_f, p_of_t, p_text
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.labels import short_name

MIN_CONFIGS: Final = 3
_CODINGS: Final[tuple[Coding, ...]] = ("factor", "quadratic", "linear")
_MIN_DF: Final = 2
"""Degrees of freedom for the error below which numeric factors are fitted as trends."""
_FEW_DF: Final = 8
_MIN_STEADY: Final = 6
_LEVEL: Final = 0.05


@dataclass(frozen=True)
class EffectNoise:
    """The error against which effects are tested."""

    variance: float
    """Variance of a config's mean."""
    df: int
    source: str


@dataclass(frozen=True)
class Analysis:
    """One analysis of variance."""

    effects: list[Effect]
    """Effects, strongest first, in the same order as the factors."""
    factors: list[Factor]
    means: Floats
    noise: EffectNoise | None
    left_p: float | None
    """P value of the hypothesis that main effects leave only the spread over seeds; None with one seed."""


def exploration(facts: Facts) -> Exploration | None:
    """Return main effects and response surface; None with fewer than 3 results or nothing varied."""
    points = tuned_points(facts)
    analysis = _analyse(points, facts)
    if analysis is None:
        return None
    effects, noise = analysis.effects, analysis.noise
    return Exploration(
        effects=effects,
        error_sd=None if noise is None else noise.variance**0.5,
        error_df=0 if noise is None else noise.df,
        surface=surface(analysis.factors, analysis.means),
        text=[
            *(_sentence(effect, noise) for effect in effects),
            *_without_collapsed(points, facts),
            *_context(points, analysis),
        ],
    )


def _analyse(points: Sequence[TunedPoint], facts: Facts) -> Analysis | None:
    varied = facts.inputs.sweep.spec.space.varied
    names = [name for name in varied if len({repr(point.params.get(name)) for point in points}) > 1]
    if len(points) < MIN_CONFIGS or not names:
        return None
    seeds = fit_seeds([point.values for point in points])
    spread = None
    if seeds.variance:
        per_config = len(points) / sum(1 / len(point.values) for point in points)
        spread = EffectNoise(seeds.variance / per_config, seeds.df, "spread over seeds")
    noise = spread  # where the design leaves nothing else
    factors, whole = _design(points, names, facts.inputs.sweep.spec.space.root, seeds.means, spread)
    left_p = None
    if whole.variance:
        left_p = p_of_f(whole.variance / spread.variance, whole.df, spread.df) if spread else None
        noise = EffectNoise(whole.variance, whole.df, "interaction" if len(factors) > 1 else "lack of fit")
    effects = _effects(factors, whole, seeds.means, noise)
    order = sorted(range(len(names)), key=lambda i: (-effects[i][1], names[i]))
    return Analysis([effects[i][0] for i in order], [factors[i] for i in order], seeds.means, noise, left_p)


def _design(
    points: Sequence[TunedPoint],
    names: Sequence[str],
    space: Mapping[str, Distribution],
    means: Floats,
    spread: EffectNoise | None,
) -> tuple[list[Factor], LinearFit]:
    """Return the richest coding that leaves degrees of freedom for the error; plain factors if none does."""
    tried: list[tuple[list[Factor], LinearFit]] = []
    for coding in _CODINGS:
        factors = [code(name, [point.params.get(name) for point in points], space[name], coding) for name in names]
        whole = fit(_matrix(factors, len(points)), means)
        tried.append((factors, whole))
        alone = len(names) == 1 and spread is not None  # its values are the configs, and seeds give the error
        if whole.df >= _MIN_DF or alone:
            return tried[-1]
    return tried[0]


def _matrix(factors: Sequence[Factor], n: int) -> Floats:
    return np.hstack([np.ones((n, 1)), *(factor.columns for factor in factors)])


def _effects(
    factors: Sequence[Factor], whole: LinearFit, means: Floats, noise: EffectNoise | None
) -> list[tuple[Effect, float]]:
    """Return each parameter's effect, with the sum of squares that it alone explains."""
    effects: list[tuple[Effect, float]] = []
    start = 1
    for factor in factors:
        width = factor.columns.shape[1]
        without = fit(_matrix([other for other in factors if other is not factor], len(means)), means)
        df, explained = whole.rank - without.rank, max(without.rss - whole.rss, 0.0)
        rows = np.zeros((len(factor.values), len(whole.beta)))
        rows[:, 0] = 1
        rows[:, start : start + width] = factor.levels
        own_noise = noise if df == width else None  # else levels are mixed up with other parameters
        f = explained / df / noise.variance if noise and df else None
        effect = Effect(
            name=factor.name,
            label=short_name(factor.name),
            levels=_levels(factor, rows, whole, own_noise) if df == width else _raw_levels(factor, means),
            df=df,
            f=f,
            p=None if f is None or noise is None else p_of_f(f, df, noise.df),
            trend_p=_trend_p(factor, rows, whole, own_noise),
            kind="trend" if factor.trend else "levels",
        )
        effects.append((effect, explained))
        start += width
    return effects


def _levels(factor: Factor, rows: Floats, whole: LinearFit, noise: EffectNoise | None) -> list[EffectLevel]:
    """Return the mean at each level, with the other parameters at their average over configs."""
    means, apart = rows @ whole.beta, rows - rows.mean(axis=0)
    half = [noise and student_critical(noise.df) * noise.variance**0.5 * whole.scale(row) for row in apart]
    return [
        EffectLevel(
            value=value,
            text=text,
            mean=float(mean),
            low=None if width is None else float(mean - width),
            high=None if width is None else float(mean + width),
            configs=configs,
        )
        for value, text, mean, width, configs in zip(
            factor.values, factor.texts, means, half, factor.counts, strict=True
        )
    ]


def _raw_levels(factor: Factor, means: Floats) -> list[EffectLevel]:
    """Return plain means of a parameter that the design cannot tell from others; none for a trend."""
    if factor.trend:
        return []
    level_of = np.abs(factor.columns[:, None, :] - factor.levels).sum(axis=2).argmin(axis=1)
    return [
        EffectLevel(value=value, text=text, mean=float(means[level_of == i].mean()), low=None, high=None, configs=n)
        for i, (value, text, n) in enumerate(zip(factor.values, factor.texts, factor.counts, strict=True))
    ]


def _trend_p(factor: Factor, rows: Floats, whole: LinearFit, noise: EffectNoise | None) -> float | None:
    """Return the p value for no linear trend over a numeric parameter's levels, the sharpest test with few configs."""
    if noise is None or factor.places is None:
        return None
    contrast = (factor.places - factor.places.mean()) @ rows
    error = noise.variance**0.5 * whole.scale(contrast)
    return p_of_t(float(contrast @ whole.beta) / error, noise.df)


def _sentence(effect: Effect, noise: EffectNoise | None) -> str:
    if not effect.df or not effect.levels:
        return f"{effect.label}: it changes together with other parameters, so its effect cannot be told from theirs."
    means = [level.mean for level in effect.levels]
    best, worst = max(effect.levels, key=lambda level: level.mean), min(effect.levels, key=lambda level: level.mean)
    peaks = f"best at {best.text} ({number(best.mean)}), worst at {worst.text} ({number(worst.mean)})"
    if effect.p is None or noise is None:
        if number(best.mean) == number(worst.mean):
            return f"{effect.label}: {number(best.mean)} at every value."
        return f"{effect.label}: {peaks}; nothing is left to say how sure that is."
    tests = p_text(effect.p)
    if effect.trend_p is not None and effect.df > 1:
        tests = f"trend {p_text(effect.trend_p)}, any difference {tests}"
    how = f"({tests}, error: {noise.source} with {noise.df} df)"
    if min(effect.p, 1.0 if effect.trend_p is None else effect.trend_p) >= _LEVEL:
        apart = number(best.mean - worst.mean)
        return f"{effect.label}: no effect can be told from noise; its means are at most {apart} apart {how}."
    rising = means == sorted(means)
    if effect.trend_p is None or effect.trend_p >= _LEVEL or not (rising or means == sorted(means, reverse=True)):
        return f"{effect.label}: {peaks} {how}."
    first, last = effect.levels[0], effect.levels[-1]
    return (
        f"{effect.label}: higher is {'better' if rising else 'worse'}: from {first.text} to {last.text} the mean "
        f"{'rises' if rising else 'falls'} by {number(abs(last.mean - first.mean))} {how}."
    )


def _without_collapsed(points: Sequence[TunedPoint], facts: Facts) -> list[str]:
    """Describe the effects without collapsed configs where these would drown everything else."""
    steady = [point for point in points if not point.collapsed]
    if len(steady) == len(points) or len(steady) < _MIN_STEADY or (analysis := _analyse(steady, facts)) is None:
        return []
    read = " ".join(_sentence(effect, analysis.noise) for effect in analysis.effects)
    return [f"Without the {count(len(points) - len(steady), 'config')} that had a collapsed or diverged trial: {read}"]


def _context(points: Sequence[TunedPoint], analysis: Analysis) -> list[str]:
    noise = analysis.noise
    seeds = len({seed for point in points for seed in point.values})
    read = f"Read from {count(len(points), 'config')} on {count(seeds, 'tune seed')}"
    collapsed = sum(point.collapsed for point in points)
    if collapsed:
        read += f"; {collapsed} of them had a collapsed or diverged trial and {'counts' if collapsed == 1 else 'count'}"
        read += " with what was scored"
    texts = [f"{read}."]
    if noise and noise.df <= _FEW_DF:
        texts.append(f"With {noise.df} df only large effects show; one that does not show may still be there.")
    if analysis.left_p is not None and analysis.left_p < _LEVEL:
        texts.append(
            "Main effects do not say it all: they leave more than the spread over seeds explains "
            f"({p_text(analysis.left_p)}), so what a value does depends on the others, and an effect is an average."
            if len(analysis.effects) > 1
            else f"The fitted trend misses more than the spread over seeds explains ({p_text(analysis.left_p)})."
        )
    if len(analysis.effects) > 1 and noise:
        texts.append("Each p value is for one parameter alone, not corrected for asking about several.")
    return [*texts, "This is a reason for the next sweep, not a verdict: nothing here was confirmed on fresh seeds."]
