"""One training run in this process: its record, and that it can be repeated, resumed and looked at without harm."""

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tests.integration.trainers.trainer_runs import SMALL, Run, run, run_so_far, small_config
from tests.unit.trainers.tasks.chats import add_dataset
from trainers.config import TrainingConfig, WordProblemsTask
from trainers.errors import CheckpointError, ConfigError
from trainers.export import export
from trainers.record.metrics import EVALUATION_METRICS, STEP_METRICS, SUMMARY_METRICS

LATER = [pytest.mark.long, pytest.mark.wires]


@pytest.fixture(scope="module")
def straight(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """32 updates without a break."""
    return run(small_config(steps=32), tmp_path_factory.mktemp("straight"), cache)


def assert_same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def test_events_tell_the_run_from_start_to_end(straight: Run) -> None:
    assert straight.outcome == "SUCCEEDED"
    (started,) = straight.of("started")
    assert started["config"] == small_config(steps=32).model_dump(mode="json")
    assert started["versions"].keys() == {"hardware", "python", "torch", "transformers", "trl"}
    assert started["resumed_from_step"] is None
    assert straight.events[0] is started
    assert [event["step"] for event in straight.of("step")] == list(range(1, 33))
    assert [event["step"] for event in straight.of("evaluation")] == [0, 8, 16, 24, 32]
    assert [event["step"] for event in straight.of("samples")] == [0, 8, 16, 24, 32]
    assert [event["step"] for event in straight.of("checkpoint")] == [8, 16, 24, 32]
    assert {path.name for path in straight.output.glob("step-*")} == {"step-24", "step-32"}
    last = straight.events[-1]
    assert (last["type"], last["outcome"], last["step"]) == ("finished", "SUCCEEDED", 32)
    assert last["summary"].keys() == SUMMARY_METRICS.keys()


def test_every_metric_of_the_table_is_emitted_and_no_other(straight: Run) -> None:
    for event in straight.of("step"):
        assert event["metrics"].keys() == STEP_METRICS.keys()
    for event in straight.of("evaluation"):
        assert event["metrics"].keys() == EVALUATION_METRICS.keys()


def test_ratios_leave_one_only_after_the_first_update_of_a_rollout(straight: Run) -> None:
    for event in straight.of("step"):
        metrics = event["metrics"]
        fresh = event["step"] % 4 == 1
        assert (metrics["time/generation_s"] > 0) == fresh
        assert math.isclose(metrics["ratio/max"], 1, rel_tol=1e-4) == fresh
    assert sum(event["metrics"]["share/na_lp"] for event in straight.of("step")) > 0


def test_tokens_add_up(straight: Run) -> None:
    steps = [event["metrics"] for event in straight.of("step")]
    assert steps[-1]["tokens/total"] == sum(step["tokens/step"] for step in steps)
    rollout = steps[:4]
    assert sum(step["tokens/step"] for step in rollout) / 64 == pytest.approx(rollout[0]["completion/length_mean"])


def test_resuming_continues_bit_for_bit(
    straight: Run, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(small_config(steps=16), tmp_path / "first", cache)
    capsys.readouterr()
    second = run(small_config(steps=32), tmp_path / "second", cache, resume_from=first.output / "step-16")
    shown = [text for text in capsys.readouterr().err.split("\r") if text.startswith("training:")]
    assert [text.partition("| ")[2].split()[0] for text in (shown[0], shown[-1])] == ["16/32", "32/32"]
    assert second.of("started")[0]["resumed_from_step"] == 16
    assert [event["step"] for event in second.of("evaluation")] == [24, 32]
    assert second.metrics() == straight.metrics(after=16)
    assert [e["metrics"] for e in second.of("evaluation")] == [e["metrics"] for e in straight.of("evaluation")][3:]
    assert_same_weights(second.weights(32), straight.weights(32))
    assert second.events[-1]["summary"]["eval/avg_at_k_last3"] == straight.events[-1]["summary"]["eval/avg_at_k_last3"]


def test_resuming_after_the_last_update_only_ends_the_run(straight: Run, cache: Path, tmp_path: Path) -> None:
    rest = run(small_config(steps=32), tmp_path, cache, resume_from=straight.output / "step-32")
    assert [event["type"] for event in rest.events] == ["started", "data", "finished"]
    assert rest.of("data")[0] == {**straight.of("data")[0], "time": rest.of("data")[0]["time"]}
    ends = [
        {**one.events[-1], "time": 0, "summary": one.events[-1]["summary"] | {"time/train_s": 0}}
        for one in (straight, rest)
    ]
    assert ends[0] == ends[1]


def test_evaluating_does_not_change_training(straight: Run, cache: Path, tmp_path: Path) -> None:
    often = run(
        small_config(
            steps=32, evaluation__every_steps=1, evaluation__samples_per_problem=7, evaluation__temperature=0.5
        ),
        tmp_path,
        cache,
    )
    assert len(often.of("evaluation")) == 33
    assert often.metrics() == straight.metrics()
    assert_same_weights(often.weights(32), straight.weights(32))


@pytest.mark.parametrize("device_batch", [16, 8])
def test_a_stop_saves_after_the_update_and_the_rest_of_the_rollout_follows(
    device_batch: int, cache: Path, tmp_path: Path
) -> None:
    config = small_config(steps=16, device_batch=device_batch)
    whole = run(config, tmp_path / "whole", cache)
    output = tmp_path / "stopped"
    stopped = run(config, output, cache, stopping=lambda: run_so_far(output).steps_done >= 6)
    assert stopped.outcome == stopped.events[-1]["outcome"] == "STOPPED"
    assert stopped.events[-1]["step"] == 7  # asked between the end of step 6's record and the next
    checkpoint = Path(stopped.of("checkpoint")[-1]["path"])
    assert checkpoint == stopped.output / "step-7"
    rest = run(config, tmp_path / "rest", cache, resume_from=checkpoint)
    assert rest.metrics() == whole.metrics(after=7)
    assert_same_weights(rest.weights(16), whole.weights(16))


def test_a_stop_while_sampling_saves_the_state_before_it(cache: Path, tmp_path: Path) -> None:
    config = small_config(steps=16)
    whole = run(config, tmp_path / "whole", cache)
    output = tmp_path / "stopped"
    stopped = run(config, output, cache, stopping=lambda: run_so_far(output).steps_done >= 8)
    assert (stopped.outcome, stopped.events[-1]["step"]) == ("STOPPED", 8)
    assert [event["step"] for event in stopped.of("evaluation")] == [0]  # that of step 8 was interrupted
    rest = run(config, tmp_path / "rest", cache, resume_from=output / "step-8")
    assert [event["step"] for event in rest.of("evaluation")] == [8, 16]
    assert [e["metrics"] for e in rest.of("evaluation")] == [e["metrics"] for e in whole.of("evaluation")][1:]
    assert rest.metrics() == whole.metrics(after=8)
    assert_same_weights(rest.weights(16), whole.weights(16))


def test_a_stop_while_sampling_saves_no_step_twice(straight: Run, cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "stopped"
    stopped = run(small_config(steps=32), output, cache, stopping=lambda: (output / "step-8").exists())
    assert (stopped.outcome, stopped.events[-1]["step"]) == ("STOPPED", 8)
    assert [event["step"] for event in stopped.of("checkpoint")] == [8]
    rest = run(small_config(steps=32), tmp_path / "rest", cache, resume_from=output / "step-8")
    assert rest.metrics() == straight.metrics(after=8)


def test_checkpoints_hold_a_rollout_only_while_it_has_updates_to_come(cache: Path, tmp_path: Path) -> None:
    run(small_config(steps=8), tmp_path, cache, stopping=lambda: run_so_far(tmp_path).steps_done >= 5)
    run(small_config(steps=8), tmp_path, cache, resume_from=tmp_path / "step-6")
    rollouts = [torch.load(tmp_path / f"step-{step}" / "rollout-0.pt", weights_only=True) for step in (6, 8)]
    assert [rollout["device_batches"] is None for rollout in rollouts] == [False, True]


def test_a_checkpoint_of_another_number_of_processes_is_refused(straight: Run, cache: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "step-24"
    shutil.copytree(straight.output / "step-24", checkpoint)
    content = json.loads((checkpoint / "run_state.json").read_text(encoding="utf-8"))
    assert content["state"].pop("processes") == 1
    content["state"]["processes"] = 2
    (checkpoint / "run_state.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(
        CheckpointError, match=r"the checkpoint was written by 2 process\(es\).* and this run has 1; start 2"
    ):
        run(small_config(steps=32), tmp_path / "run", cache, resume_from=checkpoint)


def test_a_stop_before_the_first_update_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    stopped = run(small_config(), output, cache, stopping=lambda: bool(run_so_far(output).of("evaluation")))
    assert (stopped.outcome, stopped.events[-1]["step"]) == ("STOPPED", 0)
    assert list(output.glob("step-*")) == []


def test_accumulating_gives_the_same_update(straight: Run, cache: Path, tmp_path: Path) -> None:
    """Two device batches an update instead of one: the same tokens, sums and gradient up to rounding."""
    parts = run(small_config(steps=4, device_batch=8), tmp_path, cache)
    for part, whole in zip(parts.metrics(), straight.metrics()[:4], strict=True):
        assert part["tokens/step"] == whole["tokens/step"]
        for name in ("loss", "entropy", "grad_norm", "ratio/mean", "ratio/max", "ppo_kl", "share/na_lp"):
            assert part[name] == pytest.approx(whole[name], rel=1e-3, abs=1e-5), name


def test_seeds_differ_and_beta_decides_only_outside_the_clip_bounds(straight: Run, cache: Path, tmp_path: Path) -> None:
    other_seed = run(small_config(steps=4, seed=1), tmp_path / "seed", cache)
    other_beta = run(small_config(steps=32, loss__beta1=0.0), tmp_path / "beta", cache)
    assert other_seed.metrics()[0] != straight.metrics()[0]
    assert without_schedule(other_beta.metrics()[0]) == without_schedule(straight.metrics()[0])
    assert without_schedule(other_beta.metrics()[-1]) != without_schedule(straight.metrics()[-1])


def without_schedule(metrics: dict[str, float | None]) -> dict[str, float | None]:
    return {name: value for name, value in metrics.items() if not name.startswith("schedule/")}


@pytest.mark.parametrize(
    "params",
    [
        {"model__lora": {"rank": 4}},
        {"terms__kl": {"coefficient": 0.1}},
        {"critic": {"learning_rate": 0.01}, "loss": {"name": "grpo"}},
        pytest.param({"critic": {"value_coeff": 0.5}, "model__lora": {"rank": 4}}, marks=LATER),
        pytest.param({"terms__kl": {"coefficient": 0.1, "estimator": "k3+"}, "model__lora": {"rank": 4}}, marks=LATER),
        pytest.param({"compute__autocast": "bfloat16"}, marks=LATER),
        {"loss": {"name": "clip_cov", "selected_share": 0.2, "covariance_low": 0.0, "covariance_high": 9.0}},
        pytest.param(
            {"terms": {"entropy_bonus": {"target": 1.5, "coefficient": 0.01}, "positive_nll": 0.1}}, marks=LATER
        ),
        pytest.param(
            {
                "rollout__dynamic_sampling": {"prompts_per_round": 6, "max_rounds": 3},
                "aggregation": {"denominator": "active"},
            },
            marks=LATER,
        ),
    ],
    ids=["lora", "kl", "critic", "critic_lora", "kl_lora", "autocast", "clip_cov", "terms", "dynamic_sampling"],
)
def test_every_kind_of_run_resumes_bit_for_bit_in_the_middle_of_a_rollout(
    params: dict[str, Any], cache: Path, tmp_path: Path
) -> None:
    config = small_config(steps=12, device_batch=8, **params)
    whole = run(config, tmp_path / "whole", cache)
    output = tmp_path / "stopped"
    run(config, output, cache, stopping=lambda: run_so_far(output).steps_done >= 5)
    rest = run(config, tmp_path / "rest", cache, resume_from=output / "step-6")
    assert rest.metrics() == whole.metrics(after=6)
    norms = [step["grad_norm"] for step in whole.metrics()]
    assert all(norm is not None and math.isfinite(norm) for norm in norms)
    assert all((step["reward/std"] or 0) >= 0 for step in whole.metrics())


@pytest.mark.parametrize("model", [{}, {"lora": {"rank": 4}}], ids=["copy", "lora"])
def test_the_kl_term_starts_at_the_initial_model_and_pulls_back_to_it(
    model: dict[str, Any], cache: Path, tmp_path: Path
) -> None:
    """Adapters begin as nothing, so below them lies the initial model; else it is loaded a second time."""
    changes = {"model": {**SMALL["model"], **model}, "optimizer__learning_rate": 3e-3, "evaluation__every_steps": 99}
    divergences = list[float]()
    for coefficient in (1e-9, 1.0):
        pulled = run(small_config(**changes, terms__kl__coefficient=coefficient), tmp_path / f"{coefficient:g}", cache)
        first, *_, last = pulled.metrics()
        assert [first[name] for name in ("loss/kl", "kl/reference", "kl/reference_k3")] == [0, 0, 0]
        assert last["loss"] == pytest.approx(
            (last["loss/policy"] or 0) + coefficient * (last["loss/kl"] or 0), rel=1e-5
        )
        divergences.append(sum(step["kl/reference_k3"] or 0 for step in pulled.metrics()[-4:]))
    assert divergences[1] < 0.5 * divergences[0]


def test_a_critic_learns_what_a_policy_that_stands_still_earns(cache: Path, tmp_path: Path) -> None:
    """Its values go from 0 to the mean reward; with lambda and gamma 1 the reward is what they are trained on."""
    critic = {"gae_lambda": 1, "learning_rate": 0.03, "value_clip": None}
    config = small_config(steps=96, critic=critic, optimizer__learning_rate=1e-9, evaluation__every_steps=999)
    steps = run(config, tmp_path, cache).metrics()
    for step in steps:
        assert step["critic/return_mean"] == pytest.approx(
            step["reward/mean"], abs=0.05
        )  # completions differ in length
    assert steps[0]["critic/value_mean"] == 0
    rollouts = steps[-16::4]  # one update of each of the last
    values, returns = (
        sum(step[f"critic/{name}_mean"] or 0 for step in rollouts) / len(rollouts) for name in ("value", "return")
    )
    assert values == pytest.approx(returns, abs=0.06)
    assert returns > 0.05


def test_a_critic_whose_loss_does_not_count_trains_nothing_and_leaves_an_ordinary_model(
    cache: Path, tmp_path: Path
) -> None:
    """Its advantages are the rewards, centred and scaled over the rollout."""
    unused = {"gae_lambda": 1, "value_coeff": 0.0}
    config = small_config(steps=8, critic=unused, evaluation__every_steps=999)
    done = run(config, tmp_path / "run", cache)
    assert [step["critic/value_mean"] for step in done.metrics()] == [0] * 8
    assert all((step["loss/value"] or 0) >= 0 for step in done.metrics())
    assert all(step["loss"] == step["loss/policy"] for step in done.metrics())
    checkpoint = done.output / "step-8"
    head = torch.load(checkpoint / "value_head.pt", weights_only=True)
    assert {name: bool(tensor.any()) for name, tensor in head.items()} == {"weight": False, "bias": False}
    plain = run(small_config(steps=8, evaluation__every_steps=999), tmp_path / "plain", cache)
    assert done.weights(8).keys() == plain.weights(8).keys()
    export(checkpoint, tmp_path / "exported")
    assert not list((tmp_path / "exported").glob("value_head*"))
    AutoModelForCausalLM.from_pretrained(tmp_path / "exported")


def test_gradient_checkpointing_changes_no_number(straight: Run, cache: Path, tmp_path: Path) -> None:
    recomputed = run(small_config(steps=8, compute__gradient_checkpointing=True), tmp_path, cache)
    assert recomputed.metrics() == straight.metrics()[:8]


def test_adapters_train_and_are_all_that_a_checkpoint_holds(cache: Path, tmp_path: Path) -> None:
    adapted = run(small_config(model__lora={"rank": 4}), tmp_path, cache)
    assert adapted.outcome == "SUCCEEDED"
    weights = load_file(adapted.output / "step-16" / "adapter_model.safetensors")
    assert {name.rpartition(".lora_")[2] for name in weights} == {"A.weight", "B.weight"}
    assert any(tensor.abs().max() > 0 for name, tensor in weights.items() if "lora_B" in name)
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


@pytest.mark.usefixtures("straight")
def test_a_policy_that_is_not_finite_ends_as_diverged(cache: Path, tmp_path: Path) -> None:
    broken = tmp_path / "cache"
    shutil.copytree(cache, broken)
    for weights in broken.glob("*/model.safetensors"):
        save_file({name: tensor * math.nan for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    diverged = run(small_config(), tmp_path / "run", broken)
    assert diverged.outcome == diverged.events[-1]["outcome"] == "DIVERGED"
    assert diverged.events[-1]["message"].endswith("; lower optimizer.learning_rate or the loss's betas")
    assert diverged.events[-1]["step"] == 0
    assert list(diverged.output.glob("step-*")) == []


def test_a_checkpoint_of_another_configuration_is_refused(straight: Run, cache: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"loss.beta1 0.5 \(now 0.1\); only"):
        run(small_config(loss__beta1=0.1), tmp_path, cache, resume_from=straight.output / "step-32")


def test_a_checkpoint_of_other_problems_is_refused(tmp_path: Path) -> None:
    """The file has the same name and other lines: the run would go on with other prompts than it began with."""
    data = tmp_path / "cache" / "datasets" / "sums" / "train.jsonl"
    add_dataset(tmp_path / "cache", "sums", {"train": [{"problem": "1?", "answer": "1"}]})

    def config(steps: int) -> TrainingConfig:
        short = small_config(steps=steps, model__warm_start_steps=1)
        return short.model_copy(update={"task": WordProblemsTask(data="sums", reward="exact")})

    def write(first: int) -> None:
        lines = [{"problem": f"{n} + {n}?", "answer": str(n + n)} for n in range(first, first + 20)]
        data.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    write(0)
    run(config(8), tmp_path / "run", tmp_path / "cache")
    assert run(config(12), tmp_path / "same", tmp_path / "cache", resume_from=tmp_path / "run" / "step-8").steps_done
    write(1)
    with pytest.raises(CheckpointError, match=r"the checkpoint was made with other problems .* or start a new run"):
        run(config(12), tmp_path / "other", tmp_path / "cache", resume_from=tmp_path / "run" / "step-8")


def test_ce_gppo_without_betas_trains_exactly_as_ppo_clip(cache: Path, tmp_path: Path) -> None:
    bounds = {"epsilon": 0.05, "dual_clip": 10.0}
    ours = run(small_config(loss={"name": "ce_gppo", "beta1": 0, "beta2": 0, **bounds}), tmp_path / "ours", cache)
    ppo = run(small_config(loss={"name": "grpo", **bounds}), tmp_path / "ppo", cache)
    assert_same_weights(ours.weights(16), ppo.weights(16))


def test_what_several_processes_cannot_share_is_refused_before_the_warm_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainers.training.train.process_state", lambda: SimpleNamespace(num_processes=2))
    with pytest.raises(ConfigError, match="device_batch 16 does not divide the 8 sequences that each of 2 processes"):
        run(small_config(), tmp_path / "run", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
