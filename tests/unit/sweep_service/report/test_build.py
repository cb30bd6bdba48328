from dataclasses import replace

import pytest
import yaml

from sweep_service.report import Report, report_json
from sweep_service.report.build import build
from sweep_service.report.model import Outcome
from sweep_service.report.render.html import render_html
from sweep_service.report.render.markdown import render_markdown
from sweep_service.sweep.records import Role, Stage, SweepState, TrialState
from tests.unit.sweep_service.report.report_sweeps import in_halves, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import VERDICTS, ending, every
from trainers.config import TrainingConfig


def codes(report: Report) -> set[str]:
    return {caution.code for caution in report.cautions}


def everywhere(report: Report) -> list[str]:
    """The report in all its renderings."""
    return [render_html(report).decode(), render_markdown(report).decode(), report_json(report).decode()]


@pytest.mark.parametrize(("advantage", "outcome"), [(0.08, Outcome.BETTER), (-0.08, Outcome.WORSE)])
def test_a_plain_difference_is_found(advantage: float, outcome: Outcome) -> None:
    report = build(sweep_inputs(advantage=advantage))
    assert report.verdict.outcome is outcome
    assert f" is {outcome.lower()} than the baseline" in report.verdict.sentence
    comparison = report.verdict.comparison
    assert comparison.low < advantage < comparison.high


def test_the_verdict_rests_on_confirm_seeds_alone() -> None:
    report = build(sweep_inputs())
    comparison, rows = report.verdict.comparison, {row.id: row for row in report.configs}
    mine, other = rows[comparison.config_id].confirm, rows[comparison.comparator_id].confirm
    assert [seed.seed for seed in mine.seeds] == [10, 11, 12, 13]
    assert comparison.difference == pytest.approx(mine.mean - other.mean)
    assert comparison.comparator_role is Role.BASELINE
    assert comparison.family == 2


def test_every_candidate_is_compared_with_every_comparator() -> None:
    report = build(sweep_inputs())
    pairs = [(found.label, found.comparator_label) for found in report.comparisons]
    assert pairs == [
        ("β1=0 β2=1", "baseline β1=0 β2=0"),
        ("β1=0.5 β2=1", "baseline β1=0 β2=0"),
        ("β1=0 β2=1", "DAPO"),
        ("β1=0.5 β2=1", "DAPO"),
    ]
    assert report.comparisons[1].outcome is Outcome.WORSE


def test_the_collapsed_config_is_last_and_flagged() -> None:
    report = build(sweep_inputs())
    last = report.configs[-1]
    assert last.label == "β1=1 β2=1"
    assert last.reward_collapsed == 2
    assert last.reward_final < 0.5 * last.reward_peak
    (caution,) = [caution for caution in report.cautions if caution.code == "REWARD_COLLAPSE"]
    assert "β1=1 β2=1: 2 of 2 trials" in caution.text
    assert set(caution.trials) == {trial.id for trial in report.trials if trial.label == last.label}


def test_optimism_is_tune_minus_confirm() -> None:
    best = build(sweep_inputs()).best
    assert best.optimism == pytest.approx(best.tune.mean - best.confirm.mean)


def test_where_trainers_recorded_halves_one_chooses_and_the_other_measures() -> None:
    whole, halves = build(sweep_inputs()), build(in_halves(sweep_inputs()))
    assert (whole.halves, halves.halves) == (False, True)
    assert halves.best is not None
    for report, tune, confirm in ((whole, 0.0, 0.0), (halves, 0.1, -0.1)):
        best = report.best
        assert best.tune.mean == pytest.approx(whole.best.tune.mean + tune if whole.best.tune else None)
        assert best.confirm.mean == pytest.approx(whole.best.confirm.mean + confirm if whole.best.confirm else None)
    first, second = whole.trials[0].evaluation_se, halves.trials[0].evaluation_se
    assert second == pytest.approx(2 * (first or 0))
    assert "other half gave every confirm result" in " ".join(halves.method)
    assert "same validation problems" in " ".join(whole.method)


def test_with_halves_optimism_is_what_the_lead_over_a_comparator_lost() -> None:
    """The harder half lowers the confirm mean of every config, which is no optimism."""
    report = build(in_halves(sweep_inputs()))
    rows = {row.label: row for row in report.configs}
    best, base = report.best, rows["baseline β1=0 β2=0"]
    lost = (best.tune.mean - base.tune.mean) - (best.confirm.mean - base.confirm.mean)
    assert best.optimism == pytest.approx(lost)
    assert "half of the problems, fresh seeds and the other half gave" in best.evidence[2]
    assert "its lead: tune minus confirm" in render_html(report).decode()
    assert "its lead: tune minus confirm" in render_markdown(report).decode()


def test_the_best_yaml_is_the_training_that_was_run() -> None:
    inputs = sweep_inputs()
    best = build(inputs).best
    config = next(config for config in inputs.configs if config.id == best.config_id)
    parsed = TrainingConfig.model_validate(yaml.safe_load(best.yaml))
    assert parsed.model_dump(mode="json") == {**config.training, "seed": 10}
    assert best.command == "OMP_NUM_THREADS=1 python -m trainers best.yaml seed=10"


def test_equal_inputs_give_equal_bytes() -> None:
    first, second = sweep_inputs(), sweep_inputs()
    assert first.digest == second.digest
    assert everywhere(build(first)) == everywhere(build(second))


def test_other_inputs_have_another_digest_but_a_new_lease_has_not() -> None:
    inputs = sweep_inputs()
    epoch = replace(inputs, sweep=inputs.sweep.model_copy(update={"epoch": 7}))
    fewer = replace(inputs, trials=inputs.trials[:-1])
    assert epoch.digest == inputs.digest
    assert fewer.digest != inputs.digest


def test_json_is_the_whole_report() -> None:
    report = build(sweep_inputs())
    assert Report.model_validate_json(report_json(report)) == report


def test_all_renderings_carry_the_same_numbers() -> None:
    report = build(sweep_inputs())
    comparison = report.verdict.comparison
    figures = f"[{comparison.low:+.3f}, {comparison.high:+.3f}]"
    for rendering in everywhere(report):
        assert figures in rendering


def test_without_a_confirm_stage_it_is_exploratory() -> None:
    report = build(sweep_inputs({"seeds": {"tune": [0, 1, 2]}}, advantage=0.2))
    assert report.verdict.outcome is Outcome.EXPLORATORY
    assert report.verdict.comparison is None
    assert report.best.tune.low is None  # an interval on the seeds that chose it would be too high
    assert "NO_CONFIRMATION" in codes(report)
    assert all(rendering for rendering in everywhere(report))


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
    assert "UNFINISHED" in codes(report)
    for rendering in everywhere(report)[:2]:
        assert "Interim report" in rendering


def test_a_running_sweep_is_interim() -> None:
    fate = ending(lambda _, t: t.stage is Stage.CONFIRM and t.seed > 11, TrialState.RUNNING, step=100, ended_at=None)
    report = build(sweep_inputs(fate=fate, state=SweepState.RUNNING))
    assert report.interim
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert "2 confirm seeds" in report.verdict.sentence


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ("two confirm seeds", "an interval needs at least 3"),
        ("no baseline", "no confirmed baseline"),
        ("nothing succeeded", "no config of the space has a result"),
        ("the baseline failed on every confirm seed", "out of memory"),
        ("every trial diverged", "loss is nan"),
        ("one trial", "(1 seed)"),
    ],
)
def test_a_report_with_little_to_say_says_it_in_all_its_renderings(world: str, words: str) -> None:
    for rendering in everywhere(build(VERDICTS[world]())):
        assert words in rendering


def test_a_matched_baseline_is_a_comparator_of_its_own_where_more_than_betas_vary() -> None:
    spec = {"space": {"loss.beta1": 0.0, "loss.beta2": 1.0, "optimizer.learning_rate": [1e-4, 3e-4]}}
    report = build(sweep_inputs(spec))
    roles = {comparison.comparator_role for comparison in report.comparisons}
    assert roles == {Role.BASELINE, Role.DAPO, Role.MATCHED}
    assert any("lr=3e-4" in row.label for row in report.configs)


def test_samples_and_versions_are_optional() -> None:
    inputs = replace(sweep_inputs(), versions={}, mlflow_url=None)
    report = build(inputs)
    assert report.sweep.mlflow_url is None
    assert all(trial.mlflow_url is None for trial in report.trials)
    assert all(everywhere(report))
