"""The table of signs that something is wrong with a run, each a pure function of its curves as far as it has got.

A sign says what it saw, relative to the run's own beginning where a task could decide how high a value is. The report
warns of each; `SweepSpec.health` has a run, or its sweep, ended for them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from sweep_service.health.run_health import ACCURACY, RunCurves, window
from sweep_service.sweep.series import Values

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
FAR: Final = 2.0
"""Divergence from the initial model, in nats a token, above which a run has left it."""
ANSWERS_LOST: Final = "ANSWERS_LOST"
"""The sign that a run is ruined."""
_DIVERGENCE: Final = "probe/kl_from_initial_k3"
_ERRORS: Final = 2.0
"""Number of standard errors from which a change of the held-out accuracy is more than noise."""


class Evidence(NamedTuple):
    """Figures with which a run shows a sign."""

    badness: float
    """Severity; larger is worse. Comparable within one sign only."""
    words: str


class Sign(NamedTuple):
    """One row of the table."""

    code: str
    condition: str
    """The condition in words, with its threshold."""
    look: Callable[[RunCurves], Evidence | None]
    """Returns the evidence that a run shows the sign; None if it does not."""


def _reward_collapse(run: RunCurves) -> Evidence | None:
    health = run.health
    if not health.reward_collapsed:
        return None
    if health.diverged:
        return Evidence(math.inf, "it diverged, or was ended as ruined")
    before, lowest = health.reward_before or 0.0, health.reward_lowest or 0.0
    words = f"reward fell from {before:.3f} to {lowest:.3f}, and ended at {health.reward_final or 0.0:.3f}"
    return Evidence(1 - lowest / before, words)


def _entropy_collapse(run: RunCurves) -> Evidence | None:
    health = run.health
    if not health.entropy_collapsed:
        return None
    start, lowest = health.entropy_start or 0.0, health.entropy_lowest or 0.0
    words = f"entropy fell from {start:.3f} to {lowest:.3f} nats, and ended at {health.entropy_end or 0.0:.3f}"
    return Evidence(1 - lowest / start, words)


def _entropy_explosion(run: RunCurves) -> Evidence | None:
    health = run.health
    start, highest = health.entropy_start, health.entropy_highest
    if start is None or highest is None or start <= 0:
        return None
    if highest > EXPLOSION * start:
        return Evidence(highest / start, f"entropy rose from {start:.3f} to {highest:.3f} nats")
    risen = _rise_as_reward_falls(run.windows("entropy"), run.windows("reward/mean"), window(run.total_steps))
    if risen is None or risen <= DRIFT * start:
        return None
    return Evidence(risen / start, f"entropy rose by {risen:.3f} nats within two windows while reward fell")


def _rise_as_reward_falls(entropy: Values, reward: Values, width: int) -> float | None:
    """Return the largest rise of entropy over two windows in which the reward falls, by `DRIFT` in all."""
    if entropy.size != reward.size or entropy.size <= 2 * width:
        return None
    rise = np.stack([entropy[width:-width] - entropy[: -2 * width], entropy[2 * width :] - entropy[width:-width]])
    fall = np.stack([reward[: -2 * width] - reward[width:-width], reward[width:-width] - reward[2 * width :]])
    met = (rise > 0).all(axis=0) & (fall > 0).all(axis=0) & (fall.sum(axis=0) > DRIFT * reward.max())
    return float(rise.sum(axis=0)[met].max()) if met.any() else None


def _reward_hacking(run: RunCurves) -> Evidence | None:
    reward, held_out = run.present("reward/mean"), _held_out(run)
    if held_out is None or held_out.fallen <= 0:
        return None
    at_peak, at_end = (
        reward.values[(reward.steps > first) & (reward.steps <= last)] for first, last in (held_out.peak, held_out.end)
    )
    if not at_peak.size or not at_end.size or at_end.mean() - at_peak.mean() < REWARD_GAIN:
        return None
    words = (
        f"held-out accuracy fell by {held_out.fallen:.3f} since its best evaluations, around step "
        f"{held_out.peak[1]}, while training reward rose by {at_end.mean() - at_peak.mean():.3f}"
    )
    return Evidence(held_out.fallen, words)


def _length_hacking(run: RunCurves) -> Evidence | None:
    cut = run.windows("completion/truncated_share")
    if cut.size and (cut[-1] > MUCH_CUT or cut.max() > max(MUCH_CUT, cut[0] + 0.1)):
        words = f"the share of completions cut at the limit went from {cut[0]:.2f} to {cut.max():.2f}"
        return Evidence(float(cut.max()), words)
    length = run.windows("completion/length_ended")
    if not length.size or length[-1] <= LONGER * length[0]:
        return None
    held_out = _held_out(run)
    if held_out is None or held_out.risen > 0:
        return None
    words = f"completions grew from {length[0]:.1f} to {length[-1]:.1f} tokens"
    return Evidence(float(length[-1] / length[0]), f"{words} without a gain in held-out accuracy")


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


def _held_out(run: RunCurves) -> _HeldOut | None:
    series = run.present(ACCURACY)
    if len(series.values) < 2:
        return None
    last = min(run.last, len(series.values) - 1)
    means = np.convolve(series.values, np.full(last, 1 / last), "valid")
    errors = run.present("eval/avg_at_k_se").values
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


def _dead_groups(run: RunCurves) -> Evidence | None:
    share = run.windows("group/zero_spread_share")
    if not share.size or share.max() <= DEAD:
        return None
    words = f"in a window {share.max():.0%} of the groups had equal rewards, {share[-1]:.0%} at the end"
    return Evidence(float(share.max()), words)


def _clip_dominated(run: RunCurves) -> Evidence | None:
    if run.step < run.total_steps / 4:
        return None
    clipped = (run.present(f"clip_fraction/{side}").values for side in ("low", "high"))
    low, high = (float(shares.mean()) if shares.size else 0.0 for shares in clipped)
    if max(low, high) <= MUCH_CLIPPED:
        return None
    return Evidence(max(low, high), f"{low:.0%} of the tokens lay below the clip range, {high:.0%} above")


def _answers_lost(run: RunCurves) -> Evidence | None:
    if (step := run.lost_at) is None:
        return None
    accuracy = run.present(ACCURACY)
    until = accuracy.values[accuracy.steps <= step]
    end, best = float(until[-run.last :].mean()), float(until.max())
    words = f"at step {step} held-out accuracy was {end:.3f} in the last evaluations, after {best:.3f} at its best"
    return Evidence(1 - end / best, words)


def _kl_explosion(run: RunCurves) -> Evidence | None:
    divergence = run.windows(_DIVERGENCE)
    if not divergence.size or divergence.max() <= FAR:
        return None
    return Evidence(
        float(divergence.max()),
        f"its divergence from the initial model on frozen completions reached {divergence.max():.2f} nats a token",
    )


KEYS: Final = (
    ACCURACY,
    "eval/avg_at_k_se",
    "reward/mean",
    "entropy",
    "completion/length_mean",
    "completion/length_ended",
    "completion/truncated_share",
    "group/zero_spread_share",
    "clip_fraction/low",
    "clip_fraction/high",
    _DIVERGENCE,
)
"""The metrics that signs read."""
SIGNS: Final = (
    Sign(
        ANSWERS_LOST,
        "Held-out accuracy, averaged as the objective is, below half of its best so far, by more than sampling "
        "explains.",
        _answers_lost,
    ),
    Sign(
        "REWARD_COLLAPSE",
        "Reward below half of the trial's best so far for a window of 5 % of its steps (at least 4), in a trial whose "
        "reward or held-out accuracy was ever above 0.05; or diverged.",
        _reward_collapse,
    ),
    Sign(
        "ENTROPY_COLLAPSE",
        "Entropy below a fifth of its start for a window of 5 % of the steps (at least 4).",
        _entropy_collapse,
    ),
    Sign(
        "ENTROPY_EXPLOSION",
        "Entropy above 3 times its start for a window, or rising by more than a tenth of its start in two windows in "
        "which reward falls by more than a tenth of its peak.",
        _entropy_explosion,
    ),
    Sign(
        "REWARD_HACKING_SUSPECT",
        "Held-out accuracy at the end below its best by more than sampling explains, with a training reward that is "
        "higher by 0.1 or more.",
        _reward_hacking,
    ),
    Sign(
        "LENGTH_HACKING",
        "Completions that end are longer by half while held-out accuracy has not risen, or more than 30 % of the "
        "completions are cut at the limit (at the end, or for a window after fewer were).",
        _length_hacking,
    ),
    Sign(
        "DEAD_GROUPS",
        "More than 80 % of the groups have equal rewards for a window: they train nothing.",
        _dead_groups,
    ),
    Sign(
        "KL_EXPLOSION",
        "Divergence from the initial model on the frozen completions above 2 nats a token for a window.",
        _kl_explosion,
    ),
    Sign(
        "CLIP_DOMINATED",
        "Over all steps so far, a quarter of the trial's at least, more than 30 % of the tokens lie below, or above, "
        "the clip range.",
        _clip_dominated,
    ),
)
