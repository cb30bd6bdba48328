"""Claims of the CE-GPPO paper about what beta1 and beta2 do to entropy, held against this sweep."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sweep_service.report.facts.sweep_facts import Facts
from sweep_service.report.formatting import count, estimate
from sweep_service.report.model import Claim, Holds, TrialRow
from sweep_service.report.parts.curve_sets import by_rollout
from sweep_service.report.statistics.critical_values import student_critical
from sweep_service.report.statistics.differences import MIN_SEEDS, Interval
from sweep_service.sweep.records import TrialState

_FEWEST_POINTS: Final = 8
_SMALLEST: Final = 1e-6
"""Entropy in nats that stands for smaller ones in a logarithm."""


@dataclass(frozen=True)
class _ClaimRun:
    """One trial of a ce_gppo config."""

    seed: str
    group: str
    """Text of all settings but the beta in question; runs are compared within a seed and a group."""
    beta: float
    slope: float
    """Change of log entropy over the whole training, by a straight-line fit."""
    steady: bool


def beta_claims(facts: Facts) -> list[Claim]:
    """Check what beta1 and beta2 do, as far as the sweep varies them."""
    slopes = {trial.id: slope for trial in facts.trials if (slope := _slope(facts, trial)) is not None}
    if not slopes:
        return []
    results = [
        _claim(facts, slopes, "beta1", "BETA1_ENTROPY_FALLS_FASTER", "beta1 up: entropy falls faster (Fig. 3)", -1),
        _claim(facts, slopes, "beta2", "BETA2_SLOWER", "beta2 up: entropy falls more slowly (Fig. 3)", 1),
    ]
    return [claim for claim in results if claim is not None]


def _claim(facts: Facts, slopes: Mapping[str, float], beta: str, code: str, claim: str, sign: int) -> Claim | None:
    runs = _runs(facts, slopes, beta)
    everything, steady = _coefficient(runs), _coefficient([run for run in runs if run.steady])
    if everything is None:
        return None
    used, name = steady or everything, "β1" if beta == "beta1" else "β2"
    change, of_all = (estimate(fit.mean, fit.low, fit.high, sign=True) for fit in (used, everything))
    outcome, collapsed = Holds.UNDECIDED, sum(not run.steady for run in runs)
    if steady is not None and used.low is not None and used.high is not None:
        below, above = used.high < 0, used.low > 0
        holds, fails = (below, above) if sign < 0 else (above, below)
        outcome = Holds.HOLDS if holds else Holds.FAILS if fails else outcome
    evidence = (
        f"With {name} higher by 1, all else equal, the slope of log entropy over training changes by {change}, "
        f"{count(used.n, 'seed')} (below 0: it falls faster)."
    )
    if steady is None:
        evidence += f" It rests on {count(collapsed, 'trial')} of {len(runs)} whose reward collapsed, in which entropy "
        evidence += "follows the collapse, so nothing is decided."
    elif collapsed:
        evidence += f" Left out: {count(collapsed, 'trial')} of {len(runs)} whose reward collapsed, in which entropy "
        evidence += f"follows the collapse; with them {of_all}."
    return made_claim(code, claim, outcome, evidence, used)


def made_claim(code: str, claim: str, outcome: Holds, evidence: str, result: Interval) -> Claim:
    """Return the claim with the figures of the result that it rests on."""
    figures = {"estimate": result.mean, "low": result.low, "high": result.high}
    return Claim(code=code, claim=claim, outcome=outcome, evidence=evidence, num_pairs=result.n, **figures)


def _slope(facts: Facts, trial: TrialRow) -> float | None:
    """Return the slope of log entropy over the share of training, for a whole trial with constant betas."""
    series = facts.inputs.get(trial.id, "entropy")
    if series is None:
        return None
    config = facts.configs[trial.config_id]
    loss = config.training.get("loss", {})
    if trial.state is not TrialState.SUCCEEDED or loss.get("name") != "ce_gppo" or loss.get("schedule"):
        return None
    entropy = by_rollout(series, config.updates_per_rollout, "entropy").present
    if entropy.values.size < _FEWEST_POINTS:
        return None
    return float(np.polyfit(entropy.steps / trial.total_steps, np.log(np.maximum(entropy.values, _SMALLEST)), 1)[0])


def _runs(facts: Facts, slopes: Mapping[str, float], beta: str) -> list[_ClaimRun]:
    groups = {config.id: _without(config.training, beta) for config in facts.configs.values()}
    return [
        _ClaimRun(
            seed=f"{trial.stage} {trial.seed}",
            group=groups[trial.config_id],
            beta=float(facts.configs[trial.config_id].training["loss"][beta]),
            slope=slopes[trial.id],
            steady=not trial.reward_collapsed,
        )
        for trial in facts.trials
        if trial.id in slopes
    ]


def _without(training: Mapping[str, Any], beta: str) -> str:
    loss = {name: value for name, value in training.get("loss", {}).items() if name != beta}
    return json.dumps({**training, "loss": loss}, sort_keys=True)


def _coefficient(runs: Sequence[_ClaimRun]) -> Interval | None:
    """Return the change of the slope per unit of beta, regressed within seeds and groups.

    The interval is Student's over seeds (clusters).
    """
    cells: dict[str, dict[str, list[_ClaimRun]]] = {}
    for run in runs:
        cells.setdefault(run.seed, {}).setdefault(run.group, []).append(run)
    products, squares = list[float](), list[float]()
    for groups in cells.values():
        xy = xx = 0.0
        for cell in groups.values():
            beta, slope = np.array([run.beta for run in cell]), np.array([run.slope for run in cell])
            xy += float((beta - beta.mean()) @ slope)
            xx += float((beta - beta.mean()) @ beta)
        if xx > 1e-12:
            products.append(xy)
            squares.append(xx)
    if not squares:
        return None
    weights, n = np.array(squares), len(squares)
    mean = sum(products) / float(weights.sum())
    if n < MIN_SEEDS:
        return Interval(n, mean, None, None, None)
    scores = np.array(products) - mean * weights  # each seed's weight times its distance from the estimate
    error = math.sqrt(float(scores @ scores) * n / (n - 1)) / float(weights.sum())
    if error <= 1e-12:  # equal slopes say nothing about their spread
        return Interval(n, mean, None, None, None)
    half = student_critical(n - 1) * error
    return Interval(n, mean, None, mean - half, mean + half)
