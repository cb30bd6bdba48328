"""Ruined and failed runs in the verdict: what is left out, what it costs, and which words may still be said."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

from sweep_service.health.run_health import answers_lost
from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.facts.ruin import fallen_trials
from sweep_service.report.model import Outcome
from sweep_service.report.render.html import render_html
from sweep_service.report.statistics.ruin_rates import Ruins, least_rate, most_excess, rate_bound, runs_to_exclude
from sweep_service.report.verdict.purchase import next_purchase
from sweep_service.report.verdict.ruin import Judged, word
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Role, Stage, Trial, TrialState
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import (
    CONFIRM,
    collapsing,
    confirms,
    crashing,
    ending,
    is_baseline,
    scored,
    without_luck,
)


def test_the_bounds_of_a_rate_are_exact() -> None:
    assert rate_bound(0, 6) == pytest.approx(1 - 0.05 ** (1 / 6))  # none in 6 at this rate: 5 %
    assert rate_bound(6, 6) == 1.0
    assert (1 - rate_bound(1, 10)) ** 10 + 10 * rate_bound(1, 10) * (1 - rate_bound(1, 10)) ** 9 == pytest.approx(0.05)
    assert rate_bound(0, 6, 0.01) == pytest.approx(1 - 0.01 ** (1 / 6))
    assert least_rate(0, 6) == 0
    assert least_rate(3, 3) == pytest.approx(0.05 ** (1 / 3))
    assert runs_to_exclude(0.1) == 29
    assert rate_bound(0, 29) < 0.1 < rate_bound(0, 28)
    assert runs_to_exclude(0.1, bad=1) == 46
    assert rate_bound(1, 46) < 0.1 < rate_bound(1, 45)
    assert runs_to_exclude(0.1, error=0.01) == 44
    assert runs_to_exclude(1e-9, bad=1) is None


def test_the_excess_of_ruin_joins_the_bounds_of_two_rates() -> None:
    sound, ruined = Ruins(6, 0, 0), Ruins(6, 6, 5.4)
    assert most_excess(sound, sound) == pytest.approx(rate_bound(0, 6))
    assert most_excess(ruined, sound) == 1.0
    # 5.4 of its runs are lost for sure, so 5 count; 6 in 6 leave 61 % possible, none 39 %
    spared = rate_bound(0, 6), 5 / 6 - least_rate(5, 6)
    assert most_excess(sound, ruined) == pytest.approx(-5 / 6 + np.hypot(*spared))
    assert most_excess(sound, Ruins(6, 2, 0)) == pytest.approx(rate_bound(0, 6))  # failed runs may have been sound
    assert most_excess(Ruins(0, 0, 0), sound) == 1.0


def excess(runs: int, other_runs: int, ruined: int, other_ruined: int) -> float:
    return most_excess(Ruins(runs, ruined, ruined), Ruins(other_runs, other_ruined, other_ruined))


@pytest.mark.parametrize("runs", [(3, 3), (6, 6), (4, 12), (16, 16)])
def test_the_excess_is_rarely_larger_than_its_bound(runs: tuple[int, int]) -> None:
    n, m = runs
    bounds = np.array([[excess(n, m, one, other) for other in range(m + 1)] for one in range(n + 1)])
    for rate in np.linspace(0.02, 0.98, 13):
        for other_rate in np.linspace(0.0, 0.96, 13):
            if abs(rate - other_rate) <= 0.5:  # beyond that no difference among sound runs makes up for it
                chances = np.outer(stats.binom.pmf(range(n + 1), n, rate), stats.binom.pmf(range(m + 1), m, other_rate))
                assert chances[bounds < rate - other_rate - 1e-9].sum() <= 0.065


LEVEL = 0.6


@pytest.mark.parametrize(
    ("sound", "average", "clean", "outcome", "tolerated"),
    [
        ((0.03, 0.09), (0.01, 0.12), True, Outcome.BETTER, None),
        ((0.03, 0.09), (0.01, 0.12), False, Outcome.BETTER, None),
        ((0.03, 0.09), (-0.2, 0.3), True, Outcome.AHEAD, 0.05),  # 5 % of 0.6 cost a lead of 0.03
        ((0.03, 0.09), (-0.2, 0.3), False, Outcome.UNDECIDED, 0.05),
        ((-0.09, -0.03), (-0.3, -0.01), True, Outcome.WORSE, None),
        ((-0.09, -0.03), (-0.3, 0.01), True, Outcome.BEHIND, 0.05),
        ((-0.01, 0.01), (-0.019, 0.019), True, Outcome.EQUIVALENT, None),
        ((-0.014, 0.008), (-0.2, 0.2), True, Outcome.ALIKE, 0.01),
        ((-0.01, 0.01), (-0.2, 0.2), False, Outcome.UNDECIDED, None),  # alike, so neither leads
        ((-0.02, 0.01), (-0.2, 0.2), True, Outcome.UNDECIDED, None),
        ((0.7, 0.9), (-0.1, 0.9), True, Outcome.AHEAD, 1.0),
        ((-0.01, 0.5), (0.01, 0.9), False, Outcome.BETTER, None),  # it is ruined less often
        (None, (-0.1, 0.2), False, Outcome.UNDECIDED, None),
        (None, (0.1, 0.2), False, Outcome.BETTER, None),
    ],
)
def test_the_word_is_about_averages_where_these_decide(
    sound: tuple[float, float] | None,
    average: tuple[float, float],
    clean: bool,
    outcome: Outcome,
    tolerated: float | None,
) -> None:
    expected = Judged(outcome, *average, tolerated and pytest.approx(tolerated))
    assert word(sound, average, 0.02, LEVEL, clean=clean, counted=True) == expected


@pytest.mark.parametrize(
    ("sound", "average", "clean", "outcome"),
    [
        ((0.03, 0.09), (0.01, 0.12), True, Outcome.AHEAD_HERE),
        ((0.03, 0.09), (0.01, 0.12), False, Outcome.AHEAD_HERE),  # ruined runs do not turn it round
        ((0.03, 0.09), (-0.2, 0.3), True, Outcome.AHEAD_HERE),
        ((0.03, 0.09), (-0.2, 0.3), False, Outcome.UNDECIDED),
        ((-0.09, -0.03), (-0.3, -0.01), True, Outcome.BEHIND_HERE),
        ((-0.09, -0.03), None, True, Outcome.BEHIND_HERE),
        ((-0.014, 0.008), (-0.2, 0.2), True, Outcome.ALIKE_HERE),
        ((-0.01, 0.01), (-0.019, 0.019), False, Outcome.ALIKE_HERE),
        ((-0.01, 0.5), (0.01, 0.9), False, Outcome.UNDECIDED),  # the averages alone say it, for its fewer ruins
        ((-0.02, 0.01), (-0.2, 0.2), True, Outcome.UNDECIDED),
        ((-0.02, 0.03), None, False, Outcome.UNDECIDED),
        (None, (0.1, 0.2), False, Outcome.UNDECIDED),
    ],
)
def test_where_problems_do_not_count_the_word_is_about_these_and_sound_runs(
    sound: tuple[float, float] | None, average: tuple[float, float] | None, clean: bool, outcome: Outcome
) -> None:
    found = word(sound, average, 0.02, LEVEL, clean=clean, counted=False)
    assert found[:3] == (outcome, *(average or (None, None)))
    tolerated = 0.03 / LEVEL if (sound, clean) == ((0.03, 0.09), False) and outcome is Outcome.UNDECIDED else None
    assert found.tolerated == tolerated, "what one bets on is said where sound runs say more than all"
    assert (found.outcome.is_of_these_problems, found.outcome.is_of_all) == (outcome is not Outcome.UNDECIDED, False)


def fallen(values: list[float], error: float = 0.0, worst: float = 0.0) -> list[float]:
    """Which results of four runs of each config are ruins."""
    trials = [
        Trial.model_construct(id=f"{place}", config_id=f"{place // 4}", stage=Stage.CONFIRM)
        for place in range(len(values))
    ]
    objectives = {trial.id: value for trial, value in zip(trials, values, strict=True)}
    every = {trial.config_id for trial in trials}
    found = fallen_trials(trials, objectives, lambda id_, level: error, every, worst)
    return sorted(objectives[id_] for id_ in found)


STEADY = [0.60, 0.61, 0.62, 0.59]


def test_a_mean_that_counts_a_ruin_has_no_interval() -> None:
    fate = ending(lambda c, t: is_baseline(c) and t.stage is Stage.CONFIRM and t.seed == 11, TrialState.DIVERGED)
    for row in build(sweep_inputs(CONFIRM, fate=fate)).configs:
        if row.confirm is not None:
            assert (row.confirm.low is None) is (Role.BASELINE in row.roles), row.label


def test_a_run_is_ruined_if_it_ends_far_below_the_others() -> None:
    assert fallen([*STEADY, 0.66, 0.36, 0.67, 0.65]) == [0.36]
    assert fallen([*STEADY, 0.66, 0.36, 0.37, 0.65]) == [0.36, 0.37]
    assert fallen([*STEADY, 0.66, 0.50, 0.67, 0.65]) == []  # more than three quarters of the median
    assert fallen([*STEADY, 0.30, 0.31, 0.29, 0.30]) == [0.29, 0.30, 0.30, 0.31]  # a config that never works


def test_sampling_and_the_spread_over_seeds_make_no_ruins() -> None:
    assert fallen([*STEADY, 0.66, 0.36, 0.67, 0.65], error=0.1) == []
    assert fallen([0.6, 0.9, 0.3, 0.75, 0.5, 0.8, 0.36, 0.7]) == []
    assert fallen([-0.2, -0.3, -0.25, -0.21], worst=-0.1) == []  # no share of a result below the worst one


def test_another_level_of_the_worst_result_is_another_share() -> None:
    assert fallen([*STEADY, 0.66, 0.50, 0.67, 0.65], worst=0.4) == [0.50]


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
    assert answers_lost(np.array(accuracy), last=3, samples=None) is lost
    assert answers_lost(np.array(accuracy), last=3, samples=10_000) is lost


def test_healthy_runs_at_low_rates_do_not_collapse() -> None:
    """16 problems with one sample each, of which 10 to 15 % are right at every evaluation."""
    rng = np.random.default_rng(0)
    curves = rng.binomial(16, np.linspace(0.1, 0.15, 2000)[:, None], (2000, 12)) / 16
    assert np.mean([answers_lost(curve, last=3, samples=16) for curve in curves]) <= 0.01
    assert np.mean([answers_lost(curve, last=3, samples=None) for curve in curves]) > 0.1


@cache
def ruined(way: str) -> Report:
    """β1 = 0, β2 = 1 is slightly better, but two of its six confirm runs collapsed or crashed."""
    if way == "crashed":
        return build(without_luck(sweep_inputs(CONFIRM, fate=crashing({10, 11}), advantage=0.12)))
    inputs = collapsing(sweep_inputs(CONFIRM, advantage=0.12), lambda c, t: confirms(c, t, {10, 11}))
    return build(without_luck(inputs))


def test_a_config_of_which_every_run_collapses_is_worse() -> None:
    inputs = collapsing(sweep_inputs(CONFIRM, advantage=0.3), lambda c, t: confirms(c, t, range(10, 16)))
    worse, uncounted = (
        next(one for one in build(each).comparisons if one.own.ruined) for each in (without_luck(inputs), inputs)
    )
    assert (worse.outcome, worse.own.ruined, worse.with_ruined, worse.num_seeds) == (Outcome.WORSE, 6, True, 6)
    assert uncounted.outcome is Outcome.UNDECIDED


def test_a_ruin_of_the_tune_stage_leaves_a_config_to_its_average() -> None:
    clean = sweep_inputs(CONFIRM, advantage=0.12)
    found = build(without_luck(clean)).verdict.comparison
    assert (found.outcome, found.own.ruined_before) == (Outcome.AHEAD, 0)

    def low_once(config: object, trial: Trial, values: np.ndarray) -> np.ndarray:
        return values * 0.3 if trial.id == first.id else values

    first = next(trial for trial in clean.trials if trial.config_id == found.config_id and trial.stage is Stage.TUNE)
    judged = next(one for one in build(scored(clean, low_once)).comparisons if one.config_id == found.config_id)
    assert (judged.outcome, judged.own.ruined_before, judged.own.bad) == (Outcome.UNDECIDED, 1, 0)


@pytest.mark.parametrize(
    ("end", "counts"), [(Ending.CRASHED, True), (Ending.TIMED_OUT, True), (Ending.FAILED, True), (Ending.LOST, False)]
)
def test_a_run_that_failed_by_itself_weakens_what_is_said_more_than_a_lost_one(end: Ending, counts: bool) -> None:
    inputs = without_luck(sweep_inputs(CONFIRM, fate=crashing({10, 11}, end), advantage=0.3))
    found = build(inputs).verdict.comparison
    assert (found.own.runs, found.own.failed, found.num_seeds) == ((6, 2, 4) if counts else (4, 0, 4))
    assert found.own.bound == pytest.approx(rate_bound(2, 6, 0.025)), "a lost one counts as ruined in the bound"
    assert found.outcome is (Outcome.UNDECIDED if counts else Outcome.AHEAD)


@pytest.mark.parametrize(("way", "counts"), [("collapsed", (2, 0)), ("crashed", (0, 2))])
def test_where_more_runs_are_ruined_than_a_lead_tolerates_the_report_asks_for_the_reason(
    way: str, counts: tuple[int, int]
) -> None:
    found, bought = ruined(way).verdict.comparison, ruined(way).verdict.next
    assert (found.outcome, found.own.runs, found.own.ruined, found.own.failed) == (Outcome.UNDECIDED, 6, *counts)
    assert found.low > 0
    assert found.tolerated < 2 / 6
    assert (bought.more_seeds, bought.text.endswith("So far 2 of 6 were: first find out why.")) == (0, True)


def test_sound_runs_that_are_ahead_ask_for_those_that_decide_the_average() -> None:
    verdict = build(without_luck(sweep_inputs(CONFIRM, advantage=0.12))).verdict
    needed = 6 + verdict.next.more_seeds
    assert needed == runs_to_exclude(verdict.comparison.tolerated, error=0.025 / 2)
    assert f"--confirm-seeds {verdict.next.more_seeds}" in verdict.next.text
    enough = build(without_luck(sweep_inputs(on_seeds(confirm=range(10, 10 + needed)), advantage=0.12)))
    assert enough.verdict.outcome is Outcome.BETTER


@pytest.mark.parametrize("outcome", Outcome)
def test_the_best_of_a_space_is_called_best_only_where_it_is_better_on_average(outcome: Outcome) -> None:
    report = build(sweep_inputs(CONFIRM, advantage=0.3))
    verdict = report.verdict.model_copy(update={"outcome": outcome})
    page = render_html(report.model_copy(update={"verdict": verdict})).decode()
    assert (">best<" in page, ">best of the space<" in page) == (
        outcome is Outcome.BETTER,
        outcome is not Outcome.BETTER,
    )


def test_a_lead_that_no_number_of_runs_could_decide_buys_none() -> None:
    report = ruined("collapsed")
    found = report.verdict.comparison.model_copy(update={"tolerated": 1e-9})
    verdict = report.verdict.model_copy(update={"comparison": found})
    bought = next_purchase(verdict, ReportTables(sweep_inputs(CONFIRM)))
    assert bought.text.endswith("2 of 6 were: first find out why.")


def test_a_lead_is_weighed_by_the_higher_mean_of_sound_runs() -> None:
    found = ruined("collapsed").verdict.comparison
    row = next(row for row in ruined("collapsed").configs if row.id == found.config_id)
    whole = [seed.value for seed in row.confirm.seeds if seed.seed not in (10, 11)]
    assert found.tolerated == pytest.approx(found.low / (sum(whole) / 4))
    low, high = (found.average_low, found.average_high)
    level = found.low / found.tolerated
    assert low == pytest.approx(found.low - level * most_excess(Ruins(6, 2, 0), Ruins(6, 0, 0), 0.025))
    assert high < found.high + level * most_excess(Ruins(6, 0, 0), Ruins(6, 1, 1), 0.025) + 1e-9
    assert high > found.high


def test_a_reward_is_held_against_the_worst_there_is() -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.12)
    objective = inputs.sweep.spec.objective.model_copy(update={"metric": "eval/reward_mean", "diverged": -1.0})
    sweep = inputs.sweep.model_copy(update={"spec": inputs.sweep.spec.model_copy(update={"objective": objective})})
    series = {
        id_: replace(one, metrics={**one.metrics, "eval/reward_mean": one.metrics["eval/avg_at_k"]})
        for id_, one in inputs.series.items()
    }
    worlds = without_luck(inputs), replace(inputs, sweep=sweep, series=series)
    plain, rewarded = (build(one).verdict.comparison for one in worlds)
    level = plain.low / plain.tolerated
    ruin, ruin_of_reward = (one.low - one.average_low for one in (plain, rewarded))
    assert ruin_of_reward / ruin == pytest.approx((level + 1) / level)


def test_a_baseline_that_falls_most_of_the_time_makes_a_config_better() -> None:
    fallen_baseline = collapsing(
        sweep_inputs(on_seeds(confirm=range(10, 22)), advantage=0.12),
        lambda c, t: is_baseline(c) and t.stage is Stage.CONFIRM and t.seed < 19,
    )
    assert build(without_luck(fallen_baseline)).verdict.outcome is Outcome.BETTER
