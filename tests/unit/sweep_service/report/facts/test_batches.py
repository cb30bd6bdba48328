"""Batches: configs are compared on runs that trained alike."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sweep_service.report.build import build
from sweep_service.report.facts.batches import batch_of, batch_text, common_names, home_batches, of_names
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.model import Outcome
from sweep_service.report.verdict.ruin import RuinsOf
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Stage, TrialState
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from tests.unit.sweep_service.report.report_worlds import CONFIRM, crashing

OLD, NEW = {"hardware": "NVIDIA H200", "torch": "2.13.0"}, {"hardware": "NVIDIA H200", "torch": "2.14.0"}
A, B = batch_of([OLD]), batch_of([NEW])


def noted(inputs: ReportInputs, new: Mapping[int, Sequence[Mapping[str, str]]], *ids: str) -> ReportInputs:
    """Return a sweep whose runs trained with OLD, but for confirm runs on some seeds, of all configs or of these."""
    trained = {
        trial.id: new[trial.seed]
        if trial.stage is Stage.CONFIRM and trial.seed in new and (not ids or trial.config_id in ids)
        else [OLD]
        for trial in inputs.trials
    }
    return replace(inputs, trained_with=trained)


def test_a_run_that_trained_in_two_batches_is_of_neither() -> None:
    assert batch_of([OLD, NEW]) not in (A, B)
    assert batch_of([NEW, OLD, OLD]) == batch_of([OLD, NEW])
    assert batch_of([OLD, OLD]) == A
    assert batch_of([dict(reversed(OLD.items()))]) == A


def test_runs_count_in_the_batch_that_most_share_with_others() -> None:
    one, other = {1: A, 2: A, 3: B, 4: B, 5: B}, {1: A, 2: A, 3: B, 4: A, 5: A}
    assert home_batches({"x": one, "y": other}) == {"x": A, "y": A}  # 2 shared seeds to 1
    assert home_batches({"x": {1: A, 2: B}, "y": {2: B, 1: A}}) == {"x": A, "y": A}  # that of the first seed
    assert home_batches({"x": {2: A, 1: B}, "y": {1: B, 2: A}}) == {"x": B, "y": B}
    assert home_batches({"x": {1: A}, "y": {1: B}}) == {"x": A, "y": B}
    assert home_batches({"x": {1: batch_of([])}, "y": {1: batch_of([])}}) == dict.fromkeys("xy", batch_of([]))
    assert home_batches({}) == {}


def test_a_package_of_one_loss_sets_only_its_own_runs_apart() -> None:
    mine, later = batch_of([OLD | {"mine": "1"}]), batch_of([OLD | {"mine": "2"}])
    runs = {"x": {1: mine, 2: mine, 3: later}, "y": {1: A, 2: A, 3: A}}
    assert common_names(runs) == {"hardware", "torch"}
    assert home_batches(runs) == {"x": mine, "y": A}
    assert of_names(mine, common_names(runs)) == A
    assert batch_text(mine, [mine, later], [A]) == "with mine 1"


def test_a_batch_is_named_by_what_sets_it_apart() -> None:
    h100 = batch_of([{"hardware": "NVIDIA H100", "torch": "2.13.0"}])
    assert batch_text(A, [A], [A, h100]) == "on NVIDIA H200"
    assert batch_text(A, [A, B], [A, B]) == "with torch 2.13.0"
    assert batch_text(A, [A], [A, B, h100]) == "on NVIDIA H200 with torch 2.13.0"
    assert batch_text(batch_of([OLD, NEW]), [A], [A, B]) == "with torch 2.13.0 and 2.14.0"
    assert batch_text(batch_of([]), [batch_of([])], [A]) == "with versions that nobody noted"
    assert (
        batch_text(batch_of([{"torch": "2.13.0"}]), [A], [A, batch_of([{"torch": "2.13.0"}])]) == "on unknown hardware"
    )


def test_where_all_trained_alike_nothing_changes() -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.12)
    plain = build(inputs).verdict
    assert build(noted(inputs, {10: [OLD, OLD]})).verdict == plain
    assert build(replace(inputs, trained_with={})).verdict == plain  # unknown everywhere


def test_the_verdict_is_about_one_batch_and_says_so() -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.12)
    report = build(noted(inputs, {14: [NEW], 15: [OLD, NEW]}))
    found = report.verdict.comparison
    assert (found.num_seeds, found.other_seeds, found.batch) == (4, 2, "with torch 2.13.0")
    assert found.own.runs == found.other.runs == 4
    assert "4 of 6 confirm seeds, those on which both trained with torch 2.13.0. Over" in report.verdict.sentence
    assert "2 other seeds are left out, because runs that did not both train with torch 2" in report.verdict.basis
    caution = next(one for one in report.cautions if one.code == "MIXED_VERSIONS")
    assert caution.text.endswith(f"leave out {2 * len({one.config_id for one in report.trials if one.seed == 14})} "
                                 "confirm trials of another.")  # fmt: skip
    only = replace(inputs, trials=tuple(one for one in inputs.trials if one.seed < 14))
    alone = build(only).verdict.comparison
    assert (found.difference, found.low, found.average_low) == (alone.difference, alone.low, alone.average_low)


def test_fewer_than_three_seeds_in_one_batch_decide_nothing() -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.3)
    report = build(noted(inputs, {12: [NEW], 13: [NEW], 14: [{"torch": "2.15"}], 15: [{"torch": "2.15"}]}))
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert "2 of 6 confirm seeds" in report.verdict.sentence
    assert " They count only if they train on NVIDIA H200 with torch 2.13.0, too. For all" in report.verdict.next.text
    assert report.verdict.sentence.endswith(
        "an interval needs at least 3; more confirm seeds train on what there is now."
    )


def test_a_package_of_the_comparator_alone_names_its_batch() -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.12)
    baseline = build(inputs).verdict.comparison.comparator_id
    mine = {seed: [OLD | {"mine": "2" if seed > 13 else "1"}] for seed in range(10, 16)}
    found = build(noted(inputs, mine, baseline)).verdict.comparison
    assert (found.batch, found.num_seeds, found.other_seeds) == ("with mine 1", 4, 2)


def test_configs_of_different_batches_are_not_compared_nor_excluded() -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.3)
    best = build(inputs).best.config_id
    report = build(noted(inputs, {seed: [NEW] for seed in range(10, 16)}, best))
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert "no confirmed baseline to compare with that trained with torch 2.14.0, as this config did" in (
        report.verdict.sentence
    )
    assert all(one.config_id != best for one in report.comparisons)
    ties = {one.config_id: one.in_sound_set for one in report.verdict.ties.members} if report.verdict.ties else {}
    assert ties.get(best, True)


def test_a_comparator_that_stands_in_for_the_one_that_was_meant_is_named() -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.12)
    whole = build(inputs).verdict
    baseline = whole.comparison.comparator_id
    assert "stands in" not in whole.sentence
    gone = replace(
        inputs,
        trials=tuple(
            trial.model_copy(update={"state": TrialState.FAILED, "ending": Ending.CRASHED})
            if (trial.config_id, trial.stage) == (baseline, Stage.CONFIRM)
            else trial
            for trial in inputs.trials
        ),
    )
    assert build(gone).verdict.sentence.endswith("DAPO stands in for the baseline, which has no confirm result.")
    elsewhere = noted(inputs, {seed: [NEW] for seed in range(10, 16)}, baseline)
    assert build(elsewhere).verdict.sentence.endswith(
        "DAPO stands in for the baseline, which has no confirm result that trained with torch 2.13.0."
    )


def test_rates_of_ruin_are_of_the_same_batch() -> None:
    crashed = sweep_inputs(CONFIRM, fate=crashing({15}, Ending.CRASHED), advantage=0.12)
    found = build(crashed).verdict.comparison
    tables = ReportTables(noted(crashed, {14: [NEW], 15: [NEW]}))
    counts = RuinsOf.in_tables(tables).counts(found.config_id, 0.05)
    assert (counts.runs, counts.failed, counts.ruined_before) == (4, 0, 1)
    assert counts.spoilt, "what ruined one of its runs elsewhere may ruin others here"
    assert not build(noted(crashed, {14: [NEW], 15: [NEW]})).verdict.outcome.is_of_these_problems
    silent = ReportTables(noted(crashed, {14: [NEW], 15: []}))  # it died before it noted anything
    assert RuinsOf.in_tables(silent).counts(found.config_id, 0.05).failed == 1
