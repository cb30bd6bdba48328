"""Missing runs: those that one config of a pair has more than the other may be its worst ones."""

from dataclasses import replace

import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Outcome, TrialRow, Verdict
from sweep_service.report.statistics.differences import Arm
from sweep_service.report.verdict.ruin import RuinsOf, ended_runs
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Stage, Trial
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import CONFIRM, without_luck

LOST = {"state": TrialState.FAILED, "ending": Ending.LOST}


def without(inputs: ReportInputs, config_id: str, seeds: set[int], **end: object) -> ReportInputs:
    """Return a sweep in which confirm runs of one config have ended otherwise, without a result."""
    gone = {
        trial.id: trial.model_copy(update=end)
        for trial in inputs.trials
        if (trial.config_id, trial.stage) == (config_id, Stage.CONFIRM) and trial.seed in seeds
    }
    series = {id_: series for id_, series in inputs.series.items() if id_ not in gone}
    return replace(inputs, trials=tuple(gone.get(trial.id, trial) for trial in inputs.trials), series=series)


@pytest.mark.parametrize(
    ("end", "missing"),
    [
        (LOST, 2),
        ({"state": TrialState.DISCARDED, "ending": Ending.DISCARDED}, 2),
        ({"state": TrialState.CANCELLED, "ending": Ending.CANCELLED}, 2),
        ({"state": TrialState.STOPPED, "ending": Ending.STOPPED}, 2),  # before its first evaluation
        ({"state": TrialState.FAILED, "ending": Ending.CRASHED}, 0),  # which counts as ruined
        ({"state": TrialState.CANCELLED, "ending": Ending.CANCELLED, "attempts": 0}, 0),
        ({"state": TrialState.RUNNING, "ending": None}, 0),
        ({"state": TrialState.PENDING, "ending": None, "attempts": 0}, 0),
    ],
)
def test_a_run_that_began_and_was_left_out_is_missing(end: dict[str, object], missing: int) -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.12)
    found = build(inputs).verdict.comparison
    report = build(without(inputs, found.config_id, {10, 11}, **end))
    own = next(one.own for one in report.comparisons if one.config_id == found.config_id)
    assert (own.missing, own.failed) == (missing, 2 if end.get("ending") is Ending.CRASHED else 0)


def test_a_lead_with_missing_runs_has_to_hold_with_the_worst_in_their_places() -> None:
    arms = [Arm("a", {1: 0.7, 2: 0.6, 3: 0.8}), Arm("b", {1: 0.6, 2: 0.6, 3: 0.6, 4: 0.6})]
    rows = [run(id_, seed) for id_ in "ab" for seed in (1, 2, 3)]
    one_of_a = [*rows, run("a", 4, missing=True), run("b", 4)]
    ruins = RuinsOf(one_of_a, arms, 0.0)
    assert ruins.sound(("a", "b"), (0.05, 0.15)) == pytest.approx((0.05 - 0.1 / 4, 0.15))  # mean 0.1, lowest 0
    assert ruins.sound(("b", "a"), (-0.15, -0.05)) == pytest.approx((-0.15, -0.05 + 0.1 / 4))
    equally = RuinsOf([*one_of_a, run("b", 5, missing=True)], arms, 0.0)
    assert equally.sound(("a", "b"), (0.05, 0.15)) == (0.05, 0.15)


def test_missing_runs_count_as_ruined_in_averages() -> None:
    arms = [Arm(id_, dict.fromkeys(range(10), 0.6)) for id_ in "ab"]
    rows = [run(id_, seed) for id_ in "ab" for seed in range(10)]
    full = RuinsOf(rows, arms, 0.0).average(("a", "b"), (0.0, 0.0), 0.05, among_all=False)
    gone = RuinsOf([*rows, run("a", 10, missing=True)], arms, 0.0)
    ruined = RuinsOf([*rows, run("a", 10, failed_by_itself=True)], arms, 0.0)
    bounds = gone.average(("a", "b"), (0.0, 0.0), 0.05, among_all=False)
    assert bounds == ruined.average(("a", "b"), (0.0, 0.0), 0.05, among_all=False)
    assert bounds[0] < full[0]
    assert gone.average(("b", "a"), (0.0, 0.0), 0.05, among_all=False)[1] == -bounds[0]


def test_the_sentence_counts_missing_runs() -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.12)
    whole = build(inputs).verdict
    found = whole.comparison
    lost = build(without(inputs, found.config_id, {10}, **LOST)).verdict
    assert f" 1 of 6 runs of {found.label} is missing; it may be its worst one, which the interval allows for." in (
        lost.sentence
    )
    both = without(without(inputs, found.config_id, {10, 11}, **LOST), found.comparator_id, {12}, **LOST)
    assert f" 2 of 6 runs of {found.label} are missing, 1 more than of the baseline" in build(both).verdict.sentence
    even = without(without(inputs, found.config_id, {10}, **LOST), found.comparator_id, {10}, **LOST)
    assert "missing" not in build(even).verdict.sentence


@pytest.mark.parametrize("lost", [1, 3])
def test_the_seeds_that_the_report_asks_for_decide_the_averages_with_lost_runs_too(lost: int) -> None:
    asked = seeds_with_lost(6, lost, look=1)
    assert asked.outcome is Outcome.AHEAD
    seeds = asked.next.more_seeds
    assert [seeds_with_lost(6 + more, lost, look=2).outcome for more in (seeds // 2, seeds)] == [
        Outcome.AHEAD,
        Outcome.BETTER,
    ]


def seeds_with_lost(seeds: int, lost: int, look: int) -> Verdict:
    """Return the verdict on a sweep with so many confirm seeds, on the first of which runs of its best were lost."""
    inputs = without_luck(sweep_inputs(on_seeds(confirm=range(10, 10 + seeds)), advantage=0.3))
    best = build(inputs).verdict.comparison.config_id
    return build(replace(without(inputs, best, {*range(10, 10 + lost)}, **LOST), looks=look)).verdict


def run(config_id: str, seed: int, **more: object) -> TrialRow:
    objective = None if more else 0.6
    return TrialRow.model_construct(
        id=f"{config_id}{seed}", config_id=config_id, stage=Stage.CONFIRM, objective=objective, **more
    )


def test_only_confirm_runs_are_missing() -> None:
    tuned = TrialRow.model_construct(id="t", config_id="a", stage=Stage.TUNE, objective=None, missing=True)
    assert ended_runs([run("a", 1), tuned], ["a"], Stage.CONFIRM).missing == 0


def pretend(inputs: ReportInputs, trial: Trial, value: float) -> ReportInputs:
    series = inputs.series[trial.id]
    metrics = {name: array * 0 + value if name == "eval/avg_at_k" else array for name, array in series.metrics.items()}
    return replace(inputs, series={**inputs.series, trial.id: replace(series, metrics=metrics)})


def test_a_lead_that_rests_on_what_was_discarded_is_undecided() -> None:
    inputs = sweep_inputs(CONFIRM, advantage=0.12)
    found = build(inputs).verdict.comparison
    own = [one for one in inputs.trials if one.config_id == found.config_id and one.stage is Stage.CONFIRM]
    others = {t.seed: t for t in inputs.trials if t.config_id == found.comparator_id and t.stage is Stage.CONFIRM}
    for place, trial in enumerate(own):
        inputs = pretend(inputs, trial, 0.64 + 0.004 * (place % 2) - 0.03 * (place == 5))
        inputs = pretend(inputs, others[trial.seed], 0.61)
    reports = [build(one) for one in (inputs, without(inputs, found.config_id, {own[0].seed, own[1].seed}, **LOST))]
    pairs = [next(one for one in report.comparisons if one.config_id == found.config_id) for report in reports]
    assert [(one.outcome, one.low > 0) for one in pairs] == [(Outcome.AHEAD_HERE, True), (Outcome.UNDECIDED, False)]
