"""Bounds of ruin, one rule at a time: which runs count, from where a loss is counted, and who is told what."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sweep_service.cli.winner import _STYLES
from sweep_service.health.run_health import answers_lost
from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.model import Comparison, ConfigRow, Outcome, RunCounts, SeedValue, StageResult, TrialRow
from sweep_service.report.render.bars import scale
from sweep_service.report.statistics.differences import Arm
from sweep_service.report.statistics.ruin_rates import Ruins, least_rate, most_excess, rate_bound
from sweep_service.report.sweep_facts import Facts
from sweep_service.report.verdict.finding import finding
from sweep_service.report.verdict.purchase import _Ask, _sound_runs
from sweep_service.report.verdict.ruin import RuinsOf, ended_runs
from sweep_service.report.verdict.ties import tie_set
from sweep_service.sweep.plan_warnings import _word_of_seeds, plan_warnings
from sweep_service.sweep.records import Config, Role, Stage, TrialState
from sweep_service.sweep.spec import SweepSpec
from tests.unit.sweep_service.report.report_sweeps import SPEC, in_halves, on_seeds, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import CONFIRM, collapsing, confirms, counted, scored, without_luck


def row(config: str, place: int, objective: float | None = 0.6, **more: object) -> TrialRow:
    stage = more.pop("stage", Stage.CONFIRM)
    return TrialRow.model_construct(
        id=f"{config}{place}{stage}", config_id=config, stage=stage, objective=objective, **more
    )


def counts(runs: int, ruined: int = 0, failed: int = 0, before: int = 0) -> RunCounts:
    return RunCounts(runs=runs, ruined=ruined, failed=failed, ruined_before=before, bound=0.3)


def compared(**more: object) -> Comparison:
    figures = {"num_seeds": 10, "difference": 0.05, "low": 0.03, "high": 0.08, "average_low": -0.2, "average_high": 0.3}
    names = {
        "config_id": "a",
        "label": "a",
        "comparator_id": "b",
        "comparator_role": Role.BASELINE,
        "comparator_label": "b",
    }
    rest = {
        "own": counts(10),
        "other": counts(10),
        "outcome": Outcome.UNDECIDED,
        "tolerated": 0.05,
        "standard_error": 0.01,
    }
    return Comparison(**names | figures | rest | {"df": 9, "variance": "pair", "family": 1, "detectable": 0.03} | more)


@pytest.mark.parametrize(
    ("outcome", "average", "is_open"),
    [
        (Outcome.AHEAD_HERE, (-0.01, 0.1), True),
        (Outcome.AHEAD_HERE, (0.01, 0.1), False),
        (Outcome.BEHIND_HERE, (-0.1, 0.01), True),
        (Outcome.BEHIND_HERE, (-0.1, -0.01), False),
        (Outcome.ALIKE_HERE, (-0.03, 0.01), True),
        (Outcome.ALIKE_HERE, (-0.01, 0.01), False),
        (Outcome.UNDECIDED, (-0.01, 0.1), True),
        (Outcome.UNDECIDED, (0.01, 0.1), False),
        (Outcome.AHEAD, (None, None), True),
    ],
)
def test_a_sentence_about_sound_runs_says_whether_all_runs_are_open(
    outcome: Outcome, average: tuple[float | None, float | None], is_open: bool
) -> None:
    text = finding(compared(outcome=outcome, average_low=average[0], average_high=average[1]), 0.02)
    assert (". Over all runs that is open." in text) == is_open


def test_the_first_evaluation_counts_by_itself() -> None:
    assert answers_lost(np.array([0.6, 0.2, 0.2, 0.2]), last=3, samples=None)  # the best mean of three is 0.33


def test_half_of_the_problems_measures_with_half_of_the_samples() -> None:
    whole, half = (counted(one) for one in (sweep_inputs(CONFIRM), in_halves(sweep_inputs(CONFIRM))))
    errors = [ReportTables(one)._sampling_error(one.trials[0].id, 0.5) for one in (whole, half)]
    samples = whole.judged_samples[whole.trials[0].id] * whole.sweep.spec.objective.last
    assert errors == pytest.approx([math.sqrt(0.25 / samples), math.sqrt(0.25 / (samples / 2))])


def test_a_ruined_tune_run_says_nothing_of_the_spread_in_the_confirm_stage() -> None:
    clean = sweep_inputs(CONFIRM, advantage=0.12)
    first = next(trial for trial in clean.trials if trial.stage is Stage.TUNE)
    tables = ReportTables(scored(clean, lambda c, t, values: 0.2 if t.id == first.id else 0.6 + 0.001 * t.seed))
    assert tables.ruined == {first.id}
    assert not tables.unsteady  # a tune run says nothing of the spread in the confirm stage


def test_the_confirmed_configs_make_the_median() -> None:
    clean = sweep_inputs(
        CONFIRM | {"space": {"loss.beta1": [0.0, 0.25, 0.5, 0.75, 1.0], "loss.beta2": [0.25, 0.5, 1.0]}}
    )
    chosen = {trial.config_id for trial in clean.trials if trial.stage is Stage.CONFIRM}
    tables = ReportTables(scored(clean, lambda c, t, values: 0.6 if t.config_id in chosen else 0.2))
    others = {trial.id for trial in clean.trials if trial.config_id not in chosen}
    assert len({trial.config_id for trial in clean.trials} - chosen) > len(chosen)  # most configs are low
    assert tables.ruined == others


def test_the_lower_bound_of_a_rate_has_the_same_error() -> None:
    one, other, error = Ruins(10, 0, 0), Ruins(10, 8, 7.2), 0.01
    joined = math.hypot(rate_bound(0, 10, error), 0.7 - least_rate(7, 10, error))
    assert most_excess(one, other, error) == pytest.approx(-0.7 + joined)


def test_tune_runs_say_nothing_of_the_rates() -> None:
    sound = [Arm("a", {0: 0.6}), Arm("b", {0: 0.6})]
    trials = [row(name, place) for name in "ab" for place in range(10)]
    tuned = [row("b", place, 0.0, stage=Stage.TUNE, ruined=True) for place in range(9)]
    plain, more = (
        RuinsOf(some, sound, 0.0).average(("a", "b"), (0.1, 0.2), 0.05, among_all=False)
        for some in (trials, trials + tuned)
    )
    assert plain == more  # tuning says nothing of the rates


def test_a_failed_tune_run_spoils_a_config() -> None:
    trials = [
        row("a", 0),
        row("a", 1, None, stage=Stage.TUNE, failed_by_itself=True),
    ]
    found = ended_runs(trials, ["a"], Stage.CONFIRM)
    assert (found.runs, found.bad, found.ruined_before, found.spoilt) == (1, 0, 1, True)


def test_what_a_ruined_run_lost_is_counted_from_the_worst_result() -> None:
    trials = [
        row("a", 0, 0.6),
        row("a", 1, -0.2, ruined=True),
    ]
    ruins = RuinsOf(trials, [Arm("a", {0: 0.6})], -1.0)
    assert ruins._ruins("a", ruins.level("a")).least == pytest.approx(0.5)  # 0.8 of 1.6


def test_two_sound_pairs_are_no_reason_to_count_ruined_runs() -> None:
    found = build(sweep_inputs({"seeds": {"tune": [0, 1], "confirm": {"seeds": [10, 11], "top_k": 2}}})).comparisons
    assert {(one.outcome, one.with_ruined) for one in found} == {(Outcome.INSUFFICIENT, False)}


def test_a_tolerated_rate_is_never_rounded_up() -> None:
    text = finding(compared(outcome=Outcome.AHEAD, tolerated=0.0267), 0.02)
    assert "at most 2.6 % of its runs" in text


@pytest.mark.parametrize("side", ["own", "other"])
def test_undecided_is_about_all_runs_if_any_was_ruined(side: str) -> None:
    text = finding(compared(low=-0.03, tolerated=None, **{side: counts(10, 1)}), 0.02)
    assert text.startswith("UNDECIDED: over all runs ")


def test_a_plan_says_which_word_its_seeds_can_carry() -> None:
    (said,) = _word_of_seeds(6, 1)
    assert "up to 39%" in said
    assert said.endswith("29 seeds carry BETTER for a lead of 10%")
    assert _word_of_seeds(28, 1)
    assert not _word_of_seeds(29, 1)
    assert "36 seeds carry" in _word_of_seeds(6, 2)[0]


def test_both_ends_of_all_runs_have_their_places() -> None:
    places = scale(compared(low=-0.01, difference=0.0, high=0.01, average_low=-0.0034, average_high=0.0051))
    assert (places["all_low"], places["all_high"]) == (40.0, 65.0)
    assert "all_low" not in scale(compared(average_low=None, average_high=None))


def test_the_scale_has_room_for_the_difference_that_two_alike_configs_stay_below() -> None:
    places = scale(compared(low=-0.01, difference=0.0, high=0.01, average_low=None, average_high=None), 0.06)
    assert places["least"] == pytest.approx(50 - 50 / 1.2, abs=0.01)
    assert places["most"] == pytest.approx(50 + 50 / 1.2, abs=0.01)
    assert places["high"] == pytest.approx(50 + 50 / 7.2, abs=0.01)
    report = build(without_luck(sweep_inputs()))
    assert (report.verdict.outcome, report.verdict.relevant) == (Outcome.ALIKE, 0.02)
    assert build(without_luck(sweep_inputs(advantage=0.3))).verdict.relevant is None


def test_a_config_with_few_sound_runs_leaves_the_set_of_all_runs_alone() -> None:
    """Two of ten runs of a config are sound, so it leaves the set of those that may be the best over all runs."""
    results = {"a": [0.8 + 0.001 * (s % 3) for s in range(10)], "b": [0.8, 0.81, *[0.01 + 0.001 * s for s in range(8)]]}
    bad = {name: {s for s, value in enumerate(values) if value < 0.5} for name, values in results.items()}
    rows, trials = {}, []
    for number, (name, values) in enumerate(results.items()):
        seeds = [SeedValue(seed=s, trial_id=f"{name}{s}", value=value) for s, value in enumerate(values)]
        stage = StageResult(n=10, planned=10, mean=float(np.mean(values)), sd=None, low=None, high=None, seeds=seeds)
        rows[name] = ConfigRow.model_construct(id=name, number=number, label=name, confirm=stage)
        trials += [row(name, s, value, ruined=s in bad[name]) for s, value in enumerate(values)]
    arms = [Arm(name, dict(enumerate(values)), not bad[name]) for name, values in results.items()]
    sound = [Arm(n, {s: v for s, v in enumerate(values) if s not in bad[n]}) for n, values in results.items()]
    found = tie_set(rows, arms, sound, RuinsOf(trials, sound, 0.0), 0.95)
    assert {member.config_id: (member.in_set, member.in_sound_set) for member in found.members} == {
        "a": (True, True),
        "b": (False, True),
    }


def test_a_word_has_the_colour_of_its_weight() -> None:
    assert _STYLES.keys() <= {*Outcome}
    partly = [outcome for outcome in Outcome if outcome.sign is not None and not outcome.is_of_all]
    assert {_STYLES[outcome] for outcome in partly} == {"bold cyan"}


def test_more_configs_compared_ask_for_more_runs() -> None:
    ask = _Ask("swp", 0.02, 0.975)
    one, several = (_sound_runs(compared(outcome=Outcome.AHEAD, compared=k), 0.05, ask).more_seeds for k in (1, 3))
    assert (one, several) == (72 - 10, 94 - 10)


def test_more_ruins_than_are_tolerated_ask_for_no_runs() -> None:
    bought = _sound_runs(compared(own=counts(10, failed=1)), 0.05, _Ask("swp", 0.02, 0.975))
    assert (bought.more_seeds, bought.text.endswith("So far 1 of 10 were: first find out why.")) == (0, True)


def test_a_lower_level_is_no_ruin() -> None:
    """The difference among sound runs has what a comparator scores less; its ruins lose only the rest."""
    trials = [
        *(row("low", place, 0.4) for place in range(3)),
        row("low", 3, 0.28, ruined=True),
    ]
    ruins = RuinsOf(trials, [Arm("high", {0: 0.8}), Arm("low", {0: 0.4})], 0.0)
    assert ruins._ruins("low", ruins.level("high", "low")).least == pytest.approx(0.15)


def of_rewards(diverged: float) -> ReportInputs:
    """The same sweep, whose objective is a mean reward around -1."""
    inputs = sweep_inputs(CONFIRM, advantage=0.12)
    objective = inputs.sweep.spec.objective.model_copy(update={"metric": "eval/reward_mean", "diverged": diverged})
    sweep = inputs.sweep.model_copy(update={"spec": inputs.sweep.spec.model_copy(update={"objective": objective})})
    series = {
        id_: replace(one, metrics={**one.metrics, "eval/reward_mean": one.metrics["eval/avg_at_k"] - 1.8})
        for id_, one in inputs.series.items()
    }
    return replace(inputs, sweep=sweep, series=series)


def test_rewards_whose_worst_nobody_knows_have_no_averages() -> None:
    unknown, known = (build(of_rewards(diverged)).verdict for diverged in (0.0, -5.0))
    assert (unknown.outcome, unknown.comparison.own.ruined) == (Outcome.AHEAD_HERE, 0)
    assert (unknown.comparison.average_low, unknown.comparison.tolerated) == (None, None)
    assert "no objective.diverged below every result" in unknown.sentence
    assert all(member.in_set for member in unknown.ties.members)
    assert known.comparison.average_low < known.comparison.low


def test_a_run_that_diverged_is_no_result_below_the_worst() -> None:
    inputs = of_rewards(-5.0)
    one = next(trial for trial in inputs.trials if trial.stage is Stage.TUNE)
    diverged = one.model_copy(update={"state": TrialState.DIVERGED})
    trials = tuple(diverged if trial.id == one.id else trial for trial in inputs.trials)
    found = build(replace(inputs, trials=trials)).verdict
    assert found.comparison.average_low is not None
    assert "no objective.diverged" not in found.sentence


def test_an_undecided_verdict_says_where_nobody_knows_how_bad_a_ruin_is() -> None:
    ruined = collapsing(of_rewards(0.0), lambda c, t: confirms(c, t, {10}))
    verdict = build(ruined).verdict
    assert (verdict.outcome, verdict.comparison.average_low) == (Outcome.UNDECIDED, None)
    assert "no objective.diverged below every result" in verdict.sentence


def test_configs_that_are_alike_in_sound_runs_and_ruined_make_no_lead() -> None:
    ruin = collapsing(sweep_inputs(CONFIRM | {"objective": {"relevant": 0.04}}), lambda c, t: confirms(c, t, {10}))
    verdict = build(ruin).verdict
    assert (verdict.outcome, verdict.comparison.tolerated) == (Outcome.UNDECIDED, None)
    assert "bets" not in verdict.sentence


def test_what_a_comparison_shows_to_be_beaten_may_not_be_the_best() -> None:
    report = build(sweep_inputs(CONFIRM, advantage=0.12))
    shown = report.comparisons[0].model_copy(update={"outcome": Outcome.BETTER})
    facts = Facts(sweep_inputs(CONFIRM, advantage=0.12))
    found = tie_set(facts.rows, facts.arms, facts.sound_arms, RuinsOf.in_tables(facts), 0.95, [shown])
    assert [member.in_set for member in found.members] == [
        member.config_id != shown.comparator_id for member in found.members
    ]
    alike = Facts(sweep_inputs(CONFIRM))
    ahead, behind = (shown.model_copy(update={"outcome": outcome}) for outcome in (Outcome.AHEAD, Outcome.BEHIND))
    for one, beaten in ((ahead, shown.comparator_id), (behind, shown.config_id)):
        found = tie_set(alike.rows, alike.arms, alike.sound_arms, RuinsOf.in_tables(alike), 1 - 1e-9, [one])
        assert not next(member for member in found.members if member.config_id == beaten).in_sound_set


def test_no_report_leaves_a_beaten_comparator_among_the_best() -> None:
    """The set's bounds hold for more configs than the verdict's, so by itself it would keep this baseline."""
    inputs = sweep_inputs({"space": {"loss.beta1": 0.0, "loss.beta2": 1.0}} | on_seeds(confirm=range(10, 18), top_k=1))
    steady = scored(inputs, lambda c, t, values: level_of(c) + 0.001 * ((t.seed + c.number) % 3))
    report = build(without_luck(steady))
    assert report.verdict.outcome is Outcome.BETTER
    beaten = report.verdict.comparison.comparator_id
    assert not next(member for member in report.verdict.ties.members if member.config_id == beaten).in_set


def level_of(config: Config) -> float:
    """A point of the space is far above its comparators."""
    return 0.9 if Role.SPACE in config.roles else 0.6


def test_a_reward_far_below_the_others_is_a_ruin_by_the_worst_of_its_own_scale() -> None:
    inputs = of_rewards(-5.0)
    one = next(trial.id for trial in inputs.trials if trial.stage is Stage.CONFIRM)
    low = replace(inputs.series[one], metrics={**inputs.series[one].metrics})
    low.metrics["eval/reward_mean"] = low.metrics["eval/reward_mean"] * 0 - 4.0
    more = ReportTables(replace(inputs, series={**inputs.series, one: low})).ruined - ReportTables(inputs).ruined
    assert more == {one}


def test_the_axis_has_room_for_the_least_of_a_difference_over_all_runs() -> None:
    places = scale(compared(outcome=Outcome.BETTER, average_low=0.3, average_high=0.9))
    assert 50 < places["all_low"] < 100


def test_a_plan_tells_the_word_of_its_own_seeds_and_configs() -> None:
    seeds = {"seeds": {"tune": [0, 1], "confirm": {"seeds": [*range(10, 16)], "top_k": 2}}}
    spec = SweepSpec.model_validate(SPEC | seeds)
    (said,) = [text for text in plan_warnings(spec, None, guessed=False) if "AHEAD IN SOUND RUNS" in text]
    assert said.startswith("6 confirm seeds: even if no run is ruined, up to 46% may be")


def test_an_interval_of_few_sound_runs_is_that_of_the_averages() -> None:
    ruin = collapsing(sweep_inputs(CONFIRM, advantage=0.12), lambda c, t: confirms(c, t, {10, 11, 12, 13}))
    found = next(one for one in build(ruin).comparisons if one.own.ruined)
    assert found.with_ruined
    assert (found.low, found.high) == (found.average_low, found.average_high)
