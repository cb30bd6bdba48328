"""How sweeps and trials are said in MLflow's words."""

import json
from typing import get_args

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.report import REPORT_VERSION, report_json
from sweep_service.report.build import build
from sweep_service.store.projection_rows import Chunk
from sweep_service.sweep.links import curves_link, run_link
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import Config, Sweep, SweepState, Trial, TrialState, TrialWarning
from sweep_service.sweep.spec import Objective
from sweep_service.tracking import mlflow_words
from sweep_service.tracking.charts_page import FIRST, OF_CONFIGS, shared_view, sweep_note
from sweep_service.tracking.config_runs import KEYS, config_runs
from sweep_service.tracking.projector import read_report
from sweep_service.tracking.tracker import MetricPoint
from tests import stored_sweeps as sweeps
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from trainers.record.metrics import EVALUATION_METRICS, STEP_METRICS

DRAWN = {"loss.beta1": {"type": "float", "low": 0.0, "high": 1.0}}
NONE = {"ppo_clip": False, "dapo": False}


def records(**changes: object) -> tuple[Sweep, list[Config], list[Trial]]:
    sweep = sweeps.make_sweep(parse_spec(sweeps.SPEC | changes), mlflow_experiment_id="7", mlflow_run_id="parent")
    return sweep, *first_records(sweep.spec, sweep.id)


def test_runs_are_named_by_what_differs() -> None:
    sweep, configs, trials = records(baselines={"dapo": True})
    names = [mlflow_words.trial_name(sweep, trial, config) for trial, config in zip(trials, configs, strict=False)]
    assert names == [
        "s0 baseline β1=0 β2=0 tune",
        "s0 DAPO tune",
        "s0 β1=0 β2=1 tune",
        "s0 β1=0.5 β2=1 tune",
    ]


def test_a_name_begins_with_what_the_space_varies() -> None:
    sweep, configs, _ = records(space={"loss.beta1": [0.5], "optimizer.learning_rate": [1e-5, 2e-5]})
    assert [mlflow_words.label(sweep, config) for config in configs] == [
        "baseline lr=2e-4 β1=0 β2=0",
        "lr=1e-5 β1=0.5 β2=1",
        "lr=2e-5 β1=0.5 β2=1",
    ]


@pytest.mark.parametrize("color", mlflow_words.COLORS)
@pytest.mark.parametrize("page", ["#ffffff", "#11171c"])
def test_a_curve_shows_on_a_white_page_and_on_a_dark_one(color: str, page: str) -> None:
    """The contrast of WCAG 2; text needs 4.5."""

    def luminance(of: str) -> float:
        shares = [int(of[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(color), luminance(page)))
    assert (light + 0.05) / (dark + 0.05) > 1.5


def test_the_tag_config_is_different_for_every_config() -> None:
    sweep, configs, trials = records(space={"loss.epsilon": [0.15, 0.2], "loss.beta1": [0.5], "steps": [16, 32]})
    labels = [mlflow_words.trial_tags(sweep, trials[0], config)["config"] for config in configs]
    assert len(set(labels)) == len(configs) == 5


def test_each_config_has_a_colour_and_a_group_of_its_own() -> None:
    labels = ["baseline β1=0 β2=0", *["β1=0 β2=1"] * 14]
    sweep, [config, *_], _ = records()
    numbered = [config.model_copy(update={"number": number}) for number in range(len(labels))]
    tags = [mlflow_words.child_tags(sweep, "config", 0, *of_config) for of_config in zip(numbered, labels, strict=True)]
    assert [tags[0]["config"], tags[1]["line"]] == ["baseline β1=0 β2=0", "01 β1=0 β2=1"]
    assert len({tag["mlflow.runColor"] for tag in tags}) == len({tag["line"] for tag in tags}) == 15


def test_nested_parameters_become_dotted_names_and_long_values_are_cut() -> None:
    values = {"a": {"b": 0.5, "c": {"d": "text"}}, "e": [1, None], "f": None, "g": {}, "x@y": True, "long": "x" * 1000}
    told = {"a.b": "0.5", "a.c.d": "text", "e": "[1, null]", "f": "null", "g": "{}", "x_y": "true"}
    assert mlflow_words.flat(values) == told | {"long": "x" * (mlflow_words.MAX_PARAM - 1) + "…"}


def test_every_metric_keeps_its_name() -> None:
    for name in [*STEP_METRICS, *EVALUATION_METRICS]:
        assert mlflow_words.metric_key(name) == name
    given = ("pass@8", "corpus/", "/x", "a//b", "a/../b", "./x", "/", "a" * 249 + "/b")
    told = ["pass_8", "corpus", "x", "a/b", "a/__/b", "_/x", "_", "a" * 249]
    assert [mlflow_words.metric_key(name) for name in given] == told


def test_the_main_curves_and_those_of_a_config_are_metrics() -> None:
    assert (
        {*OF_CONFIGS, *get_args(Objective.model_fields["metric"].annotation)}
        <= set(KEYS)
        <= STEP_METRICS.keys() | EVALUATION_METRICS.keys()
    )
    assert set(FIRST) <= set(EVALUATION_METRICS) | mlflow_words.EVERY_UPDATE | mlflow_words.OF_ROLLOUT
    assert set(STEP_METRICS) >= mlflow_words.EVERY_UPDATE


def test_points_keep_their_own_times_and_leave_out_what_is_missing() -> None:
    metrics = {"loss": [0.5, None], "entropy": [1.0, 0.9]}
    chunk = Chunk(id=1, kind="step", steps=[3, 4], times=[10.0014, 11.5], metrics=metrics)
    assert mlflow_words.chunk_points(chunk, 8) == [
        MetricPoint("loss", 0.5, 10001, 3),
        MetricPoint("entropy", 1.0, 10001, 3),
        MetricPoint("entropy", 0.9, 11500, 4),
    ]


@pytest.mark.parametrize(("updates", "reward", "kl"), [(8, [1, 9], [8]), (1, [*range(1, 11)], [*range(1, 11)])])
def test_a_rollouts_metrics_come_with_its_first_update_and_most_others_with_its_last(
    updates: int, reward: list[int], kl: list[int]
) -> None:
    steps = [*range(1, 11)]  # the second rollout is cut short
    values = {key: [0.5] * len(steps) for key in ("reward/mean", "kl/k3", "loss")}
    points = mlflow_words.chunk_points(Chunk(id=1, kind="step", steps=steps, times=[0.0] * 10, metrics=values), updates)
    shown = {key: [point.step for point in points if point.key == key] for key in values}
    assert shown == {"reward/mean": reward, "kl/k3": kl, "loss": steps}


def test_lesser_metrics_have_a_point_a_rollout_and_evaluations_all() -> None:
    steps = list(range(1, 17))
    metrics = {"entropy": [1.0] * 16, "entropy/p10": [float(step) for step in steps]}
    chunk = Chunk(id=1, kind="step", steps=steps, times=[0.0] * 16, metrics=metrics)
    points = mlflow_words.chunk_points(chunk, 8)
    assert [point.step for point in points if point.key == "entropy"] == steps
    assert [(point.step, point.value) for point in points if point.key == "entropy/p10"] == [(8, 8.0), (16, 16.0)]
    evaluation = Chunk(id=2, kind="evaluation", steps=[0, 5], times=[0.0, 5.0], metrics={"eval/new": [0.1, 0.2]})
    assert [point.step for point in mlflow_words.chunk_points(evaluation, 8)] == [0, 5]


def test_closing_figures_are_named_final() -> None:
    _, _, trials = records()
    summary = {"eval/avg_at_k": 0.5, "time/train_s": 20.0, "eval/pass_at_k": None}
    trial = trials[0].model_copy(update={"summary": summary, "ended_at": 2.0})
    assert mlflow_words.final_points(trial, None) == [
        MetricPoint("final/avg_at_k", 0.5, 2000, 0),
        MetricPoint("final/time_train_s", 20.0, 2000, 0),
    ]
    assert mlflow_words.final_points(trial, 0.0)[0] == MetricPoint("final/objective", 0.0, 2000, 0)
    forged = trial.model_copy(update={"summary": {"objective": 99.0, "eval/objective": 98.0}})
    assert mlflow_words.final_points(forged, 0.5) == [MetricPoint("final/objective", 0.5, 2000, 0)]
    assert mlflow_words.final_points(forged, None) == []


def test_warnings_are_a_tag_and_said_in_the_note() -> None:
    _, _, trials = records()
    assert "warnings" not in mlflow_words.progress_tags(trials[0])
    warned = [TrialWarning(code=code, message=f"says {code}", evidence={}, step=1) for code in ("ONE", "TWO")]
    tags = mlflow_words.progress_tags(trials[0].model_copy(update={"warnings": warned, "message": "it failed"}))
    assert tags["warnings"] == "ONE,TWO"
    assert tags["mlflow.note.content"] == "it failed\n\nONE: says ONE\n\nTWO: says TWO"


@pytest.mark.parametrize("state", [*TrialState, *SweepState], ids=repr)
def test_a_run_has_an_end_in_mlflow_when_its_trial_or_sweep_has_ended(state: TrialState | SweepState) -> None:
    assert state.is_over == (mlflow_words.run_status(state) in {"FINISHED", "FAILED", "KILLED"})


@pytest.mark.parametrize(("by_config", "kind"), [(False, "trial"), (True, "config")])
def test_the_view_shows_one_sweep_or_its_configs_own_runs(by_config: bool, kind: str) -> None:
    sweep, _, _ = records()
    view = json.loads(shared_view(sweep, ["a"], by_config=by_config))
    assert view["searchFilter"] == f"tags.kind = '{kind}' AND tags.sweep_id = '{sweep.id}'"
    assert (view["groupBy"] is None) is by_config
    assert {chart["metricSectionId"] for chart in view["compareRunCharts"]} == {view["compareRunSections"][0]["uuid"]}


@pytest.mark.parametrize("by_config", [False, True])
@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, ["entropy", "reward/mean", "eval/avg_at_k"]),
        ({"objective": {"metric": "eval/pass_at_k"}}, ["entropy", "reward/mean", "eval/pass_at_k"]),
        (
            {"benchmarks": {"names": ["aime24", "amc23"], "of": "all"}},
            ["entropy", "benchmark/mean", "reward/mean", "eval/avg_at_k"],
        ),
    ],
)
def test_the_view_begins_with_entropy_benchmarks_reward_and_the_objective(
    by_config: bool, changes: dict[str, object], first: list[str]
) -> None:
    sweep, _, _ = records(**changes)
    charts = json.loads(shared_view(sweep, ["a"], by_config=by_config))["compareRunCharts"]
    assert [chart["metricKey"] for chart in charts][: len(first)] == first


@pytest.mark.parametrize(
    ("changes", "lines", "hidden"),
    [
        ({"space": {"loss.beta1": [0, 0.5, 1]}}, 4, True),
        ({"space": {"loss.beta1": [0, 0.2, 0.4, 0.6, 0.8]}}, 6, False),
        ({"space": {"optimizer.learning_rate": [1e-5, 2e-5, 4e-5]}}, 4, False),  # four, but longer
        ({"space": DRAWN, "search": {"strategy": "tpe", "num_configs": 30}}, 31, False),
        ({"space": DRAWN, "search": {"strategy": "tpe", "num_configs": 1}}, 2, True),
        ({"space": DRAWN, "search": {"strategy": "tpe", "num_configs": 30}, "baselines": NONE}, 30, False),
    ],
)
def test_the_list_of_runs_is_the_legend_where_a_charts_own_has_no_room(
    changes: dict[str, object], lines: int, hidden: bool
) -> None:
    sweep, configs, _ = records(**changes)
    names = mlflow_words.group_names(sweep, configs)
    assert len(names) == lines
    assert json.loads(shared_view(sweep, names))["runListHidden"] is hidden


def test_the_description_names_the_benchmarks() -> None:
    sweep, _, _ = records(benchmarks={"names": ["aime24", "amc23"], "of": "all"})
    assert "the benchmarks aime24, amc23" in sweep_note(sweep, None)
    assert "benchmark" not in sweep_note(records()[0], None)


def test_links_lead_to_mlflow_once_it_knows_the_sweep() -> None:
    sweep, _, _ = records()
    page = f"http://mlflow/#/experiments/7/runs?workflowType=machine_learning&compareRunsMode=CHART&viewStateShareKey={sweep.id}"
    assert curves_link("http://mlflow/", sweep) == page
    assert curves_link(None, sweep) is None
    assert curves_link("http://mlflow", sweep.model_copy(update={"mlflow_experiment_id": None})) is None
    assert run_link("http://mlflow", "abc") == "http://mlflow/#/runs/abc"
    assert run_link("http://mlflow", None) is None


def test_the_description_tells_the_answer_once_there_is_one() -> None:
    sweep, _, _ = records()
    assert sweep_note(sweep, None).startswith(f"Sweep `{sweep.id}`: QUEUED.")
    assert "report.html" not in sweep_note(sweep, None)
    report = build(sweep_inputs())
    note = sweep_note(sweep, report)
    assert note.startswith(f"**{report.verdict.sentence}**")
    assert all(f"`{caution.code}`" in note for caution in report.cautions)
    assert "interim" not in note
    assert "interim" in sweep_note(sweep, report.model_copy(update={"interim": True}))
    failed = sweep.model_copy(update={"message": "the disk is full"})
    assert "the disk is full" in sweep_note(failed, None)


def test_a_run_of_a_config_counts_the_trials_that_trained_and_has_its_own_curve() -> None:
    def fate(config: Config, trial: Trial) -> Trial:
        never = trial.number == 0
        ended = {"state": TrialState.CANCELLED, "step": 0} if never else {"state": TrialState.SUCCEEDED, "step": 240}
        return trial.model_copy(update=ended)

    inputs = sweep_inputs(fate=fate)
    report = build(inputs)
    runs = config_runs(inputs.sweep, {config.id: config for config in inputs.configs}, report, {})
    rows = {row.id: row for row in report.configs}
    planned = {run.tags["config_id"]: sum(rows[run.tags["config_id"]].states.values()) for run in runs}
    missing = {run.tags["config_id"]: planned[run.tags["config_id"]] - int(run.tags["seeds"]) for run in runs}
    assert missing == {row.id: int(row.id == inputs.trials[0].config_id) for row in report.configs}
    assert [run.name for run in runs] == [row.label for row in sorted(report.configs, key=lambda row: row.number)]
    notes = {f"Mean curves of {run.tags['seeds']} trials, from the final report." for run in runs}
    assert {run.tags["mlflow.note.content"] for run in runs} == notes
    entropy = next(curves for curves in report.curves if curves.key == "entropy")
    means = {curve.config_id: [value for value in curve.mean if value is not None] for curve in entropy.configs}
    for run in runs:
        assert [point.value for point in run.points if point.key == "entropy"] == means[run.tags["config_id"]]


def test_a_report_of_another_version_is_no_obstacle() -> None:
    report = build(sweep_inputs())
    assert read_report(report_json(report)) == report
    present = f'"report_version":{REPORT_VERSION}'.encode()
    assert read_report(report_json(report).replace(present, b'"report_version":2')) is None
