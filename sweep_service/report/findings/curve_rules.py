"""Warnings about trials by what their curves show: one for each code, with the worst trial's figures."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.facts.trial_health import Health, smooth, window
from sweep_service.report.findings.rule import Evidence, Rule
from sweep_service.report.findings.sweep_rules import by_config
from sweep_service.report.formatting import number
from sweep_service.report.model import TrialRow
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import TrialState
from sweep_service.sweep.series import Series, Values

EXPLOSION: Final = 3.0
"""Multiple of its start above which entropy counts as exploding."""
DRIFT: Final = 0.1
"""Share of the start, or of the peak, by which entropy must rise and reward fall over two windows."""
LONGER: Final = 1.5
MUCH_CUT: Final = 0.3
"""Share of completions cut at their limit above which too many are cut."""
REWARD_GAIN: Final = 0.1
DEAD: Final = 0.8
MUCH_CLIPPED: Final = 0.3
_ERRORS: Final = 2.0
"""Number of standard errors from which a change of the held-out accuracy is more than noise."""


@dataclass(frozen=True)
class _Seen:
    """The input of a rule: one trial, its health, and its other curves."""

    trial: TrialRow
    health: Health
    inputs: ReportInputs

    def present(self, key: str) -> Series:
        """Return a metric at the steps that have a value; empty if it was not recorded."""
        return self.inputs.present(self.trial.id, key)

    def windows(self, key: str) -> Values:
        """Return moving means of a metric; empty if it was not recorded."""
        return smooth(self.present(key).values, self.trial.total_steps)


@dataclass(frozen=True)
class _Sign:
    """Evidence that a trial met a rule."""

    badness: float
    """Severity; larger is worse. Comparable within one rule only."""
    words: str


def _worst(look: Callable[[_Seen], _Sign | None]) -> Callable[[Facts], Evidence | None]:
    """Look at every trial, count by config those that meet a rule, and show the worst one's figures."""

    def over_trials(facts: Facts) -> Evidence | None:
        hit: list[tuple[TrialRow, _Sign]] = []
        for row in facts.trials:
            if row.id in facts.inputs.series or row.state is TrialState.DIVERGED:
                sign = look(_Seen(row, facts.health[row.id], facts.inputs))
                hit += [(row, sign)] if sign else []
        if not hit:
            return None
        trials = [row for row, _ in hit]
        worst, sign = max(hit, key=lambda one: (one[1].badness, -one[0].number))
        lead = "Worst: trial" if len(hit) > 1 else "Trial"
        example = f"{worst.label}, {worst.stage} seed {worst.seed}: {sign.words}"
        text = f"{by_config(facts, trials)}. {lead} {worst.number} ({example})."
        return Evidence(text, [trial.id for trial in trials])

    return over_trials


def _reward_collapse(seen: _Seen) -> _Sign | None:
    health = seen.health
    if not health.reward_collapsed:
        return None
    if health.diverged:
        return _Sign(math.inf, "it diverged")
    before, lowest = health.reward_before or 0.0, health.reward_lowest or 0.0
    words = f"reward fell from {number(before)} to {number(lowest)}, and ended at {number(health.reward_final)}"
    return _Sign(1 - lowest / before, words)


def _entropy_collapse(seen: _Seen) -> _Sign | None:
    health = seen.health
    if not health.entropy_collapsed:
        return None
    start, lowest = health.entropy_start or 0.0, health.entropy_lowest or 0.0
    words = f"entropy fell from {number(start)} to {number(lowest)} nats, and ended at {number(health.entropy_end)}"
    return _Sign(1 - lowest / start, words)


def _entropy_explosion(seen: _Seen) -> _Sign | None:
    health = seen.health
    start, highest = health.entropy_start, health.entropy_highest
    if start is None or highest is None or start <= 0:
        return None
    if highest > EXPLOSION * start:
        return _Sign(highest / start, f"entropy rose from {number(start)} to {number(highest)} nats")
    risen = _rise_as_reward_falls(seen.windows("entropy"), seen.windows("reward/mean"), window(seen.trial.total_steps))
    if risen is None or risen <= DRIFT * start:
        return None
    return _Sign(risen / start, f"entropy rose by {number(risen)} nats within two windows while reward fell")


def _rise_as_reward_falls(entropy: Values, reward: Values, width: int) -> float | None:
    """Return the largest rise of entropy over two windows in which the reward falls, by `DRIFT` in all."""
    if entropy.size != reward.size or entropy.size <= 2 * width:
        return None
    rise = np.stack([entropy[width:-width] - entropy[: -2 * width], entropy[2 * width :] - entropy[width:-width]])
    fall = np.stack([reward[: -2 * width] - reward[width:-width], reward[width:-width] - reward[2 * width :]])
    met = (rise > 0).all(axis=0) & (fall > 0).all(axis=0) & (fall.sum(axis=0) > DRIFT * reward.max())
    return float(rise.sum(axis=0)[met].max()) if met.any() else None


def _reward_hacking(seen: _Seen) -> _Sign | None:
    reward, held_out = seen.present("reward/mean"), _held_out(seen)
    if held_out is None or held_out.fallen <= 0:
        return None
    at_peak, at_end = (
        reward.values[(reward.steps > first) & (reward.steps <= last)] for first, last in (held_out.peak, held_out.end)
    )
    if not at_peak.size or not at_end.size or at_end.mean() - at_peak.mean() < REWARD_GAIN:
        return None
    words = (
        f"held-out accuracy fell by {number(held_out.fallen)} since its best evaluations, around step "
        f"{held_out.peak[1]}, while training reward rose by {number(at_end.mean() - at_peak.mean())}"
    )
    return _Sign(held_out.fallen, words)


def _length_hacking(seen: _Seen) -> _Sign | None:
    cut = seen.windows("completion/truncated_share")
    if cut.size and (cut[-1] > MUCH_CUT or cut.max() > max(MUCH_CUT, cut[0] + 0.1)):
        words = f"the share of completions cut at the limit went from {number(cut[0], 2)} to {number(cut.max(), 2)}"
        return _Sign(float(cut.max()), words)
    length = seen.windows("completion/length_ended")
    if not length.size or length[-1] <= LONGER * length[0]:
        return None
    held_out = _held_out(seen)
    if held_out is None or held_out.risen > 0:
        return None
    words = f"completions grew from {number(length[0], 1)} to {number(length[-1], 1)} tokens"
    return _Sign(float(length[-1] / length[0]), f"{words} without a gain in held-out accuracy")


@dataclass(frozen=True)
class _HeldOut:
    """Changes of the held-out accuracy that sampling does not explain."""

    risen: float
    """Rise from the first evaluation to the last ones; 0 if sampling could explain it."""
    fallen: float
    """Fall from the peak to the last evaluations; 0 if sampling could explain it."""
    peak: tuple[int, int]
    """Steps of the first and last of the best consecutive evaluations, as many as the objective averages."""
    end: tuple[int, int]
    """Steps of the first and last of the last evaluations."""


def _held_out(seen: _Seen) -> _HeldOut | None:
    series = seen.present("eval/avg_at_k")
    if len(series.values) < 2:
        return None
    last = min(seen.inputs.sweep.spec.objective.last, len(series.values) - 1)
    means = np.convolve(series.values, np.full(last, 1 / last), "valid")
    errors = seen.present("eval/avg_at_k_se").values
    typical = float(np.sqrt(np.mean(errors**2))) if errors.size else 0.0
    peak = int(means.argmax())
    risen, fallen = float(means[-1] - series.values[0]), float(means[peak] - means[-1])
    noise = _ERRORS * typical
    first = series.steps[: len(means)]
    return _HeldOut(
        risen=risen if risen > noise * math.sqrt(1 + 1 / last) else 0.0,
        fallen=fallen if fallen > max(0.01, 2 * noise * math.sqrt(2 / last)) else 0.0,  # stricter, for a peak is picked
        peak=(int(first[peak]), int(series.steps[peak + last - 1])),
        end=(int(first[-1]), int(series.steps[-1])),
    )


def _dead_groups(seen: _Seen) -> _Sign | None:
    share = seen.windows("group/zero_spread_share")
    if not share.size or share.max() <= DEAD:
        return None
    words = f"in a window {share.max():.0%} of the groups had equal rewards, {share[-1]:.0%} at the end"
    return _Sign(float(share.max()), words)


def _clip_dominated(seen: _Seen) -> _Sign | None:
    clipped = (seen.present(f"clip_fraction/{side}").values for side in ("low", "high"))
    low, high = (float(shares.mean()) if shares.size else 0.0 for shares in clipped)
    if max(low, high) <= MUCH_CLIPPED:
        return None
    return _Sign(max(low, high), f"{low:.0%} of the tokens lay below the clip range, {high:.0%} above")


CURVE_RULES: Final = (
    Rule(
        "REWARD_COLLAPSE",
        "Reward below half of the trial's best so far for a window of 5 % of its steps (at least 4), in a trial whose "
        "reward or held-out accuracy was ever above 0.05; or diverged.",
        _worst(_reward_collapse),
    ),
    Rule(
        "ENTROPY_COLLAPSE",
        "Entropy below a fifth of its start for a window of 5 % of the steps (at least 4).",
        _worst(_entropy_collapse),
    ),
    Rule(
        "ENTROPY_EXPLOSION",
        "Entropy above 3 times its start for a window, or rising by more than a tenth of its start in two windows in "
        "which reward falls by more than a tenth of its peak.",
        _worst(_entropy_explosion),
    ),
    Rule(
        "REWARD_HACKING_SUSPECT",
        "Held-out accuracy at the end below its best by more than sampling explains, with a training reward that is "
        "higher by 0.1 or more.",
        _worst(_reward_hacking),
    ),
    Rule(
        "LENGTH_HACKING",
        "Completions that end are longer by half while held-out accuracy has not risen, or more than 30 % of the "
        "completions are cut at the limit (at the end, or for a window after fewer were).",
        _worst(_length_hacking),
    ),
    Rule(
        "DEAD_GROUPS",
        "More than 80 % of the groups have equal rewards for a window: they train nothing.",
        _worst(_dead_groups),
    ),
    Rule(
        "CLIP_DOMINATED",
        "Over the whole trial more than 30 % of the tokens lie below, or above, the clip range.",
        _worst(_clip_dominated),
    ),
)
