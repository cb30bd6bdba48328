"""All warnings, each with its rule, the figures that met it, and the trials; those that weaken the verdict first."""

from collections.abc import Sequence
from typing import Final

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.facts.sweep_facts import Facts
from sweep_service.report.formatting import count
from sweep_service.report.model import Caution, Comparison, TrialRow
from sweep_service.report.parts.asked_before import asked_before
from sweep_service.report.parts.benchmark_doubts import chosen_by_before, not_measured
from sweep_service.report.parts.doubts import (
    edge_of_space,
    evaluation_noise,
    no_room,
    seed_disagreement,
    underpowered,
    unequal_budget,
)
from sweep_service.report.parts.symptoms import by_config, symptoms
from sweep_service.report.statistics.differences import MIN_SEEDS
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.plan import tuning_had_room
from sweep_service.sweep.records import Role, Stage, Sweep, SweepState, TrialState

_FAILED: Final = "Trials that ended by an error or too many crashes."
_OF_EVERY_RUN: Final = ("python", "torch", "transformers", "trl")
"""Packages that every run notes; others only by the trials whose loss comes from them."""
_DIVERGED: Final = "Trials whose loss or gradient became non-finite."


def cautions(facts: Facts) -> list[Caution]:
    """Return every warning that applies."""
    sweep, trials = facts.inputs.sweep, facts.trials
    found = [
        _ended_early(sweep),
        _budget_ended(facts.inputs),
        _unfinished(facts),
        _no_confirmation(sweep),
        _no_baseline(facts),
        _few_seeds(sweep, facts.verdict.comparison),
        asked_before(facts),
        _ended(trials, TrialState.FAILED, "failed; their results are missing, not zero", _FAILED),
        _stopped_by_hand(facts),
        _mixed_versions(facts),
        _other_problems(facts),
        no_room(facts),
        unequal_budget(facts),
        seed_disagreement(facts),
        evaluation_noise(facts),
        underpowered(facts.verdict, facts.inputs.sweep.spec.objective.relevant),
        _ended(trials, TrialState.DIVERGED, f"diverged and count as {sweep.spec.objective.diverged:g}", _DIVERGED),
        not_measured(facts),
        chosen_by_before(facts),
        *symptoms(facts),
        *_warned(facts),
        edge_of_space(facts),
    ]
    return [caution for caution in found if caution is not None]


def _ended_early(sweep: Sweep) -> Caution | None:
    if sweep.state is SweepState.CANCELLED:
        text = "The sweep was cancelled; this is what it had found by then."
        return Caution(code="CANCELLED", rule="The sweep was cancelled.", text=text)
    if sweep.state is SweepState.FAILED:
        text = f"The sweep failed: {sweep.message or 'it did not say why'}"
        return Caution(code="SWEEP_FAILED", rule="The sweep could not go on.", text=text)
    return None


def _budget_ended(inputs: ReportInputs) -> Caution | None:
    """Warn of trials that the budget kept from beginning, and of configs that it kept from being proposed."""
    spec, limit = inputs.sweep.spec, inputs.sweep.spec.budget.max_gpu_hours
    if limit is None or inputs.interim:
        return None
    ids = _never_begun(inputs)
    asked, points = spec.search.num_configs or 0, sum(Role.SPACE in config.roles for config in inputs.configs)
    had_room = tuning_had_room(spec, inputs.trials, inputs.probe_gpu_hours)
    unasked = 0 if had_room else max(0, asked - points)
    lost = [f"{count(len(ids), 'trial')} did not run"] if ids else []
    lost += [f"{unasked} of {count(asked, 'config')} were not proposed"] if unasked else []
    if not lost:
        return None
    text = (
        f"The budget of {limit:g} GPU-hours ended the tune stage: {' and '.join(lost)}. Configs were chosen among "
        f"those that did, on seeds on which all of these ran."
    )
    rule = "A trial that might pass budget.max_gpu_hours, less what the confirm stage may take, does not begin."
    return Caution(code="BUDGET_ENDED_TUNING", rule=rule, text=text, trials=ids)


def _never_begun(inputs: ReportInputs) -> list[str]:
    """Return the ids of the trials that the budget kept from beginning."""
    return [trial.id for trial in inputs.trials if trial.ending is Ending.OVER_BUDGET]


def _unfinished(facts: Facts) -> Caution | None:
    never_begun = _never_begun(facts.inputs)
    ids = [
        trial.id
        for trial in facts.trials
        if not trial.state.is_over or (trial.state is TrialState.CANCELLED and trial.id not in never_begun)
    ]
    if not ids:
        return None
    how = "are not finished yet" if facts.inputs.interim else "never finished"
    text = f"{len(ids)} of {count(len(facts.trials), 'trial')} {how}."
    return Caution(code="UNFINISHED", rule="Trials without an end.", text=text, trials=ids)


def _no_confirmation(sweep: Sweep) -> Caution | None:
    if sweep.spec.seeds.confirm is not None:
        return None
    text = (
        "No confirm stage: configs are ranked on the seeds that chose them, so the leader's mean is too high. "
        "Add a confirm stage: sweeps extend, with --confirm-seeds."
    )
    return Caution(code="NO_CONFIRMATION", rule="The spec has no seeds.confirm.", text=text)


def _no_baseline(facts: Facts) -> Caution | None:
    spec, rule = facts.inputs.sweep.spec, "There is no PPO-clip baseline, or it has no result."
    if spec.trainer is not None:
        rule = "There is no trainer.baseline, or its config has no result."
        if spec.trainer.baseline is None:
            text = "No baseline: the sweep was submitted without trainer.baseline."
            return Caution(code="BASELINE_MISSING", rule=rule, text=text)
    elif not spec.baselines.ppo_clip:
        text = "No PPO-clip baseline: the sweep was submitted with baselines.ppo_clip false."
        return Caution(code="BASELINE_MISSING", rule=rule, text=text)
    baseline = facts.baseline
    stage = baseline and (baseline.confirm if spec.seeds.confirm else baseline.tune)
    if (stage and stage.n) or facts.inputs.interim:
        return None
    text = "The baseline has no result on the seeds that would be compared."
    return Caution(code="BASELINE_MISSING", rule=rule, text=text)


def _few_seeds(sweep: Sweep, comparison: Comparison | None) -> Caution | None:
    confirm = sweep.spec.seeds.confirm
    reasons: list[str] = []
    if confirm and len(confirm.seeds) < MIN_SEEDS:
        reasons.append(f"{count(len(confirm.seeds), 'confirm seed')}: no interval can be given below {MIN_SEEDS}")
    elif confirm and comparison and comparison.num_seeds < len(confirm.seeds):
        reasons.append(f"{comparison.num_seeds} of {len(confirm.seeds)} confirm seeds have a result for both")
    if len(sweep.spec.seeds.tune) == 1:
        reasons.append(f"1 tune seed: which config{'s were confirmed' if confirm else ' leads'} may well be chance")
    rule = f"Fewer than {MIN_SEEDS} confirm seeds, confirm seeds without a pair, or a single tune seed."
    return Caution(code="FEW_SEEDS", rule=rule, text="; ".join(reasons) + ".") if reasons else None


def _ended(trials: Sequence[TrialRow], state: TrialState, what: str, rule: str) -> Caution | None:
    """Warn of the trials that ended in one state."""
    ended = [trial for trial in trials if trial.state is state]
    if not ended:
        return None
    confirm = sum(trial.stage is Stage.CONFIRM for trial in ended)
    text = f"{len(ended)} of {count(len(trials), 'trial')} {what} ({confirm or 'none'} of them in the confirm stage)."
    return Caution(code=f"{state}_TRIALS", rule=rule, text=text, trials=[trial.id for trial in ended])


def _stopped_by_hand(facts: Facts) -> Caution | None:
    """Warn of the trials that somebody stopped, who has seen their curves: the sweep compares what they let live."""
    stopped = [trial for trial in facts.trials if trial.state in (TrialState.STOPPED, TrialState.DISCARDED)]
    if not stopped:
        return None
    counted = sum(trial.objective is not None for trial in stopped)
    text = (
        f"{len(stopped)} of {count(len(facts.trials), 'trial')} were stopped by hand; {counted or 'none'} of them "
        f"{'counts' if counted == 1 else 'count'} with what was evaluated by then, the others have no result. "
        f"{by_config(facts, stopped)}. A choice made by looking at curves biases means, differences and intervals."
    )
    rule = "Somebody stopped trials while the sweep went on."
    return Caution(code="STOPPED_TRIALS", rule=rule, text=text, trials=[trial.id for trial in stopped])


def _mixed_versions(facts: Facts) -> Caution | None:
    """Warn of packages of which trials had different versions, and name the trials that had a rarer one."""
    trained_with, texts, odd = facts.inputs.trained_with, list[str](), dict[str, None]()
    names = {name for noted in trained_with.values() for versions in noted for name in versions}
    for name in sorted(names):
        users: dict[str, dict[str, None]] = {}
        for trial in facts.trials:
            for versions in trained_with.get(trial.id, ()):
                if name in versions or name in _OF_EVERY_RUN:
                    users.setdefault(versions.get(name, "unknown"), {})[trial.id] = None
        if len(users) > 1:
            common, *rarer = sorted(users, key=lambda version: -len(users[version]))
            odd |= {id_: None for version in rarer for id_ in users[version]}
            parts = [f"{version} ({count(len(users[version]), 'trial')})" for version in (common, *rarer)]
            texts.append(f"{name} {' and '.join(parts)}")
    if not texts:
        return None
    text = f"Trials trained with different versions: {'; '.join(texts)}. They may differ by more than their config."
    return Caution(code="MIXED_VERSIONS", rule="Trials had different versions of a package.", text=text, trials=[*odd])


def _other_problems(facts: Facts) -> Caution | None:
    """Warn of trials whose scores are of other validation problems than most trials' are."""
    by_set = dict[frozenset[str], dict[str, None]]()
    for counts in facts.inputs.problem_counts:
        by_set.setdefault(frozenset(counts.names), {})[counts.trial_id] = None
    if len(by_set) < 2:
        return None
    most, *others = sorted(by_set.values(), key=len, reverse=True)
    odd = [*dict.fromkeys(trial for trials in others for trial in trials)]
    text = (
        f"{len(by_set)} different sets of problems; the commonest has {count(len(most), 'trial')}, "
        f"and {len(odd)} had another; scores on different problems cannot be compared"
    )
    return Caution(code="OTHER_PROBLEMS", rule="Trials were evaluated on different problems.", text=text, trials=odd)


def _warned(facts: Facts) -> list[Caution]:
    """Return the warnings of trainers, one caution for each code."""
    trials, own = facts.trials, facts.inputs.sweep.spec.trainer is not None
    by_code: dict[str, dict[str, str]] = {}
    rows = {trial.id: trial for trial in trials}
    for trial in trials:
        for warning in trial.warnings:
            by_code.setdefault(warning.code, {}).setdefault(trial.id, warning.message)
    found: list[Caution] = []
    for code, messages in by_code.items():
        first, message = next(iter(messages.items()))
        of = f"{len(messages)} of {count(len(trials), 'trial')}"
        text = f"{of}; {rows[first].label}, seed {rows[first].seed}: {message}"
        rule = (
            "The sweep's own trainer warned of it." if own else "A trainer warned of it: docs/metrics.md has its rule."
        )
        found.append(Caution(code=code, rule=rule, text=text, trials=[*messages]))
    return found
