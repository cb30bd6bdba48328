"""Warnings about a sweep's course: its end, its budget, its trials, its stages, and the versions that trained it."""

from collections.abc import Callable, Sequence
from typing import Final

from sweep_service.report.findings.asked_before import asked_before
from sweep_service.report.findings.rule import Evidence, Rule
from sweep_service.report.formatting import count
from sweep_service.report.model import Caution, Comparison, TrialRow
from sweep_service.report.statistics.differences import MIN_SEEDS
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.plan import most_points, tuning_had_room
from sweep_service.sweep.records import Role, Stage, SweepState, TrialState
from trainers.config.complaints import shortened
from trainers.process.environment import HARDWARE

_OF_EVERY_RUN: Final = (HARDWARE, "python", "torch", "transformers", "trl")
"""Names that every run notes; packages only by the trials whose loss comes from them."""
_MOST_REASONS: Final = 3
"""Number of trials of which a text says why they ended."""
_LONGEST_REASON: Final = 200
"""Characters of such a reason."""
_MOST_CONFIGS: Final = 6
"""Number of configs that a text names."""


def _cancelled(facts: Facts) -> Evidence | None:
    if facts.inputs.sweep.state is not SweepState.CANCELLED:
        return None
    return Evidence("The sweep was cancelled; this is what it had found by then.")


def _failed(facts: Facts) -> Evidence | None:
    sweep = facts.inputs.sweep
    if sweep.state is not SweepState.FAILED:
        return None
    return Evidence(f"The sweep failed: {sweep.message or 'it did not say why'}")


def _budget_ended(facts: Facts) -> Evidence | None:
    """Find trials that the budget kept from beginning, and configs that it kept from being proposed."""
    inputs, spec = facts.inputs, facts.inputs.sweep.spec
    if spec.budget.max_gpu_hours is None or inputs.interim:
        return None
    ids = _never_begun(facts)
    asked = 0 if spec.search.is_grid else most_points(spec)
    points = sum(Role.SPACE in config.roles for config in inputs.configs)
    had_room = tuning_had_room(spec, inputs.trials, inputs.probe_gpu_hours)
    unasked = 0 if had_room else max(0, asked - points)
    lost = [f"{count(len(ids), 'trial')} did not run"] if ids else []
    lost += [f"{unasked} of {count(asked, 'config')} were not proposed"] if unasked else []
    if not lost:
        return None
    text = (
        f"The budget of {spec.budget.max_gpu_hours:g} GPU-hours ended the tune stage: {' and '.join(lost)}. Configs "
        "were chosen among those that did, on seeds on which all of these ran."
    )
    return Evidence(text, ids)


def _never_begun(facts: Facts) -> list[str]:
    """Return the ids of the trials that the budget kept from beginning."""
    return [trial.id for trial in facts.inputs.trials if trial.ending is Ending.OVER_BUDGET]


def _unfinished(facts: Facts) -> Evidence | None:
    never_begun = _never_begun(facts)
    ids = [
        trial.id
        for trial in facts.trials
        if not trial.state.is_over or (trial.state is TrialState.CANCELLED and trial.id not in never_begun)
    ]
    how = f"{'is' if len(ids) == 1 else 'are'} not finished yet" if facts.inputs.interim else "never finished"
    return Evidence(f"{len(ids)} of {count(len(facts.trials), 'trial')} {how}.", ids) if ids else None


def _no_confirmation(facts: Facts) -> Evidence | None:
    if facts.inputs.sweep.spec.seeds.confirm is not None:
        return None
    return Evidence(
        "No confirm stage: configs are ranked on the seeds that chose them, so the leader's mean is too high. "
        "Add a confirm stage: sweeps extend, with --confirm-seeds."
    )


def _no_baseline(facts: Facts) -> Evidence | None:
    spec, rule = facts.inputs.sweep.spec, None
    if spec.trainer is not None:
        rule = "There is no trainer.baseline, or its config has no result."
        if spec.trainer.baseline is None:
            return Evidence("No baseline: the sweep was submitted without trainer.baseline.", condition=rule)
    elif not spec.baselines.ppo_clip:
        return Evidence("No PPO-clip baseline: the sweep was submitted with baselines.ppo_clip false.")
    baseline = facts.baseline
    stage = baseline and (baseline.confirm if spec.seeds.confirm else baseline.tune)
    if (stage and stage.n) or facts.inputs.interim:
        return None
    return Evidence("The baseline has no result on the seeds that would be compared.", condition=rule)


def _few_seeds(facts: Facts) -> Evidence | None:
    seeds, comparison, reasons = facts.inputs.sweep.spec.seeds, facts.verdict.comparison, list[str]()
    confirm = len(seeds.confirm.seeds) if seeds.confirm else 0
    if seeds.confirm and confirm < MIN_SEEDS:
        reasons.append(f"{count(confirm, 'confirm seed')}: no interval can be given below {MIN_SEEDS}")
    elif seeds.confirm and comparison and comparison.num_seeds < confirm:
        reasons.append(f"{comparison.num_seeds} of {confirm} confirm seeds are compared{_left_out_of(comparison)}")
    if len(seeds.tune) == 1:
        reasons.append(
            f"1 tune seed: which config{'s were confirmed' if seeds.confirm else ' leads'} may well be chance"
        )
    return Evidence("; ".join(reasons) + ".") if reasons else None


def _left_out_of(comparison: Comparison) -> str:
    """Say which seeds a comparison leaves out."""
    of = ["one of the two has no result"]
    of += ["one was ruined"] if comparison.own.ruined + comparison.other.ruined and not comparison.with_ruined else []
    of += ["the two trained differently"] if comparison.batch else []
    return f"; those are left out on which {' or '.join(of)}"


def ended_in(state: TrialState, words: Callable[[Facts, int], str]) -> Callable[[Facts], Evidence | None]:
    """Return the look for trials that ended in one state; the words say what that means for so many of them."""

    def look(facts: Facts) -> Evidence | None:
        ended = [trial for trial in facts.trials if trial.state is state]
        if not ended:
            return None
        confirm = sum(trial.stage is Stage.CONFIRM for trial in ended)
        what = f"{len(ended)} of {count(len(facts.trials), 'trial')} {words(facts, len(ended))}"
        told = [f"Trial {trial.number}: {_first_line(trial.message)}" for trial in ended if trial.message]
        more = [f"and {len(told) - _MOST_REASONS} more"] if len(told) > _MOST_REASONS else []
        why = f" {'; '.join([*told[:_MOST_REASONS], *more])}." if told else ""
        stages = f"in the {ended[0].stage}" if len(ended) == 1 else f"{confirm or 'none'} of them in the confirm"
        text = f"{what} ({stages} stage).{why}"
        return Evidence(text, [trial.id for trial in ended])

    return look


def _first_line(message: str) -> str:
    return shortened(message.partition("\n")[0], _LONGEST_REASON)


def _stopped_by_hand(facts: Facts) -> Evidence | None:
    """Find the trials that somebody stopped, who has seen their curves: the sweep compares what they let live."""
    stopped = [trial for trial in facts.trials if trial.state in (TrialState.STOPPED, TrialState.DISCARDED)]
    if not stopped:
        return None
    counted, were = sum(trial.objective is not None for trial in stopped), "was" if len(stopped) == 1 else "were"
    text = (
        f"{len(stopped)} of {count(len(facts.trials), 'trial')} {were} stopped by hand; "
        f"{_counting(counted, len(stopped) - counted)}. {by_config(facts, stopped)}. "
        "A choice made by looking at curves biases means, differences and intervals."
    )
    return Evidence(text, [trial.id for trial in stopped])


def _dropped_early(facts: Facts) -> Evidence | None:
    """Say which configs a rule has dropped, and what of the report leaves them out."""
    dropped = facts.inputs.dropped
    if not dropped:
        return None
    space = sum(config.is_contender for config in facts.inputs.configs)
    told = [f"{facts.rows[one.id].label}: {one.dropped.message}" for one in dropped[:_MOST_CONFIGS] if one.dropped]
    more = [f"and {count(len(dropped) - _MOST_CONFIGS, 'more config')}"] if len(dropped) > _MOST_CONFIGS else []
    shared = len({trial.seed for trial in facts.inputs.before_drops.trials if trial.stage is Stage.TUNE})
    basis = f"rests on the first {count(shared, 'tune seed')}, which all of them have" if shared else "is left out"
    text = (
        f"{_who_dropped(facts)} dropped {len(dropped)} of {count(space, 'config')}: from then on nothing compares them "
        f"with the others. {'; '.join([*told, *more])}. What is said of parameters {basis}; tune "
        "means of configs that went on look too good, for they are those that looked good."
    )
    ids = {one.id for one in dropped}
    return Evidence(text, [t.id for t in facts.trials if t.config_id in ids and t.state is TrialState.EARLY_STOPPED])


def _who_dropped(facts: Facts) -> str:
    """Name what has dropped configs: the rule, or what is done for signs of health."""
    rule, judged = facts.inputs.sweep.spec.early_stopping, [one.dropped for one in facts.inputs.dropped if one.dropped]
    by_rule = [f"early_stopping {rule.rule}"] if rule and any(one.sign is None for one in judged) else []
    return " and ".join([*by_rule, *(["health"] if any(one.sign for one in judged) else [])])


def _counting(counted: int, missing: int) -> str:
    """Tell which stopped trials have a result, without a word of those that do not exist."""
    value, nothing = "with what was evaluated by then", "no result"
    if not missing:
        return f"{'it counts' if counted == 1 else 'they count'} {value}"
    if not counted:
        return f"{'it has' if missing == 1 else 'they have'} {nothing}"
    others = "the other has" if missing == 1 else f"the other {missing} have"
    return f"{counted} of them {'counts' if counted == 1 else 'count'} {value}, {others} {nothing}"


def by_config(facts: Facts, hit: Sequence[TrialRow]) -> str:
    """Count trials by config, the best configs first: `β1=1 β2=1: 2 of 2 trials; …`."""
    rows = [row for row in facts.ordered if any(trial.config_id == row.id for trial in hit)]
    parts = [
        f"{row.label}: {sum(trial.config_id == row.id for trial in hit)} of {count(sum(row.states.values()), 'trial')}"
        for row in rows[:_MOST_CONFIGS]
    ]
    more = [f"and {count(len(rows) - _MOST_CONFIGS, 'more config')}"] if len(rows) > _MOST_CONFIGS else []
    return "; ".join([*parts, *more])


def _mixed_versions(facts: Facts) -> Evidence | None:
    """Find packages that trials had in different versions, or other hardware, and the trials that had a rarer one."""
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
    if elsewhere := len(facts.elsewhere):
        text += f" The comparisons are within one batch, and leave out {count(elsewhere, 'confirm trial')} of another."
    return Evidence(text, [*odd])


def _other_problems(facts: Facts) -> Evidence | None:
    """Find trials whose scores are of other validation problems than most trials' are."""
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
    return Evidence(text, odd)


def trainer_cautions(facts: Facts) -> list[Caution]:
    """Return a warning for each code of the trainers' warnings, with the first trial's message."""
    by_code: dict[str, dict[str, str]] = {}
    for trial in facts.trials:
        for warning in (one for one in trial.warnings if not one.is_sign):
            message = f"{trial.label}, seed {trial.seed}: {warning.message}"
            by_code.setdefault(warning.code, {}).setdefault(trial.id, message)
    own = facts.inputs.sweep.spec.trainer is not None
    rule = "The sweep's own trainer warned of it." if own else "A trainer warned of it: docs/metrics.md has its rule."
    cautions = list[Caution]()
    for code, messages in by_code.items():
        text = f"{len(messages)} of {count(len(facts.trials), 'trial')}; {next(iter(messages.values()))}"
        cautions.append(Caution(code=code, rule=rule, text=text, trials=[*messages]))
    return cautions


SWEEP_RULES: Final = (
    Rule("CANCELLED", "The sweep was cancelled.", _cancelled),
    Rule("SWEEP_FAILED", "The sweep could not go on.", _failed),
    Rule(
        "BUDGET_ENDED_TUNING",
        "A trial that might pass budget.max_gpu_hours, less what the confirm stage may take, does not begin.",
        _budget_ended,
    ),
    Rule("UNFINISHED", "Trials without an end.", _unfinished),
    Rule("NO_CONFIRMATION", "The spec has no seeds.confirm.", _no_confirmation),
    Rule("BASELINE_MISSING", "There is no PPO-clip baseline, or it has no result.", _no_baseline),
    Rule(
        "FEW_SEEDS",
        f"Fewer than {MIN_SEEDS} confirm seeds, confirm seeds without a pair, or a single tune seed.",
        _few_seeds,
    ),
    Rule(
        "ASKED_BEFORE",
        "An earlier sweep of this store has a report, starts from the same initial model and has the same task with "
        "the same validation problems.",
        asked_before,
    ),
    Rule(
        "FAILED_TRIALS",
        "Trials that ended by an error or too many crashes.",
        ended_in(
            TrialState.FAILED,
            lambda _, failed: f"failed; {'its result is' if failed == 1 else 'their results are'} missing, not zero",
        ),
    ),
    Rule("DROPPED_EARLY", "A rule of early stopping, or a sign of health, dropped configs.", _dropped_early),
    Rule("STOPPED_TRIALS", "Somebody stopped trials while the sweep went on.", _stopped_by_hand),
    Rule("MIXED_VERSIONS", "Trials had different versions of a package, or other hardware.", _mixed_versions),
    Rule("OTHER_PROBLEMS", "Trials were evaluated on different problems.", _other_problems),
)
