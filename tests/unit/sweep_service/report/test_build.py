from dataclasses import replace
from typing import Any

import pytest
import yaml

from sweep_service.report import Report, report_json
from sweep_service.report.build import build
from sweep_service.report.model import Outcome
from sweep_service.report.render.html import render_html
from sweep_service.report.render.markdown import render_markdown
from sweep_service.sweep.records import Config, Role, Stage, SweepState, Trial, TrialState, TrialWarning
from tests.unit.sweep_service.report.report_sweeps import Fate, in_halves, succeed, sweep_inputs
from trainers.config import TrainingConfig


def codes(report: Report) -> set[str]:
    return {caution.code for caution in report.cautions}


def fail_if(condition: Any, state: TrialState = TrialState.FAILED, message: str | None = "out of memory") -> Fate:
    def fate(config: Config, trial: Trial) -> Trial:
        if condition(config, trial):
            return trial.model_copy(update={"state": state, "step": 40, "message": message})
        return succeed(config, trial)

    return fate


def everywhere(report: Report) -> list[str]:
    """The report in all its renderings."""
    return [render_html(report).decode(), render_markdown(report).decode(), report_json(report).decode()]


def test_a_tie_is_called_a_tie() -> None:
    report = build(sweep_inputs({"objective": {"relevant": 0.01}}))
    assert report.verdict.outcome is Outcome.UNDECIDED
    assert report.verdict.sentence.startswith(
        "UNDECIDED: β1=0 β2=1 cannot be told apart from the baseline (β1=0 β2=0): "
    )
    assert report.verdict.sentence.endswith(
        ", 4 confirm seeds. 0 of 4 runs of β1=0 β2=1 collapsed: up to 53 % cannot be excluded."
    )
    assert report.best.label == "β1=0 β2=1"
    assert "not a win" in report.best.why
    assert "UNDERPOWERED" in codes(report)
    assert not report.interim


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


def test_what_trainers_warned_of_is_one_caution_a_code() -> None:
    def fate(config: Config, trial: Trial) -> Trial:
        said = f"0.0{trial.seed} % of the gradient"
        warning = TrialWarning(code="BETAS_NEARLY_INERT", message=said, evidence={}, step=12)
        warns = config.params["loss.beta1"] == 0.5 and trial.stage is Stage.TUNE
        return succeed(config, trial.model_copy(update={"warnings": (warning,)}) if warns else trial)

    report = build(sweep_inputs(fate=fate))
    (caution,) = [caution for caution in report.cautions if caution.code == "BETAS_NEARLY_INERT"]
    assert caution.text == f"2 of {len(report.trials)} trials; β1=0.5 β2=1, seed 0: 0.00 % of the gradient"
    assert caution.trials == [trial.id for trial in report.trials if trial.warnings]
    assert all("BETAS_NEARLY_INERT" in rendering for rendering in everywhere(report))


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


def test_two_confirm_seeds_are_insufficient() -> None:
    spec = {"seeds": {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [10, 11]}}}
    report = build(sweep_inputs(spec, advantage=0.3))
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert "an interval needs at least 3" in report.verdict.sentence
    assert report.verdict.comparison.low is None
    assert "FEW_SEEDS" in codes(report)
    assert all(everywhere(report))


def test_without_a_baseline_there_is_no_verdict() -> None:
    baselines = {"ppo_clip": False, "dapo": False, "matched": False}
    report = build(sweep_inputs({"baselines": baselines}))
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert "no confirmed baseline" in report.verdict.sentence
    assert report.best.confirm is not None
    assert "BASELINE_MISSING" in codes(report)
    assert all(everywhere(report))


def test_dapo_is_the_comparator_where_there_is_no_ppo_clip() -> None:
    baselines = {"ppo_clip": False, "dapo": True, "matched": False}
    report = build(sweep_inputs({"baselines": baselines, "objective": {"relevant": 0.03}}))
    assert report.verdict.sentence.startswith("EQUIVALENT: β1=0 and DAPO differ by less than 0.03")


def test_a_baseline_that_failed_leaves_the_comparison_open() -> None:
    failed = fail_if(lambda config, trial: Role.BASELINE in config.roles and trial.stage is Stage.CONFIRM)
    spec = {"baselines": {"ppo_clip": True, "dapo": False, "matched": False}}
    report = build(sweep_inputs(spec, fate=failed))
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert {"BASELINE_MISSING", "FAILED_TRIALS"} <= codes(report)
    for rendering in everywhere(report):
        assert "out of memory" in rendering


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


def test_a_failed_seed_is_missing_and_said_so() -> None:
    report = build(sweep_inputs(fate=fail_if(lambda config, trial: trial.seed == 12 and config.number == 0)))
    assert report.verdict.comparison.num_seeds == 3
    assert ", 3 confirm seeds without a failure." in report.verdict.sentence
    assert "0 of 4 runs of the baseline (β1=0 β2=0) collapsed and 1 failed" in report.verdict.sentence
    few = next(caution.text for caution in report.cautions if caution.code == "FEW_SEEDS")
    assert "3 of 4 confirm seeds have a result for both" in few


def test_nothing_succeeded() -> None:
    report = build(sweep_inputs(fate=fail_if(lambda config, trial: True), state=SweepState.FAILED, confirmed=False))
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert report.best is None
    assert report.comparisons == []
    assert "FAILED_TRIALS" in codes(report)
    for rendering in everywhere(report):
        assert "no config of the space has a result" in rendering


def test_everything_diverged() -> None:
    diverged = fail_if(lambda config, trial: True, TrialState.DIVERGED, "loss is nan")
    report = build(sweep_inputs(fate=diverged))
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert report.verdict.comparison.difference == 0
    assert {"DIVERGED_TRIALS", "REWARD_COLLAPSE"} <= codes(report)
    assert all(trial.objective == 0 for trial in report.trials)
    assert all(everywhere(report))


def test_one_trial() -> None:
    spec = {
        "space": {"loss.beta1": 0.5},
        "seeds": {"tune": [0]},
        "baselines": {"ppo_clip": False, "dapo": False, "matched": False},
    }
    report = build(sweep_inputs(spec))
    assert report.verdict.outcome is Outcome.EXPLORATORY
    assert "(1 seed)" in report.verdict.sentence
    assert report.configs[0].label == "β1=0.5"
    assert {"NO_CONFIRMATION", "BASELINE_MISSING", "FEW_SEEDS"} <= codes(report)
    assert all(everywhere(report))


def test_a_sweep_that_has_not_begun() -> None:
    def waits(config: Config, trial: Trial) -> Trial:
        return trial.model_copy(update={"state": TrialState.PENDING, "started_at": None, "ended_at": None})

    report = build(sweep_inputs(fate=waits, state=SweepState.QUEUED, confirmed=False))
    assert report.interim
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert "UNFINISHED" in codes(report)
    for rendering in everywhere(report)[:2]:
        assert "Interim report" in rendering


def test_a_running_sweep_is_interim() -> None:
    def halfway(config: Config, trial: Trial) -> Trial:
        if trial.stage is Stage.CONFIRM and trial.seed > 11:
            return trial.model_copy(update={"state": TrialState.RUNNING, "step": 100, "ended_at": None})
        return succeed(config, trial)

    report = build(sweep_inputs(fate=halfway, state=SweepState.RUNNING))
    assert report.interim
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert "2 confirm seeds" in report.verdict.sentence


def test_cancelled_trials_are_counted() -> None:
    cancelled = fail_if(lambda config, trial: trial.seed == 1, TrialState.CANCELLED, None)
    report = build(sweep_inputs(fate=cancelled, state=SweepState.CANCELLED, confirmed=False))
    assert "UNFINISHED" in codes(report)
    assert report.verdict.outcome is Outcome.INSUFFICIENT


def test_the_baseline_is_never_the_best_config_even_if_it_lies_in_the_space() -> None:
    spec = {"space": {"loss.beta1": [0.0, 0.5], "loss.beta2": [0.0, 1.0]}}
    report = build(sweep_inputs(spec, advantage=-0.3))
    rows = {row.id: row for row in report.configs}
    assert Role.BASELINE not in rows[report.best.config_id].roles
    assert report.verdict.outcome is Outcome.WORSE
    assert "prefer that" in report.best.why


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


def test_a_baseline_that_differs_outside_the_space_is_told_apart_by_name() -> None:
    report = build(sweep_inputs({"space": {"loss.beta1": [0.0, 0.5]}, "objective": {"relevant": 0.01}}))
    assert report.verdict.sentence.startswith(
        "UNDECIDED: β1=0 β2=1 cannot be told apart from the baseline (β1=0 β2=0): "
    )
    assert [row.label for row in report.configs if Role.SPACE in row.roles] == ["β1=0 β2=1", "β1=0.5 β2=1"]
