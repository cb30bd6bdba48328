from dataclasses import replace

import pytest

from sweep_service.report import Report, report_json
from sweep_service.report.build import build
from sweep_service.report.model import Outcome
from sweep_service.report.render.html import render_html
from sweep_service.report.render.markdown import render_markdown
from sweep_service.sweep.records import SweepState, TrialState
from tests.unit.sweep_service.report.report_sweeps import in_halves, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import VERDICTS, ending, every


def everywhere(report: Report) -> list[str]:
    """The report in all its renderings."""
    return [render_html(report).decode(), render_markdown(report).decode(), report_json(report).decode()]


def test_every_candidate_is_compared_with_every_comparator() -> None:
    report = build(sweep_inputs())
    pairs = [(found.label, found.comparator_label) for found in report.comparisons]
    assert pairs == [
        ("β1=0 β2=1", "baseline β1=0 β2=0"),
        ("β1=0.5 β2=1", "baseline β1=0 β2=0"),
        ("β1=0 β2=1", "DAPO"),
        ("β1=0.5 β2=1", "DAPO"),
    ]
    assert report.comparisons[1].outcome is Outcome.BEHIND_HERE


def test_with_halves_optimism_is_what_the_lead_over_a_comparator_lost() -> None:
    """The harder half lowers the confirm mean of every config, which is no optimism."""
    whole, report = build(sweep_inputs()), build(in_halves(sweep_inputs()))
    assert (whole.halves, report.halves) == (False, True)
    assert "same validation problems" in " ".join(whole.method)
    assert "other half gave every confirm result" in " ".join(report.method)
    rows = {row.label: row for row in report.configs}
    best, base = report.best, rows["baseline β1=0 β2=0"]
    lost = (best.tune.mean - base.tune.mean) - (best.confirm.mean - base.confirm.mean)
    assert best.optimism == pytest.approx(lost)
    for rendering in everywhere(report)[:2]:
        assert "its lead: tune minus confirm" in rendering


def test_equal_inputs_give_equal_bytes() -> None:
    first, second = sweep_inputs(), sweep_inputs()
    assert first.digest == second.digest
    assert everywhere(build(first)) == everywhere(build(second))


@pytest.mark.parametrize(("scale", "shown"), [(1.0, False), (0.5, True)])
def test_the_mean_reward_is_shown_where_it_is_another_number(scale: float, shown: bool) -> None:
    inputs = sweep_inputs({"objective": {"metric": "eval/reward_mean", "diverged": -1}}, confirmed=False)
    series = {
        id_: replace(one, metrics={**one.metrics, "eval/reward_mean": scale * one.metrics["eval/avg_at_k"]})
        for id_, one in inputs.series.items()
    }
    report = build(replace(inputs, series=series))
    assert report.objective.startswith("mean reward on held-out")
    assert "A diverged trial counts -1" in report.method[1]
    assert bool(report.curves_of("eval/reward_mean")) == shown
    tuned = {trial.id: trial.objective for trial in report.trials}
    last = series[report.trials[0].id].metrics["eval/reward_mean"][-3:]
    assert tuned[report.trials[0].id] == pytest.approx(sum(last) / 3)


def test_a_sweep_that_has_not_begun() -> None:
    waits = ending(every, TrialState.PENDING, started_at=None, ended_at=None)
    report = build(sweep_inputs(fate=waits, state=SweepState.QUEUED, confirmed=False))
    assert report.interim
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert "UNFINISHED" in {caution.code for caution in report.cautions}
    for rendering in everywhere(report)[:2]:
        assert "Interim report" in rendering


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ("two confirm seeds", "an interval needs at least 3"),
        ("no baseline", "no confirmed baseline"),
        ("nothing succeeded", "o config of the space has a result"),
        ("the baseline failed on every confirm seed", "out of memory"),
        ("every trial diverged", "loss is nan"),
        ("one trial", "(1 seed)"),
    ],
)
def test_a_report_with_little_to_say_says_it_in_all_its_renderings(world: str, words: str) -> None:
    for rendering in everywhere(build(VERDICTS[world]())):
        assert words in rendering


def test_samples_and_versions_are_optional() -> None:
    inputs = replace(sweep_inputs(), versions={}, mlflow_url=None)
    report = build(inputs)
    assert report.sweep.mlflow_url is None
    assert all(trial.mlflow_url is None for trial in report.trials)
    assert all(everywhere(report))
