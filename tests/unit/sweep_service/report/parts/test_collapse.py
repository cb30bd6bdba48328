"""Collapsed and failed runs in the verdict: what is left out, what it costs, and what may still be said."""

from dataclasses import replace

import numpy as np
import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.trial_health import _lost
from sweep_service.report.model import Outcome, RunCounts
from sweep_service.report.parts.collapse import (
    Weighed,
    failed_bounds,
    least_rate,
    rate_bound,
    runs_to_exclude,
    weigh,
)
from sweep_service.report.parts.purchase import next_purchase
from sweep_service.report.parts.verdict import _unless
from sweep_service.report.render.html import render_html
from sweep_service.report.statistics.differences import Difference
from sweep_service.sweep.endings import Ending
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import CONFIRM, collapsing, confirms, crashing, ending, is_baseline


def runs(number: int, collapsed: int = 0, failed: int = 0) -> RunCounts:
    return RunCounts(runs=number, collapsed=collapsed, failed=failed, bound=rate_bound(collapsed + failed, number))


def difference(low: float, high: float) -> Difference:
    return Difference(6, (low + high) / 2, 0.01, 0.01, 5, low=low, high=high)


def test_the_bounds_of_a_rate_are_exact() -> None:
    assert rate_bound(0, 6) == pytest.approx(1 - 0.05 ** (1 / 6))  # none in 6 at this rate: 5 %
    assert rate_bound(6, 6) == 1.0
    assert (1 - rate_bound(1, 10)) ** 10 + 10 * rate_bound(1, 10) * (1 - rate_bound(1, 10)) ** 9 == pytest.approx(0.05)
    assert least_rate(0, 6) == 0
    assert least_rate(3, 3) == pytest.approx(0.05 ** (1 / 3))
    assert runs_to_exclude(0.1) == 29
    assert rate_bound(0, 29) < 0.1 < rate_bound(0, 28)
    assert runs_to_exclude(0.1, bad=1) == 46
    assert rate_bound(1, 46) < 0.1 < rate_bound(1, 45)
    assert runs_to_exclude(1e-9, bad=1) is None


@pytest.mark.parametrize(
    ("plain", "bounds", "own", "other", "expected"),
    [
        # a gain of 0.03 at a level of 0.6 outweighs 5 % of ruined runs
        (Outcome.BETTER, (0.03, 0.09), runs(6), runs(6), Weighed(Outcome.BETTER, pytest.approx(0.05))),
        (Outcome.BETTER, (0.03, 0.09), runs(59), runs(6), Weighed(Outcome.BETTER, None)),
        (Outcome.BETTER, (0.03, 0.09), runs(58), runs(6), Weighed(Outcome.BETTER, pytest.approx(0.05))),
        (Outcome.BETTER, (0.03, 0.09), runs(6, collapsed=1), runs(6), Weighed(Outcome.UNDECIDED, pytest.approx(0.05))),
        (Outcome.BETTER, (0.03, 0.09), runs(6, failed=1), runs(6), Weighed(Outcome.UNDECIDED, pytest.approx(0.05))),
        (Outcome.BETTER, (0.03, 0.09), runs(30, collapsed=1), runs(6), Weighed(Outcome.BETTER, pytest.approx(0.05))),
        (Outcome.BETTER, (0.03, 0.09), runs(6), runs(6, collapsed=6), Weighed(Outcome.BETTER, pytest.approx(0.05))),
        (Outcome.WORSE, (-0.09, -0.03), runs(6, collapsed=6), runs(6), Weighed(Outcome.WORSE, pytest.approx(0.06))),
        (Outcome.WORSE, (-0.09, -0.03), runs(6), runs(6, collapsed=1), Weighed(Outcome.UNDECIDED, pytest.approx(0.06))),
        (Outcome.EQUIVALENT, (-0.01, 0.01), runs(6), runs(6), Weighed(Outcome.EQUIVALENT, None)),
        (Outcome.EQUIVALENT, (-0.01, 0.01), runs(6), runs(6, collapsed=1), Weighed(Outcome.UNDECIDED, None)),
        (Outcome.EQUIVALENT, (-0.01, 0.01), runs(6, failed=1), runs(6), Weighed(Outcome.UNDECIDED, None)),
        (Outcome.EQUIVALENT, (-0.01, 0.01), runs(6), runs(6, failed=1), Weighed(Outcome.UNDECIDED, None)),
        # exactly as many ruined runs as the gain outweighs
        (Outcome.BETTER, (0.3, 0.4), runs(6, collapsed=3), runs(6), Weighed(Outcome.UNDECIDED, 0.5)),
        (Outcome.UNDECIDED, (-0.02, 0.08), runs(6, collapsed=3), runs(6, failed=1), Weighed(Outcome.UNDECIDED, None)),
        # 3 of 6 leave 15 % possible at the least, which costs 0.09
        (Outcome.UNDECIDED, (-0.02, 0.08), runs(6, collapsed=3), runs(6), Weighed(Outcome.WORSE, None)),
        (Outcome.UNDECIDED, (-0.02, 0.10), runs(6, collapsed=3), runs(6), Weighed(Outcome.UNDECIDED, None)),
        (Outcome.UNDECIDED, (-0.02, 0.08), runs(6, failed=3), runs(6), Weighed(Outcome.UNDECIDED, None)),
        (
            Outcome.UNDECIDED,
            (-0.02, 0.08),
            runs(6, collapsed=3),
            runs(6, collapsed=1),
            Weighed(Outcome.UNDECIDED, None),
        ),
    ],
)
def test_a_gain_is_weighed_against_the_runs_that_may_collapse(
    plain: Outcome, bounds: tuple[float, float], own: RunCounts, other: RunCounts, expected: Weighed
) -> None:
    assert weigh(plain, difference(*bounds), own, other, (0.6, 0.5)) == expected


@pytest.mark.parametrize(
    ("accuracy", "lost"),
    [
        ([0.6, 0.62, 0.61, 0.6], False),
        ([0.6, 0.1, 0.1, 0.1], True),  # the first evaluation counts by itself
        ([0.1, 0.6, 0.6, 0.6, 0.1, 0.1, 0.1], True),
        ([0.1, 0.25, 0.1, 0.1, 0.1], False),  # one lucky evaluation is no peak
        ([0.02, 0.04, 0.04, 0.04, 0.0, 0.0, 0.0], False),  # it never learned anything
        ([0.0, 0.0, 0.0], False),
        ([], False),
    ],
)
def test_a_run_collapses_by_its_right_answers(accuracy: list[float], lost: bool) -> None:
    assert _lost(np.array(accuracy), last=3) is lost


def test_a_config_of_which_every_run_collapses_is_worse() -> None:
    report = build(
        collapsing(sweep_inputs(CONFIRM, advantage=0.3), lambda c, t: confirms(c, t, {10, 11, 12, 13, 14, 15}))
    )
    by_id = {comparison.config_id: comparison for comparison in report.comparisons}
    ruined = next(c for c in by_id.values() if c.own.collapsed == 6)
    assert (ruined.outcome, ruined.with_collapsed, ruined.num_seeds) == (Outcome.WORSE, True, 6)


@pytest.mark.parametrize(
    ("end", "counts"), [(Ending.CRASHED, True), (Ending.TIMED_OUT, True), (Ending.FAILED, True), (Ending.LOST, False)]
)
def test_a_run_that_failed_by_itself_weakens_what_is_said_and_a_lost_one_does_not(end: Ending, counts: bool) -> None:
    report = build(sweep_inputs(CONFIRM, fate=crashing({10, 11}, end), advantage=0.3))
    found = report.verdict.comparison
    assert (found.own.runs, found.own.failed, found.num_seeds) == ((6, 2, 4) if counts else (4, 0, 4))
    assert found.own.bound == pytest.approx(rate_bound(2, 6) if counts else rate_bound(0, 4))
    assert ("2 failed" in report.verdict.sentence) is (counts and report.verdict.outcome is not Outcome.BETTER)


def test_where_collapses_leave_it_open_the_report_asks_for_runs_that_do_not() -> None:
    report = build(collapsing(sweep_inputs(CONFIRM, advantage=0.12), lambda c, t: confirms(c, t, {10, 11})))
    found, bought = report.verdict.comparison, report.verdict.next
    assert report.verdict.outcome is Outcome.UNDECIDED
    assert found.low > 0
    assert found.tolerated is not None
    assert (found.own.collapsed, found.own.runs) == (2, 6)
    assert "is better than the baseline (β1=0 β2=0) where it does not collapse, +" in report.verdict.sentence
    assert bought.more_seeds + 6 == runs_to_exclude(found.tolerated, bad=2)
    assert "2 of 6 did" in bought.text
    assert bought.text.endswith(f"sweeps extend swp_test --confirm-seeds {bought.more_seeds}")
    page = render_html(report).decode()
    assert "The interval is of runs that did not collapse or fail" in page
    assert "The 95 % interval contains zero" not in page


def test_the_best_of_a_space_is_not_called_best_where_it_is_not_better() -> None:
    for advantage, badge in ((0.3, ">best<"), (-0.4, ">best of the space<")):
        assert badge in render_html(build(sweep_inputs(CONFIRM, advantage=advantage))).decode()


def test_a_gain_that_no_number_of_runs_could_save_from_collapses_buys_none() -> None:
    report = build(collapsing(sweep_inputs(CONFIRM, advantage=0.12), lambda c, t: confirms(c, t, {10, 11})))
    found = report.verdict.comparison
    verdict = report.verdict.model_copy(update={"comparison": found.model_copy(update={"tolerated": 1e-9})})
    bought = next_purchase(
        verdict, {row.id: row for row in report.configs}, [], [], sweep_inputs(CONFIRM).sweep, looks=1
    )
    assert bought.text.endswith("Not even 1000 more runs could exclude a higher rate: look for a larger difference.")


def test_what_failed_runs_might_have_scored_stands_beside_the_difference() -> None:
    whole = build(sweep_inputs(CONFIRM, advantage=0.12)).verdict.comparison
    report = build(sweep_inputs(CONFIRM, fate=crashing({10, 11}, Ending.CRASHED), advantage=0.12))
    found = report.verdict.comparison
    assert whole.failed_bounds is None
    assert found.failed_bounds is not None
    low, high = found.failed_bounds
    assert low < whole.difference < high
    assert high - low == pytest.approx(2 / 6)
    rows = {row.id: row.confirm for row in report.configs}
    mine, theirs = rows[found.config_id], rows[found.comparator_id]
    assert low == pytest.approx((sum(s.value for s in mine.seeds) - sum(s.value for s in theirs.seeds)) / 6)
    assert "4 confirm seeds without a failure" in report.verdict.sentence
    said = "Had failed runs scored anything from 0 to 1, the difference would lie between "
    assert report.verdict.sentence.endswith(f"{said}{low:+.3f} and {high:+.3f}.")


def test_a_failed_run_of_the_comparator_might_have_scored_everything() -> None:
    fate = ending(lambda c, t: is_baseline(c) and t.seed == 10, ending=Ending.CRASHED)
    report = build(sweep_inputs(CONFIRM, fate=fate, advantage=0.3))
    found = report.verdict.comparison
    assert report.verdict.outcome is Outcome.BETTER
    rows = {row.id: row.confirm for row in report.configs}
    mine, theirs = rows[found.config_id], rows[found.comparator_id]
    assert found.failed_bounds[0] == pytest.approx(
        (sum(s.value for s in mine.seeds) - sum(s.value for s in theirs.seeds) - 1) / 6
    )
    assert found.failed_bounds[1] - found.failed_bounds[0] == pytest.approx(1 / 6)
    assert "Had failed runs scored anything from 0 to 1" in report.verdict.sentence
    assert "5 confirm seeds without a failure" in report.verdict.sentence


def test_a_gain_is_weighed_by_the_mean_of_the_runs_that_did_not_collapse() -> None:
    report = build(collapsing(sweep_inputs(CONFIRM, advantage=0.12), lambda c, t: confirms(c, t, {10, 11})))
    found = report.verdict.comparison
    row = next(row for row in report.configs if row.id == found.config_id)
    assert row.tune is not None
    whole = [seed.value for seed in row.confirm.seeds if seed.seed not in (10, 11)]
    assert found.tolerated == pytest.approx(found.low / (sum(whole) / 4))


def test_failed_runs_count_where_more_runs_are_asked_for() -> None:
    report = build(sweep_inputs(CONFIRM, fate=crashing({10, 11}, Ending.CRASHED), advantage=0.12))
    found, bought = report.verdict.comparison, report.verdict.next
    assert found.tolerated is not None
    assert bought.more_seeds + 6 == runs_to_exclude(found.tolerated, bad=2)


def test_lost_runs_and_rewards_have_no_such_bounds() -> None:
    lost = build(sweep_inputs(CONFIRM, fate=crashing({10, 11}, Ending.LOST), advantage=0.12)).verdict
    assert lost.comparison.failed_bounds is None
    assert "without a failure" not in lost.sentence
    inputs = sweep_inputs(CONFIRM, fate=crashing({10, 11}, Ending.CRASHED), advantage=0.12)
    objective = inputs.sweep.spec.objective.model_copy(update={"metric": "eval/reward_mean"})
    spec = inputs.sweep.spec.model_copy(update={"objective": objective})
    series = {
        id_: replace(one, metrics={**one.metrics, "eval/reward_mean": one.metrics["eval/avg_at_k"]})
        for id_, one in inputs.series.items()
    }
    sweep = inputs.sweep.model_copy(update={"spec": spec})
    rewarded = build(replace(inputs, sweep=sweep, series=series)).verdict
    assert rewarded.comparison.own.failed == 2
    assert rewarded.comparison.failed_bounds is None


def test_rates_that_look_alike_get_another_decimal() -> None:
    found = build(sweep_inputs(on_seeds(confirm=range(10, 24)), advantage=0.2)).verdict.comparison
    alike = found.model_copy(update={"tolerated": found.own.bound - 0.001})
    assert "more than 19.2 % of its runs (0 of 14 did, but up to 19.3 %" in _unless(alike)


def test_a_run_that_collapsed_and_then_failed_is_in_the_bounds() -> None:
    report = build(sweep_inputs(CONFIRM, fate=crashing({10, 11}, Ending.CRASHED), advantage=0.12))
    found = report.verdict.comparison
    trials = [trial.model_copy(update={"collapsed": trial.failed_by_itself}) for trial in report.trials]
    bounds = failed_bounds(trials, found.config_id, found.comparator_id, with_collapsed=False)
    assert bounds == found.failed_bounds
    unlike = [trial.model_copy(update={"collapsed": trial.seed == 12}) for trial in report.trials]
    without = failed_bounds(unlike, found.config_id, found.comparator_id, with_collapsed=False)
    assert without[1] - without[0] == pytest.approx(2 / 5)


def test_bounds_of_failed_runs_leave_collapsed_ones_out_as_the_difference_does() -> None:
    inputs = sweep_inputs(CONFIRM, fate=crashing({10, 11}, Ending.CRASHED), advantage=0.12)
    found = build(collapsing(inputs, lambda c, t: confirms(c, t, {12}))).verdict.comparison
    assert (found.with_collapsed, found.num_seeds) == (False, 3)
    assert found.failed_bounds[1] - found.failed_bounds[0] == pytest.approx(2 / 5)
