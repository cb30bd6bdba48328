"""The comparisons of confirm results, and the verdict's sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Final

from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.facts.table_rows import is_comparator
from sweep_service.report.formatting import count, estimate, interval, listed, number, signed
from sweep_service.report.model import Comparison, ConfigRow, Outcome, TrialRow, Verdict
from sweep_service.report.statistics.critical_values import confidence_of
from sweep_service.report.statistics.differences import EQUAL, MIN_SEEDS, Difference, differences
from sweep_service.report.verdict.collapse import confirm_runs, counts_text, failed_bounds, percent, weigh
from sweep_service.report.verdict.comparators import KINDS, LOSS, differs_in, families
from sweep_service.sweep.labels import equals_text
from sweep_service.sweep.objective import all_diverged, same_objective
from sweep_service.sweep.records import Role, Stage, TrialState

_LISTED: Final = 4
"""Number of settings that a sentence names."""


def compare(tables: ReportTables) -> list[Comparison]:
    """Compare the candidates with their comparators on the confirm seeds; first with the verdict's, best one first."""
    inputs, trials, rows = tables.inputs, tables.trials, tables.rows
    objective, level = inputs.sweep.spec.objective, confidence_of(inputs.looks)
    tuned = [row for row in rows.values() if Role.SPACE in row.roles and row.tune is not None]
    chose = 0 if inputs.halves else len(tuned)
    present = {arm.config_id for arm in tables.arms}
    confirmed = [id_ for id_ in tables.candidates if id_ in present]
    are_shares = objective.metric != "eval/reward_mean"
    comparisons: dict[tuple[str, str], Comparison] = {}  # a pair of two families keeps what the first says of it
    for family in families(inputs.configs, confirmed, present):
        comparators = {id_: family[id_][1].id for id_ in confirmed if id_ in family}
        shared = all(role is not Role.MATCHED for role, _ in family.values())
        whole_runs, every_run = (
            differences(arms, comparators, chose, shared=shared, confidence=level)
            for arms in (tables.whole_arms, tables.arms)
        )
        few = {  # collapsed runs count where too few pairs are left without them
            id_
            for id_, result in every_run.items()
            if id_ not in whole_runs or whole_runs[id_].num_seeds < min(MIN_SEEDS, result.num_seeds)
        }
        results = {id_: every_run[id_] if id_ in few else whole_runs[id_] for id_ in every_run}
        for id_, result in sorted(results.items(), key=lambda item: -item[1].difference):
            role, comparator = family[id_]
            own, other = (confirm_runs(trials, [one]) for one in (id_, comparator.id))
            levels = _level(id_, trials), _level(comparator.id, trials)
            weighed = weigh(_outcome(result, objective.relevant), result, own, other, levels)
            comparison = Comparison(
                config_id=id_,
                label=rows[id_].label,
                comparator_id=comparator.id,
                comparator_role=role,
                comparator_label=rows[comparator.id].label,
                differs_in=differs_in(tables.configs[id_], comparator),
                own=own,
                other=other,
                **weighed._asdict(),
                **asdict(result),
                with_collapsed=id_ in few,
                failed_bounds=failed_bounds(trials, id_, comparator.id, id_ in few) if are_shares else None,
            )
            comparisons.setdefault((id_, comparator.id), comparison)
    return list(comparisons.values())


def _level(config_id: str, trials: Sequence[TrialRow]) -> float:
    """Return a config's mean on the confirm seeds, without collapsed runs if there are others."""
    runs = [trial for trial in trials if trial.config_id == config_id and trial.stage is Stage.CONFIRM]
    values = [(trial.collapsed, trial.objective) for trial in runs if trial.objective is not None]
    whole = [value for collapsed, value in values if not collapsed] or [value for _, value in values]
    return fmean(whole) if whole else 0.0


def _outcome(result: Difference, relevant: float) -> Outcome:
    if result.low is None or result.high is None:
        return Outcome.INSUFFICIENT
    if result.low > 0 or result.high < 0:
        return Outcome.BETTER if result.low > 0 else Outcome.WORSE
    return Outcome.EQUIVALENT if -relevant < result.low and result.high < relevant else Outcome.UNDECIDED


def judge(tables: ReportTables, comparisons: Sequence[Comparison]) -> Verdict:
    """Return the verdict on the best config."""
    best = tables.best
    if best is None:
        return Verdict(
            outcome=Outcome.INSUFFICIENT, sentence="INSUFFICIENT: no config of the space has a result to judge."
        )
    if all_diverged(trial.state for trial in tables.trials):
        return Verdict(outcome=Outcome.INSUFFICIENT, sentence=_all_diverged_sentence(tables.trials))
    if best.confirm is None or not best.confirm.n:
        return _unconfirmed(best, tables)
    comparison = next((one for one in comparisons if one.config_id == best.id), None)
    if comparison is None:
        mean = estimate(best.confirm.mean, best.confirm.low, best.confirm.high)
        sentence = (
            f"INSUFFICIENT: there is no confirmed baseline to compare with. {best.label} has a confirm mean of {mean}, "
            f"{count(best.confirm.n, 'confirm seed')}."
        )
        return Verdict(outcome=Outcome.INSUFFICIENT, sentence=sentence)
    besides = _besides(comparison.differs_in)
    sentence = _finding(comparison, tables.inputs.sweep.spec.objective.relevant)
    sentence += f" The two differ in {besides}." if besides else ""
    return Verdict(outcome=comparison.outcome, sentence=sentence, comparison=comparison)


def _all_diverged_sentence(trials: Sequence[TrialRow]) -> str:
    """Say that every trial with a result diverged, and why the first one did."""
    diverged = [trial for trial in trials if trial.state is TrialState.DIVERGED]
    why = next((f" Trial {trial.number}: {trial.message}." for trial in diverged if trial.message), "")
    number_of = "the only trial" if len(diverged) == 1 else f"all {len(diverged)} trials"
    return f"INSUFFICIENT: {number_of} with a result diverged, so that no config can be judged.{why}"


def _unconfirmed(best: ConfigRow, tables: ReportTables) -> Verdict:
    assert best.tune is not None
    rows = tables.rows
    mean, seeds, equal = number(best.tune.mean), count(best.tune.n, "seed"), all_equal_text(rows)
    if equal:
        standing, doubt = f"{equal}: {mean} on the tune seeds ({seeds})", "; nothing was confirmed on others"
    else:
        others = shared_lead_text(best, rows)
        beside = f"{seeds}; {others}" if others else seeds
        standing = f"{best.label} leads on the tune seeds with {mean} ({beside}){_ahead_in_tuning(best, tables)}"
        doubt = ", but it was chosen on these seeds and confirmed on no others"
    if tables.inputs.sweep.spec.seeds.confirm is not None:
        sentence = f"INSUFFICIENT: no confirm trial of a chosen config has a result; {standing}: no finding."
        return Verdict(outcome=Outcome.INSUFFICIENT, sentence=sentence)
    return Verdict(outcome=Outcome.EXPLORATORY, sentence=f"EXPLORATORY: {standing}{doubt}.")


def all_equal_text(rows: Mapping[str, ConfigRow]) -> str:
    """Say that all configs have exactly the same mean on the tune seeds; empty if they have not."""
    means = _tune_means(rows)
    return equals_text(len(means), len(means)) if all(same_objective(mean, means[0]) for mean in means) else ""


def shared_lead_text(best: ConfigRow, rows: Mapping[str, ConfigRow]) -> str:
    """Count the other configs of the space with exactly the best one's mean on the tune seeds; empty if none has."""
    assert best.tune is not None
    space = [row.tune.mean for row in rows.values() if row.tune and not is_comparator(row)]
    return equals_text(sum(same_objective(mean, best.tune.mean) for mean in space), len(_tune_means(rows)))


def _tune_means(rows: Mapping[str, ConfigRow]) -> list[float]:
    return [row.tune.mean for row in rows.values() if row.tune]


def _ahead_in_tuning(best: ConfigRow, tables: ReportTables) -> str:
    """Give the leader's lead over its comparator on the tune seeds, without an interval, since these chose it.

    Names the other comparators that have a higher mean, too.
    """
    assert best.tune is not None
    rows, mean = tables.rows, best.tune.mean
    comparators = (row for row in rows.values() if is_comparator(row) and row.tune)
    higher = [row for row in comparators if row.tune and signed(row.tune.mean - mean).startswith("+")]
    for family in families(tables.inputs.configs, [best.id], {row.id for row in rows.values() if row.tune}):
        if best.id not in family:
            continue
        role, comparator = family[best.id]
        row = rows[comparator.id]
        if best.tune and row.tune and (deltas := best.tune.minus(row.tune)):
            besides = _besides(differs_in(tables.configs[best.id], comparator))
            which = f", which differs in {besides}" if besides else ""
            lead = fmean(deltas.values())
            below = signed(lead).startswith("-")
            far = f"yet {number(-lead)} below" if below else f"{signed(lead)} from"
            where = f" on {count(len(deltas), 'common seed')}" if len(deltas) < max(best.tune.n, row.tune.n) else ""
            rest = _below([other for other in higher if other.id != row.id], "and" if below else "yet")
            return f", {far} {_against(role, row.label)}{which}{where}{rest}"
    return _below(higher, "yet")


def _below(higher: Sequence[ConfigRow], joined: str) -> str:
    means = " and ".join(f"{row.label} ({number(row.tune.mean)})" for row in higher if row.tune)
    return f", {joined} below {means}" if means else ""


def _besides(names: Sequence[str]) -> str:
    """Name the settings beside the loss in which two configs differ: `steps as well as in the loss`; empty if none."""
    others = [name for name in names if name != LOSS]
    if not others:
        return ""
    return listed(others, _LISTED) + (" as well as in the loss" if LOSS in names else ", not in the loss")


def _finding(comparison: Comparison, relevant: float) -> str:
    label, against = comparison.label, _against(comparison.comparator_role, comparison.comparator_label)
    figures = estimate(comparison.difference, comparison.low, comparison.high, sign=True)
    seeds = count(comparison.num_seeds, "confirm seed") + _without(comparison)
    rates = (
        [] if comparison.tolerated is not None and comparison.outcome is Outcome.BETTER else [(label, comparison.own)]
    )
    rates += [(against, comparison.other)] if comparison.other.bad and comparison.outcome is not Outcome.WORSE else []
    runs = "".join(f" {counts_text(counts, name)}" for name, counts in rates) + _had_they_not_failed(comparison)
    match comparison.outcome:
        case Outcome.BETTER | Outcome.WORSE as outcome:
            assert comparison.high is not None
            why = " once its collapses count" if outcome is Outcome.WORSE and comparison.high >= 0 else ""
            text = f"{outcome}: {label} is {outcome.lower()} than {against}{why or _but_small(comparison, relevant)}"
            return f"{text}: {figures}, {seeds}{_unless(comparison)}.{runs}"
        case Outcome.EQUIVALENT:
            text = f"EQUIVALENT: {label} and {against} differ by less than {relevant:g}"
            return f"{text}, the smallest difference that matters here: {figures}, {seeds}.{runs}"
        case Outcome.UNDECIDED:
            what = f"{label} cannot be told apart from {against}: {figures}, {seeds}"
            if comparison.tolerated is not None:
                better = comparison.difference > 0
                runs_of, who = (comparison.own, "it") if better else (comparison.other, comparison.comparator_label)
                ruin = "collapse or fail" if runs_of.failed else "collapse"
                what = f"{label} is {'better' if better else 'worse'} than {against} where {who} does not {ruin}, "
                what += f"{figures}, {seeds}, but {who} may {ruin} too often for that"
            return f"UNDECIDED: {what}.{runs}"
        case _:
            need = f"an interval needs at least {MIN_SEEDS}" if comparison.num_seeds < MIN_SEEDS else EQUAL
            what = f"{label} minus {against} is {figures} on {seeds}; {need}"
            return f"INSUFFICIENT: {what}.{_had_they_not_failed(comparison)}"


def _without(comparison: Comparison) -> str:
    """Name the runs that a difference leaves out."""
    collapsed = comparison.own.collapsed + comparison.other.collapsed and not comparison.with_collapsed
    kinds = [
        *(["collapse"] if collapsed else []),
        *(["failure"] if comparison.own.failed + comparison.other.failed else []),
    ]
    return f" without a {' or '.join(kinds)}" if kinds else ""


def _had_they_not_failed(comparison: Comparison) -> str:
    """Say where the difference would lie with the runs that failed."""
    if comparison.failed_bounds is None:
        return ""
    low, high = interval(*comparison.failed_bounds, sign=True)[1:-1].split(", ")
    return f" Had failed runs scored anything from 0 to 1, the difference would lie between {low} and {high}."


def _unless(comparison: Comparison) -> str:
    """Say up to which rate of collapses a verdict holds."""
    if comparison.tolerated is None:
        return ""
    better = comparison.outcome is Outcome.BETTER
    runs, who = (comparison.own, "it") if better else (comparison.other, comparison.comparator_label)
    most, possible = percent(comparison.tolerated), percent(runs.bound)
    if most == possible:
        most, possible = (f"{100 * share:.1f} %" for share in (comparison.tolerated, runs.bound))
    text = f", unless {who} collapses or fails in more than {most} of its runs"
    return f"{text} ({runs.bad} of {runs.runs} did, but up to {possible} cannot be excluded)"


def _but_small(comparison: Comparison, relevant: float) -> str:
    """Say that a difference matters less than the spec asks, or may."""
    assert comparison.low is not None
    assert comparison.high is not None
    least, most = sorted((abs(comparison.low), abs(comparison.high)))
    if most < relevant:
        return f", but by less than the {relevant:g} that matters here"
    return "" if least >= relevant else f", and whether by the {relevant:g} that matters here is open"


def _against(role: Role, label: str) -> str:
    """Name a comparator in a sentence: `the baseline (β1=0 β2=0)`, `DAPO`."""
    kind = KINDS[role]
    return kind if label in kind else f"{kind} ({label.removeprefix('baseline ').removeprefix('matched ')})"
