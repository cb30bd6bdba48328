"""From a probe's figures to the cost of a sweep."""

from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.cost import Measured, above_budget, costliest, probe_shape, shapes, sweep_cost, trial_seconds
from sweep_service.sweep.plan import baselines, first_points, make_plan, stage_counts
from sweep_service.sweep.spec import Resources, SweepSpec
from trainers.config import TrainingConfig, with_params
from trainers.cost.cost_figures import CostFigures

FIGURES = CostFigures(
    device="NVIDIA H100",
    device_memory_mib=81559,
    processes=1,
    prompt_tokens=100,
    completion_tokens=900,
    eval_completion_tokens=900,
    start_s=30,
    sampled_completions=64,
    sampling_s=60,
    scored_completions=48,
    scoring_s=6,
    minibatch_completions=16,
    update_s=5,
    updates=3,
    validation_problems=10,
    evaluated_completions=40,
    evaluation_s=20,
    checkpoint_s=7,
    checkpoint_bytes=4 << 30,
    model_bytes=1 << 30,
    peak_mib={phase: 10000 * (place + 1) for place, phase in enumerate(("loading", "scoring", "sampling"))}
    | {"update": 60000, "evaluation": 25000, "checkpoint": 40000},
)
AT = 1_795_000_000.0
MEASURED = Measured(FIGURES, AT)
SPEC: dict[str, Any] = {
    "name": "real",
    "training": {
        "steps": 16,
        "rollout": {
            "prompts_per_rollout": 8,
            "completions_per_prompt": 8,
            "prompts_per_minibatch": 2,
            "max_completion_tokens": 900,
        },
        "device_batch": 8,
        "evaluation": {"every_steps": 8, "samples_per_problem": 4, "pass_k": 2, "probe_completions": 0},
        "checkpoint_every_rollouts": 2,
    },
    "space": {"loss.beta1": [0, 0.5], "loss.beta2": 1},
    "seeds": {"tune": [0, 1]},
    "baselines": {"dapo": False},
    "resources": {"gpus": 2, "cpus": 4, "max_parallel": 4},
}


def spec(**changes: Any) -> SweepSpec:
    return parse_spec(SPEC | changes)


def training(**changes: Any) -> SweepSpec:
    """The spec with dotted names of the training configuration changed; a dot is two underscores."""
    params = {name.replace("__", "."): value for name, value in changes.items()}
    return spec(training=with_params(SPEC["training"], params))


def test_every_phase_is_its_share_of_the_probe_times_how_often_it_comes() -> None:
    assert trial_seconds(spec().base, FIGURES) == pytest.approx(
        {
            "start": 30,
            "sampling": 4 * 60,  # rollouts of 64 completions
            "scoring": 4 * 6 * 64 / 48,
            "updates": 16 * 5,
            "evaluations": 3 * 20,  # before the first update, after 8 and 16: 40 completions each
            "checkpoints": 2 * 7,
        }
    )


@pytest.mark.parametrize(
    ("changes", "phase", "factor"),
    [
        ({"rollout__max_completion_tokens": 450}, "sampling", 0.5),
        ({"rollout__max_completion_tokens": 450}, "updates", 550 / 1000),  # prompts stay as long
        ({"rollout__max_completion_tokens": 450}, "evaluations", 0.5),
        ({"evaluation__max_completion_tokens": 1800}, "evaluations", 2),
        ({"evaluation__samples_per_problem": 8}, "evaluations", 2),
        ({"evaluation__probe_completions": 40}, "evaluations", 4 / 3),
        ({"rollout__prompts_per_minibatch": 4}, "updates", 2),
        ({"rollout__dynamic_sampling": {"prompts_per_round": 16, "max_rounds": 2}}, "sampling", 4),
        ({"rollout__dynamic_sampling": {"prompts_per_round": 16, "max_rounds": 2}}, "scoring", 1),
        ({"steps": 32}, "sampling", 2),
        ({"steps": 20}, "checkpoints", 1.5),  # the last step is saved, too
    ],
)
def test_what_differs_from_the_probe_is_scaled(changes: dict[str, Any], phase: str, factor: float) -> None:
    before = trial_seconds(spec().base, FIGURES)[phase]
    assert trial_seconds(training(**changes).base, FIGURES)[phase] == pytest.approx(factor * before)


def cost_of(spec: SweepSpec) -> Any:
    trainings = [point.training for _, point in first_points(spec, baselines(spec))]
    return sweep_cost(spec, MEASURED, trainings, stage_counts(spec))


def test_a_sweep_is_all_its_trials_times_their_gpus() -> None:
    cost, trial_s = cost_of(spec()), 30 + 240 + 32 + 80 + 60 + 14
    assert cost.trial_hours == pytest.approx(trial_s / 3600)
    assert cost.hours == pytest.approx(6 * trial_s * 2 / 3600)  # 3 configs x 2 seeds, 2 GPUs each
    assert cost.wall_hours == pytest.approx(2 * trial_s / 3600)  # 6 trials, 4 at a time
    assert sum(part.share for part in cost.phases) == pytest.approx(1)
    assert cost.basis.endswith("on NVIDIA H100: 3 updates at full length")


def test_confirm_trials_and_proposed_configs_count_too() -> None:
    confirmed = spec(seeds={"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [5, 6]}})
    trials = sum(stage_counts(confirmed))
    assert cost_of(confirmed).hours == pytest.approx(trials / 6 * cost_of(spec()).hours)
    space = {"loss.beta1": {"type": "float", "low": 0, "high": 1}}
    proposing = spec(space=space, search={"strategy": "random", "num_configs": 5})
    assert cost_of(proposing).hours == pytest.approx((1 + 5) * 2 / 6 * cost_of(spec()).hours)


def test_the_most_expensive_point_is_probed_and_cheaper_ones_cost_less() -> None:
    lengths = spec(space={"rollout.max_completion_tokens": [300, 900], "loss.beta1": [0, 0.5]})
    assert costliest(lengths).rollout.max_completion_tokens == 900
    assert shapes(lengths) == 2
    assert cost_of(lengths).hours < cost_of(spec()).hours * stage_counts(lengths).tune / 6
    assert any("differ in lengths" in text for text in make_plan(lengths, None, MEASURED).warnings)
    assert shapes(spec()) == 1


def test_a_reference_model_is_measured_where_a_point_has_one() -> None:
    varied = spec(space={"terms.kl.coefficient": [0.01, 0], "loss.beta1": [0, 0.5]})
    assert costliest(varied).terms.kl.coefficient == 0.01
    assert shapes(varied) == 2
    unused = training(terms__kl__coefficient=0.0)
    assert probe_shape(unused.base, unused.resources) == probe_shape(spec().base, spec().resources)


SHAPING: dict[str, Any] = {
    "task.largest": 49,
    "model.hidden_size": 32,
    "rollout.prompts_per_rollout": 16,
    "rollout.completions_per_prompt": 4,
    "rollout.prompts_per_minibatch": 4,
    "rollout.max_completion_tokens": 901,
    "rollout.sampling_batch": 32,
    "rollout.engine": {"name": "vllm"},
    "rollout.dynamic_sampling": {"prompts_per_round": 16, "max_rounds": 2},
    "compute.gradient_checkpointing": True,
    "evaluation.max_completion_tokens": 450,
    "evaluation.sampling_batch": 64,
    "terms.kl.coefficient": 0.1,
    "device_batch": 4,
}
"""Settings on which time and memory depend, each with another value than that of `SPEC`."""
SHAPELESS: dict[str, Any] = {
    "loss.beta1": 1,
    "critic": {},
    "advantage.normalize_std": False,
    "aggregation.denominator": "active",
    "rollout.temperature": 0.9,
    "rollout.top_p": 1.0,  # no other value is allowed
    "rollout.overlong": {"cache_tokens": 100},
    "optimizer.learning_rate": 1e-5,
    "evaluation.every_steps": 4,
    "evaluation.samples_per_problem": 8,
    "evaluation.pass_k": 1,
    "evaluation.temperature": 0.9,
    "evaluation.top_p": 0.9,
    "evaluation.shown_samples": 4,
    "evaluation.probe_completions": 16,
    "steps": 64,
    "checkpoint_every_rollouts": 1,
    "kept_checkpoints": 1,
    "keep_best": True,
    "seed": 1,
}
RESOURCES = Resources(cpus=4, gpus=2, processes=2, max_parallel=4)
OTHER_RESOURCES: dict[str, Any] = {"cpus": 3, "gpus": 4, "processes": 1, "max_parallel": 3}


def test_each_setting_on_which_time_and_memory_depend_changes_the_shape_and_no_other_one() -> None:
    def shape(name: str, value: Any) -> str:
        of_engine = {"model": {"name": "pretrained", "model": "some"}} if name == "rollout.engine" else {}
        return probe_shape(TrainingConfig.model_validate(with_params(given | of_engine, {name: value})), RESOURCES)

    given, names = SPEC["training"], SHAPING.keys() | SHAPELESS.keys()
    assert {name.partition(".")[0] for name in names} == TrainingConfig.model_fields.keys()
    for part in ("rollout", "evaluation"):
        fields = type(getattr(spec().base, part)).model_fields
        assert {name.partition(".")[2] for name in names if name.startswith(part)} == fields.keys()
    plain = probe_shape(spec().base, RESOURCES)
    assert [name for name, value in SHAPELESS.items() if shape(name, value) != plain] == []
    assert len({shape(name, value) for name, value in SHAPING.items()} - {plain}) == len(SHAPING)


@pytest.mark.parametrize("field", Resources.model_fields)
def test_each_resource_changes_the_shape_but_the_number_of_trials_at_a_time(field: str) -> None:
    changed = RESOURCES.model_copy(update={field: OTHER_RESOURCES[field]})
    same = probe_shape(spec().base, changed) == probe_shape(spec().base, RESOURCES)
    assert same == (field == "max_parallel")


def test_a_shape_stays_when_its_spec_is_stored() -> None:
    cpus = spec(resources={"cpus": 1})
    for one in (spec(), cpus):
        stored = SweepSpec.model_validate_json(one.model_dump_json())
        assert probe_shape(stored.base, stored.resources) == probe_shape(one.base, one.resources)


def test_a_plan_counts_with_trials_before_probes_before_the_guess() -> None:
    earlier = make_plan(spec(), 2.0, MEASURED)
    probed, guessed = make_plan(spec(), None, MEASURED), make_plan(spec(), None)
    assert [earlier.basis, guessed.basis] == [
        "earlier trials of the same shape",
        "the shipped guess for the tiny policy",
    ]
    assert probed.basis.startswith("probe of ")
    assert probed.cost is not None
    assert (probed.hours, probed.wall_hours) == (probed.cost.hours, probed.cost.wall_hours)
    assert probed.seconds_per_step * 16 == pytest.approx(probed.cost.trial_hours * 3600)
    assert earlier.cost == probed.cost
    assert guessed.cost is None


def test_a_sweep_that_passes_its_budget_at_full_length_does_not_begin() -> None:
    hours = cost_of(spec()).hours
    enough = spec(budget={"max_gpu_hours": hours * 1.01, "max_trial_hours": 0.13})
    assert above_budget(enough, cost_of(enough), 0) is None
    message = above_budget(enough, cost_of(enough), 0.02 * hours) or ""
    assert "more than budget.max_gpu_hours" in message
    assert "probe: off" in message
    assert above_budget(spec(), cost_of(spec()), 1e9) is None


def test_a_trial_counts_as_no_longer_than_it_may_be() -> None:
    cost = cost_of(spec(budget={"max_trial_hours": 0.01}))
    assert cost.hours_within_limit == pytest.approx(6 * 0.01 * 2)
    assert cost.hours == cost_of(spec()).hours


def test_disk_is_that_of_trials_that_ended_and_of_those_that_run() -> None:
    assert cost_of(spec()).disk_gib == pytest.approx(6 * 1 + 4 * 3 * 4)  # models; 2 checkpoints and one being written


def test_models_that_wait_to_be_measured_take_disk() -> None:
    seeds = {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [5, 6]}}
    plain = spec(seeds=seeds)
    trials = stage_counts(plain)

    def more(**benchmarks: Any) -> float:
        measured = spec(seeds=seeds, benchmarks={"names": ["arithmetic"], **benchmarks})
        return cost_of(measured).disk_gib - cost_of(plain).disk_gib

    assert more() == more(at=[16]) == 0  # a trial's last model is there anyway
    assert more(at=[4, 8, 16]) == pytest.approx(2 * trials.confirm)
    assert more(at=[4, 8, 16], of="all") == pytest.approx(2 * sum(trials))
