"""Warnings: each a rule, what met it, and the trials that did. Ordered by how much they weaken the verdict."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sweep_service.records import Role, Stage, Sweep, SweepState, TrialState
from sweep_service.report.facts import Facts
from sweep_service.report.labels import count, number
from sweep_service.report.model import Caution, Comparison, ConfigRow, Outcome, TrialRow, Verdict
from sweep_service.report.rows import in_order
from sweep_service.report.stats import MIN_SEEDS

RELEVANT: Final = 0.02
"""A difference that people care about: about what the CE-GPPO paper reports between methods."""
_LISTED: Final = 6


def cautions(facts: Facts) -> list[Caution]:
    """Return every warning that applies."""
    sweep, trials, verdict, interim = facts.inputs.sweep, facts.trials, facts.verdict, facts.inputs.interim
    rows = in_order(facts.rows)
    reward = "Ended below half of their own peak reward, or diverged"
    entropy = "Ended with less than a fifth of their entropy"
    found = [
        _ended_early(sweep),
        _no_confirmation(sweep),
        _no_baseline(sweep, rows, interim=interim),
        _few_seeds(sweep, verdict.comparison),
        _underpowered(verdict),
        _by_state(trials, TrialState.FAILED, "FAILED_TRIALS", "failed; their results are missing, not zero"),
        _by_state(trials, TrialState.DIVERGED, "DIVERGED_TRIALS", "diverged and count as 0"),
        _unfinished(trials, interim=interim),
        _collapse(rows, trials, "REWARD_COLLAPSE", reward, lambda trial: trial.reward_collapsed),
        _collapse(rows, trials, "ENTROPY_COLLAPSE", entropy, lambda trial: trial.entropy_collapsed),
        *_warned(trials),
    ]
    return [caution for caution in found if caution is not None]


def _ended_early(sweep: Sweep) -> Caution | None:
    if sweep.state is SweepState.CANCELLED:
        return Caution(code="CANCELLED", text="The sweep was cancelled; this is what it had found by then.")
    if sweep.state is SweepState.FAILED:
        return Caution(code="SWEEP_FAILED", text=f"The sweep failed: {sweep.message or 'it did not say why'}")
    return None


def _no_confirmation(sweep: Sweep) -> Caution | None:
    if sweep.spec.seeds.confirm is not None:
        return None
    text = (
        "No confirm stage: configs are ranked on the seeds that chose them, so the leader's mean is too high. "
        "Add seeds.confirm to the spec."
    )
    return Caution(code="NO_CONFIRMATION", text=text)


def _no_baseline(sweep: Sweep, rows: Sequence[ConfigRow], *, interim: bool) -> Caution | None:
    if not sweep.spec.baselines.ppo_clip:
        text = "No PPO-clip baseline: the sweep was submitted with baselines.ppo_clip false."
        return Caution(code="BASELINE_MISSING", text=text)
    baseline = next((row for row in rows if Role.BASELINE in row.roles), None)
    stage = baseline and (baseline.confirm if sweep.spec.seeds.confirm else baseline.tune)
    if (stage and stage.n) or interim:
        return None
    return Caution(code="BASELINE_MISSING", text="The baseline has no result on the seeds that would be compared.")


def _few_seeds(sweep: Sweep, comparison: Comparison | None) -> Caution | None:
    confirm = sweep.spec.seeds.confirm
    reasons: list[str] = []
    if confirm and len(confirm.seeds) < MIN_SEEDS:
        reasons.append(f"{count(len(confirm.seeds), 'confirm seed')}: no interval can be given below {MIN_SEEDS}")
    elif confirm and comparison and comparison.num_seeds < len(confirm.seeds):
        reasons.append(f"{comparison.num_seeds} of {len(confirm.seeds)} confirm seeds have a result for both")
    if len(sweep.spec.seeds.tune) == 1:
        reasons.append("1 tune seed: which configs were confirmed is mostly luck")
    return Caution(code="FEW_SEEDS", text="; ".join(reasons) + ".") if reasons else None


def _underpowered(verdict: Verdict) -> Caution | None:
    comparison = verdict.comparison
    if verdict.outcome is not Outcome.TIED or comparison is None or comparison.detectable is None:
        return None
    if comparison.detectable <= RELEVANT:
        return None
    needed = round(comparison.num_seeds * (comparison.detectable / RELEVANT) ** 2)
    text = (
        f"{count(comparison.num_seeds, 'confirm seed')} find a true difference of "
        f"{number(comparison.detectable)} with 80 % probability, smaller ones more rarely. "
        f"For {RELEVANT:g} it would take about {needed} seeds."
    )
    return Caution(code="UNDERPOWERED", text=text)


def _by_state(trials: Sequence[TrialRow], state: TrialState, code: str, what: str) -> Caution | None:
    ids = [trial.id for trial in trials if trial.state is state]
    if not ids:
        return None
    confirm = sum(trial.stage is Stage.CONFIRM for trial in trials if trial.state is state)
    text = f"{len(ids)} of {count(len(trials), 'trial')} {what} ({confirm or 'none'} of them in the confirm stage)."
    return Caution(code=code, text=text, trials=ids)


def _unfinished(trials: Sequence[TrialRow], *, interim: bool) -> Caution | None:
    ids = [trial.id for trial in trials if not trial.state.terminal or trial.state is TrialState.CANCELLED]
    if not ids:
        return None
    how = "are not finished yet" if interim else "never finished"
    return Caution(code="UNFINISHED", text=f"{len(ids)} of {count(len(trials), 'trial')} {how}.", trials=ids)


def _collapse(
    rows: Sequence[ConfigRow], trials: Sequence[TrialRow], code: str, what: str, met: Callable[[TrialRow], bool]
) -> Caution | None:
    by_config: dict[str, list[bool]] = {}
    for trial in trials:
        by_config.setdefault(trial.config_id, []).append(met(trial))
    hit = [row for row in rows if any(by_config.get(row.id, []))]
    if not hit:
        return None
    parts = [f"{row.label}: {_of(by_config, row)}" for row in hit[:_LISTED]]
    more = f"; and {count(len(hit) - _LISTED, 'more config')}" if len(hit) > _LISTED else ""
    ids = [trial.id for trial in trials if met(trial)]
    return Caution(code=code, text=f"{what}: {'; '.join(parts)}{more}.", trials=ids)


def _of(by_config: Mapping[str, Sequence[bool]], row: ConfigRow) -> str:
    met = by_config[row.id]
    return f"{sum(met)} of {count(len(met), 'trial')}"


def _warned(trials: Sequence[TrialRow]) -> list[Caution]:
    """What trainers warned of, one caution a code."""
    by_code: dict[str, list[tuple[TrialRow, str]]] = {}
    for trial in trials:
        for warning in trial.warnings:
            by_code.setdefault(warning.code, []).append((trial, warning.message))
    return [
        Caution(
            code=code,
            text=f"{len(hit)} of {count(len(trials), 'trial')}; {hit[0][0].label}, seed {hit[0][0].seed}: {hit[0][1]}",
            trials=[trial.id for trial, _ in hit],
        )
        for code, hit in by_code.items()
    ]
