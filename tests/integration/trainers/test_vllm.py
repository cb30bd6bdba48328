"""Training with rollouts by vLLM: TRL's own client of vLLM and our trainer, on a stand-in for vLLM itself."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.trainers.standin_vllm import LLM, StandIn, install
from tests.integration.trainers.tiny_models import save_tiny_model
from tests.integration.trainers.trainer_runs import OF_THE_MACHINE
from trainers.config import TrainingConfig, with_params
from trainers.policy.checkpoints import read_state
from trainers.process.events import EventWriter, read_events
from trainers.process.launch import meeting_place, process_environment
from trainers.record.recorder import Recorder
from trainers.tasks import make_task
from trainers.training.evaluate_model import evaluate_model
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.sampling_trainer import Folders

SMALL: dict[str, Any] = {
    "task": {"smallest": 2, "largest": 20, "validation_every": 5},
    "model": {"name": "pretrained", "model": "tiny"},
    "rollout": {
        "prompts_per_rollout": 4,
        "completions_per_prompt": 4,
        "prompts_per_minibatch": 2,
        "max_completion_tokens": 5,
        "overlong": {"cache_tokens": 4, "factor": 1.0},
        "engine": {"name": "vllm"},
    },
    "optimizer": {"learning_rate": 3e-2, "warmup_steps": 0},
    "evaluation": {
        "every_steps": 4,
        "samples_per_problem": 2,
        "pass_k": 2,
        "temperature": 0.6,
        "top_p": 0.9,
        "max_completion_tokens": 7,
        "probe_completions": 4,
    },
    "device_batch": 4,
    "checkpoint_every_rollouts": 2,
    "steps": 8,
}


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return install(monkeypatch)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "model")


def config_of(**params: Any) -> TrainingConfig:
    return TrainingConfig.model_validate(
        with_params(SMALL, {name.replace("__", "."): value for name, value in params.items()})
    )


class Run:
    """A run in this process."""

    def __init__(
        self,
        config: TrainingConfig,
        model: Path,
        output: Path,
        resume_from: Path | None = None,
        stopping: Callable[[], bool] = lambda: False,
        trainer: type[PolicyTrainer] = PolicyTrainer,
    ) -> None:
        state = {} if resume_from is None else read_state(resume_from, config)
        with EventWriter(output / "events.jsonl") as events:
            recorder = Recorder(events, config.steps, int(state.get("step", 0)), state)
            task, folders = make_task(config.task, output), Folders(model, output, output / "cache")
            self.trainer = trainer(config, task, folders, recorder, stopping, state)
            self.trainer.run(resume_from)
        self.events = read_events(output / "events.jsonl")

    def metrics(self) -> list[dict[str, float]]:
        return [
            {name: value for name, value in event["metrics"].items() if not name.startswith(OF_THE_MACHINE)}
            for event in self.events
            if event["type"] == "step"
        ]


def same_weights(policy: Any, engine: LLM) -> bool:
    own = dict(engine.model.named_parameters())
    return all(torch.equal(value.bfloat16(), own[name]) for name, value in policy.named_parameters())


def test_every_sampling_is_by_the_present_weights(vllm: StandIn, model: Path, tmp_path: Path) -> None:
    checked: list[bool] = []

    class Checking(PolicyTrainer):
        def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
            vllm.before_generate = lambda engine: checked.append(same_weights(self.model, engine))
            return super()._generate_single_turn(*args, **kwargs)

    for sleep in (True, False):
        run = Run(config_of(rollout__engine__sleep=sleep), model, tmp_path / str(sleep), trainer=Checking)
        assert any(metrics["ratio/max"] > 1.05 for metrics in run.metrics()), "nothing was trained"
    # the probe, evaluations of 0, 4 and 8 and 4 rollouts, twice; the first evaluation differs in its engine
    assert checked == [True] * 16


def test_an_engine_that_sleeps_gets_its_weights_each_time_and_another_when_they_changed(
    vllm: StandIn, model: Path, tmp_path: Path
) -> None:
    Run(config_of(evaluation__probe_completions=0, steps=2), model, tmp_path / "asleep")
    asleep = ["sleep", *(["wake weights", "load", "reset", "wake kv_cache", "{}", "sleep"] * 3)]
    generated = [call for call in vllm.calls if call.startswith("generate")]
    assert generated == ["generate 6", "generate 16", "generate 6"]
    assert [call if not call.startswith("generate") else "{}" for call in vllm.calls] == asleep
    vllm.calls.clear()
    Run(config_of(evaluation__probe_completions=0, steps=2, rollout__engine__sleep=False), model, tmp_path / "awake")
    # the evaluation before training and the first rollout are by the same weights
    assert vllm.calls == ["load", "reset", "generate 6", "generate 16", "load", "reset", "generate 6"]


def test_settings_of_training_and_evaluation_reach_the_engine(vllm: StandIn, model: Path, tmp_path: Path) -> None:
    run = Run(config_of(rollout__temperature=0.9), model, tmp_path / "run")
    training, evaluation = (0.9, 1.0, 5), (0.6, 0.9, 7)
    asked = [(asked.temperature, asked.top_p, asked.max_tokens) for asked in vllm.asked]
    assert asked == [training, evaluation, *([training] * 2), evaluation, *([training] * 2), evaluation]
    assert {tuple(asked.stop_token_ids) for asked in vllm.asked} == {(1,)}
    (engine,) = vllm.engines
    longest_prompt = max(map(len, run.trainer._token_ids(run.trainer._task.training)))
    expected = {
        "model": str(model),
        "tensor_parallel_size": 1,
        "gpu_memory_utilization": 0.3,
        "max_model_len": longest_prompt + 7,
        "max_num_seqs": 16,
        "enable_sleep_mode": True,
        "model_impl": "vllm",
        "trust_remote_code": False,
        "logprobs_mode": "processed_logprobs",
    }
    assert {name: engine.settings[name] for name in expected} == expected


@pytest.mark.long
@pytest.mark.wires
def test_a_run_is_repeated_by_its_seed_whatever_is_evaluated(vllm: StandIn, model: Path, tmp_path: Path) -> None:
    first = Run(config_of(), model, tmp_path / "a").metrics()
    assert Run(config_of(evaluation__every_steps=2), model, tmp_path / "b").metrics() == first
    other = Run(config_of(seed=1), model, tmp_path / "c").metrics()
    lengths = [[metrics["completion/length_mean"] for metrics in run] for run in (first, other)]
    assert lengths[0] != lengths[1]


def test_runs_of_other_seeds_draw_other_numbers(vllm: StandIn, model: Path, tmp_path: Path) -> None:
    drawn: list[float] = []
    vllm.before_generate = lambda _: drawn.append(float(torch.rand(1)))
    for seed in (0, 1):
        Run(config_of(seed=seed, steps=2, evaluation__probe_completions=0), model, tmp_path / str(seed))
    assert drawn[0] == drawn[3]  # the evaluation of the initial model, which runs share
    assert len(set(drawn)) == len(drawn) - 1 == 5


@pytest.mark.long
@pytest.mark.wires
def test_a_run_stopped_while_sampling_goes_on_as_if_it_had_not_been(vllm: StandIn, model: Path, tmp_path: Path) -> None:
    whole = Run(config_of(), model, tmp_path / "whole").metrics()
    stop = False

    def second_rollout() -> None:
        nonlocal stop
        stop = vllm.calls.count("generate 16") == 2

    vllm.calls.clear()
    vllm.before_token = second_rollout
    cut = Run(config_of(evaluation__every_steps=8), model, tmp_path / "cut", stopping=lambda: stop)
    assert cut.trainer.interrupted
    assert cut.trainer.state.global_step == 2
    vllm.before_token = lambda: None
    rest = Run(config_of(), model, tmp_path / "rest", resume_from=tmp_path / "cut" / "step-2").metrics()
    assert cut.metrics() + rest == whole


def test_the_gap_to_the_engine_is_recorded_and_corrected(vllm: StandIn, model: Path, tmp_path: Path) -> None:
    weights: list[tuple[torch.Tensor, ...]] = []

    class Keeping(PolicyTrainer):
        def _scored(self, collected: Any) -> dict[str, Any]:
            tensors = super()._scored(collected)
            given = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(sample.logprobs) for group in collected.groups for sample in group], batch_first=True
            )
            mask = tensors["completion_mask"].bool()
            expected = (tensors["old_logprobs"] - given).exp().clamp(max=1.001)
            weights.append((tensors["sampling_weight"][mask], expected[mask]))
            return tensors

    off = Run(config_of(), model, tmp_path / "off").metrics()
    on = config_of(rollout__engine__correction="token_truncate", rollout__engine__correction_cap=1.001)
    corrected = Run(on, model, tmp_path / "on", trainer=Keeping).metrics()
    for metrics in off:
        assert 0 < metrics["engine/logprob_gap_mean"] < metrics["engine/logprob_gap_max"] < 0.2
        assert metrics["engine/weight_mean"] is metrics["engine/weight_cut_share"] is None
    for actual, expected in weights:
        torch.testing.assert_close(actual, expected)
        assert (actual == 1.001).any()
        assert (actual < 1.001).any()
    assert 0 < corrected[0]["engine/weight_cut_share"] < 1
    assert corrected[0]["engine/logprob_gap_mean"] == off[0]["engine/logprob_gap_mean"]
    assert corrected[0]["loss/policy"] != off[0]["loss/policy"]


def test_adapters_are_merged_for_the_engine_and_leave_the_base_as_it_was(
    vllm: StandIn, model: Path, tmp_path: Path
) -> None:
    merged: list[bool] = []
    before: dict[str, torch.Tensor] = {}

    class Checking(PolicyTrainer):
        def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
            base = {n: v.clone() for n, v in self.model.named_parameters() if not v.requires_grad}
            before.update({} if before else base)
            assert all(torch.equal(before[name], value) for name, value in base.items())
            expected = {n.removeprefix("base_model.model.").replace(".base_layer", ""): v for n, v in base.items()}
            for name, module in self.model.named_modules():
                if hasattr(module, "get_delta_weight"):
                    own = name.removeprefix("base_model.model.") + ".weight"
                    expected[own] = expected[own] + module.get_delta_weight("default").detach()
            vllm.before_generate = lambda engine: merged.append(
                all(
                    torch.equal(value.bfloat16(), expected[name].bfloat16())
                    for name, value in engine.model.named_parameters()
                )
            )
            return super()._generate_single_turn(*args, **kwargs)

    run = Run(config_of(model__lora={"rank": 2, "alpha": 8}), model, tmp_path / "run", trainer=Checking)
    assert merged == [True] * 8
    assert all(metrics["engine/logprob_gap_mean"] < 0.1 for metrics in run.metrics())
    moved = [parameter for name, parameter in run.trainer.model.named_parameters() if "lora_B" in name]
    assert any(parameter.abs().max() > 0.01 for parameter in moved)


def test_the_trained_model_is_evaluated_without_vllm(vllm: StandIn, model: Path, tmp_path: Path) -> None:
    config = config_of(steps=2)
    Run(config, model, tmp_path / "run")
    asked = len(vllm.asked)
    evaluation = evaluate_model(config, tmp_path / "run" / "step-2", tmp_path / "cache")
    assert evaluation.metrics["eval/length_mean"]
    assert len(vllm.asked) == asked


@pytest.mark.long
def test_two_processes_have_a_copy_each_or_one_together(model: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("vllm_process.py")), str(model), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}
    with meeting_place() as place:
        processes = [
            subprocess.Popen(command, env={**environment, **process_environment(rank, 2, place)}) for rank in range(2)
        ]
        assert [process.wait() for process in processes] == [0, 0]
    for tensor_parallel in (1, 2):
        first, second = (json.loads((tmp_path / f"{tensor_parallel}-{rank}.json").read_text()) for rank in range(2))
        # the probe, the evaluation of 9 completions, two rollouts of 16, the evaluation; one of two copies has half
        shares = [4, 5, 8, 8, 5] if tensor_parallel == 1 else [8, 10, 16, 16, 10]
        assert [int(drawn.split()[0]) for drawn in first["drawn"]] == shares
        same = [one == other for one, other in zip(first["drawn"], second["drawn"], strict=True)]
        assert same[:4] == [tensor_parallel == 2] * 4
        assert len(first["metrics"]) == 4
        assert all(metrics["engine/logprob_gap_mean"] < 0.1 for metrics in first["metrics"])


def test_parts_of_a_batch_draw_from_streams_of_their_own(vllm: StandIn, model: Path, tmp_path: Path) -> None:
    run = Run(config_of(rollout__sampling_batch=8, steps=2), model, tmp_path / "run")
    trainer = run.trainer
    prompt = trainer._token_ids(trainer._task.training[:1])
    drawn = [tokens.ids for tokens in trainer._completed(prompt * 16, 8, seed=5, num_generations=8)]
    assert drawn[:8] != drawn[8:]
    assert drawn == [tokens.ids for tokens in trainer._completed(prompt * 16, 8, seed=5, num_generations=8)]
