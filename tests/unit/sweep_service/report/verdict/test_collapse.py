"""Collapsed and failed runs in the verdict: what is left out, what it costs, and what may still be said."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.facts.trial_health import _lost
from sweep_service.report.model import Outcome, RunCounts
from sweep_service.report.render.html import render_html
from sweep_service.report.statistics.differences import Difference
from sweep_service.report.verdict.collapse import (
    Weighed,
    failed_bounds,
    least_rate,
    rate_bound,
    runs_to_exclude,
    weigh,
)
from sweep_service.report.verdict.purchase import next_purchase
from sweep_service.report.verdict.verdict import _unless
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


@cache
def ruined(way: str) -> Report:
    """β1 = 0, β2 = 1 is slightly better, but two of its six confirm runs collapsed or crashed."""
    if way == "crashed":
        return build(sweep_inputs(CONFIRM, fate=crashing({10, 11}), advantage=0.12))
    return build(collapsing(sweep_inputs(CONFIRM, advantage=0.12), lambda c, t: confirms(c, t, {10, 11})))


def sums_of_scores(report: Report) -> tuple[float, float]:
    """Of the confirm results of the two configs that the verdict compares."""
    rows = {row.id: row.confirm for row in report.configs}
    found = report.verdict.comparison
    mine, theirs = (sum(seed.value for seed in rows[id_].seeds) for id_ in (found.config_id, found.comparator_id))
    return mine, theirs


def test_a_config_of_which_every_run_collapses_is_worse() -> None:
    report = build(collapsing(sweep_inputs(CONFIRM, advantage=0.3), lambda c, t: confirms(c, t, range(10, 16))))
    worse = next(one for one in report.comparisons if one.own.collapsed)
    assert (worse.outcome, worse.own.collapsed, worse.with_collapsed, worse.num_seeds) == (Outcome.WORSE, 6, True, 6)


@pytest.mark.parametrize(
    ("end", "counts"), [(Ending.CRASHED, True), (Ending.TIMED_OUT, True), (Ending.FAILED, True), (Ending.LOST, False)]
)
def test_a_run_that_failed_by_itself_weakens_what_is_said_and_a_lost_one_does_not(end: Ending, counts: bool) -> None:
    found = build(sweep_inputs(CONFIRM, fate=crashing({10, 11}, end), advantage=0.3)).verdict.comparison
    assert (found.own.runs, found.own.failed, found.num_seeds) == ((6, 2, 4) if counts else (4, 0, 4))
    assert found.own.bound == pytest.approx(rate_bound(2, 6) if counts else rate_bound(0, 4))
    assert (found.failed_bounds is not None) is counts


@pytest.mark.parametrize(("way", "counts"), [("collapsed", (2, 0)), ("crashed", (0, 2))])
def test_where_ruined_runs_leave_it_open_the_report_asks_for_runs_that_are_not(
    way: str, counts: tuple[int, int]
) -> None:
    found, bought = ruined(way).verdict.comparison, ruined(way).verdict.next
    assert (found.outcome, found.own.runs, found.own.collapsed, found.own.failed) == (Outcome.UNDECIDED, 6, *counts)
    assert found.low > 0
    assert bought.more_seeds + 6 == runs_to_exclude(found.tolerated, bad=2)


def test_the_page_says_that_the_interval_leaves_ruined_runs_out() -> None:
    page = render_html(ruined("collapsed")).decode()
    assert "The interval is of runs that did not collapse or fail" in page
    assert "The 95 % interval contains zero" not in page


def test_the_best_of_a_space_is_not_called_best_where_it_is_not_better() -> None:
    for advantage, badge in ((0.3, ">best<"), (-0.4, ">best of the space<")):
        assert badge in render_html(build(sweep_inputs(CONFIRM, advantage=advantage))).decode()


def test_a_gain_that_no_number_of_runs_could_save_from_collapses_buys_none() -> None:
    report = ruined("collapsed")
    found = report.verdict.comparison.model_copy(update={"tolerated": 1e-9})
    verdict = report.verdict.model_copy(update={"comparison": found})
    bought = next_purchase(verdict, ReportTables(sweep_inputs(CONFIRM)))
    assert bought.text.endswith("Not even 1000 more runs could exclude a higher rate: look for a larger difference.")


def test_what_failed_runs_might_have_scored_stands_beside_the_difference() -> None:
    assert build(sweep_inputs(CONFIRM, advantage=0.12)).verdict.comparison.failed_bounds is None
    mine, theirs = sums_of_scores(ruined("crashed"))
    bounds = ruined("crashed").verdict.comparison.failed_bounds
    assert bounds == pytest.approx(((mine - theirs) / 6, (mine + 2 - theirs) / 6))


def test_a_failed_run_of_the_comparator_might_have_scored_everything() -> None:
    fate = ending(lambda c, t: is_baseline(c) and t.seed == 10, ending=Ending.CRASHED)
    report = build(sweep_inputs(CONFIRM, fate=fate, advantage=0.3))
    mine, theirs = sums_of_scores(report)
    assert report.verdict.outcome is Outcome.BETTER
    assert report.verdict.comparison.failed_bounds == pytest.approx(((mine - theirs - 1) / 6, (mine - theirs) / 6))


def test_a_gain_is_weighed_by_the_mean_of_the_runs_that_did_not_collapse() -> None:
    found = ruined("collapsed").verdict.comparison
    row = next(row for row in ruined("collapsed").configs if row.id == found.config_id)
    whole = [seed.value for seed in row.confirm.seeds if seed.seed not in (10, 11)]
    assert found.tolerated == pytest.approx(found.low / (sum(whole) / 4))


def test_rewards_have_no_bounds_of_what_failed_runs_might_have_scored() -> None:
    inputs = sweep_inputs(CONFIRM, fate=crashing({10, 11}), advantage=0.12)
    objective = inputs.sweep.spec.objective.model_copy(update={"metric": "eval/reward_mean"})
    sweep = inputs.sweep.model_copy(update={"spec": inputs.sweep.spec.model_copy(update={"objective": objective})})
    series = {
        id_: replace(one, metrics={**one.metrics, "eval/reward_mean": one.metrics["eval/avg_at_k"]})
        for id_, one in inputs.series.items()
    }
    rewarded = build(replace(inputs, sweep=sweep, series=series)).verdict.comparison
    assert (rewarded.own.failed, rewarded.failed_bounds) == (2, None)


def test_rates_that_look_alike_get_another_decimal() -> None:
    found = build(sweep_inputs(on_seeds(confirm=range(10, 24)), advantage=0.2)).verdict.comparison
    alike = found.model_copy(update={"tolerated": found.own.bound - 0.001})
    assert "more than 19.2 % of its runs (0 of 14 did, but up to 19.3 %" in _unless(alike)


def test_a_run_that_collapsed_and_then_failed_is_in_the_bounds() -> None:
    report, found = ruined("crashed"), ruined("crashed").verdict.comparison
    trials = [trial.model_copy(update={"collapsed": trial.failed_by_itself}) for trial in report.trials]
    bounds = failed_bounds(trials, found.config_id, found.comparator_id, with_collapsed=False)
    assert bounds == found.failed_bounds
    unlike = [trial.model_copy(update={"collapsed": trial.seed == 12}) for trial in report.trials]
    without = failed_bounds(unlike, found.config_id, found.comparator_id, with_collapsed=False)
    assert without[1] - without[0] == pytest.approx(2 / 5)


def test_bounds_of_failed_runs_leave_collapsed_ones_out_as_the_difference_does() -> None:
    inputs = sweep_inputs(CONFIRM, fate=crashing({10, 11}), advantage=0.12)
    found = build(collapsing(inputs, lambda c, t: confirms(c, t, {12}))).verdict.comparison
    assert (found.with_collapsed, found.num_seeds) == (False, 3)
    assert found.failed_bounds[1] - found.failed_bounds[0] == pytest.approx(2 / 5)
