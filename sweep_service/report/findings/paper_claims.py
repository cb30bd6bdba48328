"""Claims of the CE-GPPO paper (arXiv 2509.20712), held against this sweep.

Four claims about stability and one about results compare one ce_gppo config with its twin, the config with PPO clip's
gradient and everything else the same, seed by seed; those about the effects of beta1 and beta2 on entropy are in
`beta_claims`. Every interval of these has 95 % by itself, not all of them together.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import numpy as np
from scipy import stats

from sweep_service.report.facts.rollouts import by_rollout
from sweep_service.report.findings.rule import Evidence, Rule, figures_of
from sweep_service.report.formatting import count, estimate, signed
from sweep_service.report.model import ConfigRow, Holds, TrialRow
from sweep_service.report.statistics.critical_values import CONFIDENCE
from sweep_service.report.statistics.differences import EQUAL, MIN_SEEDS, Interval, mean_interval
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Stage, TrialState
from sweep_service.sweep.series import Values

MARGIN: Final = 0.01
"""Difference in the final result below which a lower one counts as no worse."""
MORE_OFTEN: Final = 0.1
"""Excess share of trials that go wrong below which a config counts as going wrong no more often."""
IN_RANGE: Final = 2.0
"""Factor up to which two sizes count as one range."""
_FEWEST_POINTS: Final = 8


@dataclass(frozen=True)
class _Pair:
    """The config that stands for CE-GPPO, and its twin with PPO clip, on the seeds of one stage."""

    config: ConfigRow
    baseline: ConfigRow
    stage: Stage
    trials: Sequence[tuple[TrialRow, TrialRow]]
    """Trials of the config and its twin by seed, both trained to the end."""
    left_out: int
    """Number of seeds on which one of the two has no such trial."""

    @property
    def ending(self) -> str:
        """Last words of the evidence: the number of seeds on which it rests."""
        text = f", {count(len(self.trials), f'{self.stage} seed')}."
        if self.left_out:
            text += f" Left out: {count(self.left_out, 'seed')} on which one of them did not train to its end."
        return text


def _pair(facts: Facts) -> _Pair | None:
    """Return the best config that has a twin, with its twin: the best of the space if it is one of CE-GPPO's."""
    ids = sorted(facts.twins, key=lambda id_: facts.best is None or id_ != facts.best.id)
    if not ids:
        return None
    config, baseline = facts.rows[ids[0]], facts.twins[ids[0]]
    stage = Stage.CONFIRM if config.confirm and baseline.confirm else Stage.TUNE
    own, other = (
        {trial.seed: trial for trial in facts.trials_of(row.id) if trial.stage is stage} for row in (config, baseline)
    )
    pairs = [(own[seed], other[seed]) for seed in sorted(own.keys() & other.keys())]
    whole = [pair for pair in pairs if all(trial.state is TrialState.SUCCEEDED for trial in pair)]
    return _Pair(config, baseline, stage, whole, len(pairs) - len(whole))


def _steadier(facts: Facts) -> Evidence | None:
    def unsteadiness(trial: TrialRow) -> float | None:
        steps, entropy = _by_rollout(facts, trial, "entropy")
        if entropy.size < _FEWEST_POINTS:
            return None
        fitted = np.polynomial.Polynomial.fit(steps, entropy, 1)(steps)
        return float(np.mean((entropy - fitted) ** 2))

    def outcome(low: float, high: float) -> Holds:
        return Holds.HOLDS if high < 0 else Holds.FAILS if low > 0 else Holds.UNDECIDED

    return _compared(facts, "variance of entropy about its straight line over training", unsteadiness, outcome)


def _by_rollout(facts: Facts, trial: TrialRow, key: str) -> tuple[Values, Values]:
    """Return steps and means over each rollout's updates; empty if it was not recorded."""
    series = facts.inputs.get(trial.id, key)
    if series is None or not series.present.values.size:
        return np.empty(0), np.empty(0)
    means = by_rollout(series, facts.configs[trial.config_id].updates_per_rollout, key).present
    return means.steps.astype(float), means.values


def _in_range(*keys: str) -> Callable[[Facts], Evidence | None]:
    """Return the look for the claim that the first of these metrics that was recorded stays in PPO clip's range."""
    reach = math.log(IN_RANGE)

    def typical(facts: Facts, key: str, trial: TrialRow) -> float | None:
        values = _by_rollout(facts, trial, key)[1]
        return float(np.median(np.abs(values))) if values.size else None

    def outcome(low: float, high: float) -> Holds:
        if -reach < low and high < reach:
            return Holds.HOLDS
        return Holds.FAILS if low > reach or high < -reach else Holds.UNDECIDED

    def look(facts: Facts) -> Evidence | None:
        for key in keys:
            what = f"median of |{key}| over training (in range: a factor of {IN_RANGE:g} at most)"
            if evidence := _compared(facts, what, partial(typical, facts, key), outcome):
                return evidence
        return None

    return look


def _compared(
    facts: Facts,
    what: str,
    measure: Callable[[TrialRow], float | None],
    outcome: Callable[[float, float], Holds],
) -> Evidence | None:
    """Compare a measure of the pair's trials by the mean over seeds of log(config's / twin's), and Student's interval.

    None without a pair, and where a trial has no value. The outcome follows from the interval's bounds.
    """
    pair = _pair(facts)
    values = [(measure(trial), measure(twin)) for trial, twin in pair.trials] if pair else []
    logs = [math.log(one / other) for one, other in values if one and other]
    if pair is None or not logs or len(logs) != len(values):
        return None
    log = mean_interval(logs)
    low, high = (None if bound is None else math.exp(bound) for bound in (log.low, log.high))
    ratio = Interval(log.n, math.exp(log.mean), None, low, high)
    text = (
        f"{pair.config.label} divided by {pair.baseline.label}, {what}: {estimate(ratio.mean, low, high)}"
        f"{pair.ending}{_unvaried(log)}"
    )
    held = Holds.UNDECIDED if log.low is None or log.high is None else outcome(log.low, log.high)
    return Evidence(text, outcome=held, figures=figures_of(ratio))


def _unvaried(result: Interval) -> str:
    """Return the words that say why a claim with enough seeds has no interval."""
    return f" There is no interval: {EQUAL}." if result.low is None and result.n >= MIN_SEEDS else ""


def _no_worse(facts: Facts) -> Evidence | None:
    pair = _pair(facts)
    if pair is None:
        return None
    comparison = next((one for one in facts.comparisons if one.pair == (pair.config.id, pair.baseline.id)), None)
    if comparison is not None:
        result = Interval(comparison.num_seeds, comparison.difference, None, comparison.low, comparison.high)
    else:
        own, other = pair.config.tune, pair.baseline.tune
        deltas = own.minus(other) if own and other else {}
        if not deltas:
            return None
        result = mean_interval([*deltas.values()])
    low, high, outcome, note = result.low, result.high, Holds.UNDECIDED, ""
    if high is not None and high < 0 and (low is None or low <= -MARGIN):
        outcome = Holds.FAILS
    elif low is not None and low > -MARGIN:
        outcome = Holds.HOLDS if comparison is not None else outcome
        note = "" if comparison is not None else " The same seeds chose it, so this cannot show that it holds."
    stage = Stage.CONFIRM if comparison is not None else Stage.TUNE
    evidence = (
        f"{pair.config.label} minus {pair.baseline.label}: {estimate(result.mean, low, high, sign=True)}, "
        f"{count(result.n, f'{stage} seed')} (no worse: less than {MARGIN:g} lower).{note}{_unvaried(result)}"
    )
    return Evidence(evidence, outcome=outcome, figures=figures_of(result))


def _no_more_divergences(facts: Facts) -> Evidence | None:
    rows = [facts.rows[id_] for id_ in facts.twins]
    (bad, n), (base_bad, base_n) = _gone_wrong(facts, rows), _gone_wrong(facts, [*facts.twins.values()])
    if not n or not base_n:
        return None
    p, low, high = _shares_apart(bad, n, base_bad, base_n)
    outcome = Holds.FAILS if p < (1 - CONFIDENCE) / 2 else Holds.HOLDS if high < MORE_OFTEN else Holds.UNDECIDED
    worst = max(rows, key=lambda row: (row.reward_collapsed / max(1, sum(row.states.values())), -row.number))
    where = f" Most in {worst.label}: {worst.reward_collapsed} of {sum(worst.states.values())}." if bad else ""
    evidence = (
        f"Diverged or lost more than half of their reward: {bad} of {count(n, 'trial')} with a beta above 0, "
        f"{base_bad} of {base_n} with PPO clip and all else equal "
        f"(Fisher's exact test, one-sided: p = {p:.2g}); share more: "
        f"{signed((bad / n) - (base_bad / base_n), 2)} [{signed(low, 2)}, {signed(high, 2)}], "
        f"holds if the whole interval lies below {MORE_OFTEN:g}.{where}"
    )
    figures = {"estimate": bad / n - base_bad / base_n, "low": low, "high": high}
    return Evidence(evidence, outcome=outcome, figures=figures)


def _gone_wrong(facts: Facts, rows: Sequence[ConfigRow]) -> tuple[int, int]:
    """Return the number of trials that diverged or collapsed, and of those that have a result."""
    ids = {row.id for row in rows}
    trials = [trial for trial in facts.trials if trial.config_id in ids and trial.objective is not None]
    return sum(trial.reward_collapsed for trial in trials), len(trials)


@lru_cache
def _shares_apart(hits: int, n: int, others: int, m: int) -> tuple[float, float, float]:
    """Return the p value of Fisher's exact test for hits/n > others/m, and the bounds of their difference.

    The interval is Newcombe's, from Wilson's of both shares.
    """
    p = float(stats.hypergeom.sf(hits - 1, n + m, hits + others, n))
    one, two = (stats.binomtest(k, of).proportion_ci(CONFIDENCE, "wilson") for k, of in ((hits, n), (others, m)))
    share, other = hits / n, others / m
    low = share - other - math.hypot(share - one.low, two.high - other)
    return p, low, share - other + math.hypot(one.high - share, other - two.low)


PAPER_CLAIMS: Final = (
    Rule("ENTROPY_STEADIER", "entropy is steadier than PPO clip's (Fig. 2)", _steadier),
    Rule("NO_WORSE_FINAL", "the final result is no worse than PPO clip's (Table 1)", _no_worse),
    Rule(
        "NO_MORE_DIVERGENCES",
        "training goes wrong no more often than with PPO clip (stability, Fig. 4)",
        _no_more_divergences,
    ),
    Rule(
        "KL_IN_RANGE",
        "KL from the policy that sampled stays within PPO clip's range (Fig. 4)",
        _in_range("kl/k3", "ppo_kl"),
    ),
    Rule("GRAD_NORM_IN_RANGE", "the gradient's norm stays within PPO clip's range (Fig. 4)", _in_range("grad_norm")),
)
