"""The comparisons of confirm results, and the verdict's sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any, Final

from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.facts.table_rows import is_comparator
from sweep_service.report.formatting import count, estimate, listed, number, signed
from sweep_service.report.model import Comparison, ConfigRow, Outcome, TrialRow, Verdict
from sweep_service.report.statistics.critical_values import confidence_of
from sweep_service.report.statistics.differences import Difference, sound_differences
from sweep_service.report.verdict.comparators import KINDS, LOSS, differs_in, families
from sweep_service.report.verdict.finding import finding, named
from sweep_service.report.verdict.interval_basis import held_back
from sweep_service.report.verdict.ruin import Judged, Pair, RuinsOf, word
from sweep_service.sweep.labels import equals_text
from sweep_service.sweep.objective import all_diverged, same_objective
from sweep_service.sweep.records import Role, TrialState

_LISTED: Final = 4
"""Number of settings that a sentence names."""


def compare(tables: ReportTables) -> list[Comparison]:
    """Compare the candidates with their comparators on the confirm seeds; first with the verdict's, best one first."""
    inputs, rows = tables.inputs, tables.rows
    relevant, confidence = inputs.sweep.spec.objective.relevant, confidence_of(inputs.looks)
    tuned = [row for row in rows.values() if Role.SPACE in row.roles and row.tune is not None]
    chose = 0 if inputs.halves else len(tuned)
    present = {arm.config_id for arm in tables.arms}
    confirmed = [id_ for id_ in tables.candidates if id_ in present]
    ruins = RuinsOf.in_tables(tables)
    comparisons: dict[tuple[str, str], Comparison] = {}  # a pair of two families keeps what the first says of it
    for family in families(inputs.configs, confirmed, present):
        comparators = {id_: family[id_][1].id for id_ in confirmed if id_ in family}
        shared = all(role is not Role.MATCHED for role, _ in family.values())
        results = sound_differences(
            tables.sound_arms, tables.arms, comparators, chose, shared=shared, confidence=confidence
        )
        error = (1 - confidence) / max(1, len(results))
        for id_, result in sorted(results.items(), key=lambda item: -item[1].difference):
            role, comparator = family[id_]
            own, other = ruins.pair_counts((id_, comparator.id), error)
            pair, spoilt = (id_, comparator.id), own.spoilt or other.spoilt
            judged = _judged(result, ruins, pair, error, relevant, spoilt=spoilt)
            comparison = Comparison(
                config_id=id_,
                label=rows[id_].label,
                comparator_id=comparator.id,
                comparator_role=role,
                comparator_label=rows[comparator.id].label,
                differs_in=differs_in(tables.configs[id_], comparator),
                own=own,
                other=other,
                **judged._asdict(),
                **asdict(_of_all(result, judged) if result.with_ruined else _allowing(result, ruins, pair)),
                **_left_out(tables, pair),
                compared=len(results),
            )
            comparisons.setdefault((id_, comparator.id), comparison)
    return list(comparisons.values())


def _of_all(result: Difference, judged: Judged) -> Difference:
    """Give a difference that counts ruined runs the bounds of the averages, which hold for few runs, too."""
    if judged.average_low is None or judged.average_high is None:
        return result
    return replace(result, low=judged.average_low, high=judged.average_high)


def _allowing(result: Difference, ruins: RuinsOf, pair: Pair) -> Difference:
    """Widen the interval of a difference among sound runs by what missing runs may hide."""
    if result.low is None or result.high is None:
        return result
    low, high = ruins.sound(pair, (result.low, result.high))
    return replace(result, low=low, high=high)


def _left_out(tables: ReportTables, pair: Pair) -> dict[str, Any]:
    """Return the batch of a pair's runs and the seeds that it leaves out; nothing if all its runs trained alike."""
    runs = [{run.seed: run.trial_id for run in found.seeds} for id_ in pair if (found := tables.rows[id_].confirm)]
    both = [{run[seed] for run in runs} for seed in runs[0] if all(seed in run for run in runs)]
    if not (other := sum(bool(ids & tables.elsewhere) for ids in both)):
        return {}
    named = (text for id_ in pair if (text := tables.home_text(id_)))  # a package may be one's alone
    return {"batch": next(named), "other_seeds": other}


def _judged(result: Difference, ruins: RuinsOf, pair: Pair, error: float, relevant: float, *, spoilt: bool) -> Judged:
    """Return the word on a pair; `spoilt` says whether a run of it was ruined, in any stage."""
    if result.low is None or result.high is None:
        return Judged(Outcome.INSUFFICIENT)
    bounds = result.low, result.high
    average = ruins.average(pair, bounds, error, among_all=result.with_ruined)
    sound = None if result.with_ruined else ruins.sound(pair, bounds)
    counted = result.num_problems is not None
    return word(sound, average, relevant, ruins.level(*pair), clean=not spoilt, counted=counted)


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
        why = "there is no confirmed baseline to compare with"
        if len({*tables.common_homes.values()}) > 1:
            why += f" that trained {tables.home_text(best.id)}, as this config did; a new sweep trains both alike"
        sentence = (
            f"INSUFFICIENT: {why}. {best.label} has a confirm mean of {mean}, {count(best.confirm.n, 'confirm seed')}."
        )
        return Verdict(outcome=Outcome.INSUFFICIENT, sentence=sentence)
    besides = _besides(comparison.differs_in)
    sentence = finding(comparison, tables.inputs.sweep.spec.objective.relevant)
    sentence += f" The two differ in {besides}." if besides else ""
    sentence += held_back(comparison, tables.inputs) + _stands_in(comparison, tables)
    alike = tables.inputs.sweep.spec.objective.relevant if comparison.outcome.sign == 0 else None
    return Verdict(outcome=comparison.outcome, sentence=sentence, comparison=comparison, relevant=alike)


def _stands_in(comparison: Comparison, tables: ReportTables) -> str:
    """Say that the comparator is not the one that was meant, which has no confirm result to compare with."""
    configs, id_ = tables.inputs.configs, comparison.config_id
    meant = next((family[id_] for family in families(configs, [id_], tables.configs) if id_ in family), None)
    if meant is None or meant[1].id == comparison.comparator_id or meant[0] is comparison.comparator_role:
        return ""
    alike = f" that trained {tables.home_text(id_)}" if len({*tables.common_homes.values()}) > 1 else ""
    stands_in = KINDS[comparison.comparator_role]
    return (
        f" {stands_in[:1].upper()}{stands_in[1:]} stands in for {KINDS[meant[0]]}, which has no confirm result{alike}."
    )


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
            return f", {far} {named(role, row.label)}{which}{where}{rest}"
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
