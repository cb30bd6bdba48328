"""Words of other trainers and tuners lead to the setting or choice that they mean."""

from collections import Counter
from typing import Any

import pytest

from sweep_service.sweep.spec import SweepSpec
from tests.refusals import refusals
from trainers.config import TrainingConfig
from trainers.config.complaints import settings_of
from trainers.config.field_words import _SETTINGS, _split, choice_meant, setting_meant


def told(**changes: Any) -> dict[str, str]:
    return refusals({"name": "a", "space": {"steps": 480}} | changes)


def test_every_word_leads_to_a_setting_that_exists_and_to_one_only() -> None:
    names = {name.partition("=")[0] for name in _SETTINGS}
    assert names <= {*settings_of(TrainingConfig).owners, *settings_of(SweepSpec).owners}
    words = Counter(word for text in _SETTINGS.values() for word in _split(text))
    assert [word for word, times in words.items() if times > 1] == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("lr", "optimizer.learning_rate"),
        ("clip_range", "loss.epsilon"),
        ("cliprange_high", "loss.epsilon_high"),
        ("clipRatioHigh", "loss.epsilon_high"),
        ("kl_coef", "terms.kl.coefficient"),
        ("group_size", "rollout.completions_per_prompt"),
        ("num_generations", "rollout.completions_per_prompt"),
        ("max_tokens", "rollout.max_completion_tokens"),
        ("temp", "rollout.temperature"),
        ("temperature", "rollout.temperature"),
        ("learning_rate", "optimizer.learning_rate"),
        ("bs", "rollout.prompts_per_rollout"),
        ("micro_batch_size", "device_batch"),
        ("max_steps", "steps"),
    ],
)
def test_a_setting_is_known_by_the_words_of_others(written: str, meant: str) -> None:
    assert f"did you mean '{meant}'" in told(training={written: 1})[f"/training/{written}"]
    assert f"did you mean '{meant}'" in told(space={written: [1, 2]})[f"/space/{written}"]
    assert f"did you mean 'training.{meant}'" in told(**{written: 1})[f"/{written}"]


@pytest.mark.parametrize(
    ("changes", "pointer", "words"),
    [
        ({"steps": 8}, "/steps", "did you mean 'training.steps'"),
        ({"n_gpu": 2}, "/n_gpu", "did you mean 'resources.gpus'?"),
        ({"training": {"n_gpu": 2}}, "/training/n_gpu", "did you mean 'resources.gpus' of the spec?"),
        ({"parameters": {}}, "/parameters", "did you mean 'space'?"),
        ({"space": {"evaluation.temprature": [1]}}, "/space/evaluation.temprature", "mean 'evaluation.temperature'?"),
        ({"training": {"temprature": 1}}, "/training/temprature", "'rollout.temperature' or 'evaluation.temperature'?"),
        ({"training": {"stpes": 8}}, "/training/stpes", "did you mean 'steps' (counted in"),
        ({"baseline": False}, "/baseline", "did you mean 'baselines'?"),
        ({"baseline": {"dapo": False}}, "/baseline", "did you mean 'baselines.dapo'?"),
        ({"sede": [1]}, "/sede", "did you mean 'seeds'?"),
        ({"benchmarks": {"name": "gsm8k"}}, "/benchmarks/name", "did you mean 'benchmarks.names'?"),
        ({"loss": {"name": "GRPO"}}, "/loss", "'training.loss.name', as in training: {loss: {name: grpo}}?"),
        ({"training": {"optimiser": {"learning_rate": 1}}}, "/training/optimiser", "mean 'optimizer.learning_rate'?"),
        ({"space": {"optimiser.learning_rate": 1}}, "/space/optimiser.learning_rate", "'optimizer.learning_rate'?"),
        ({"space": {"evaluaton.temp": [1]}}, "/space/evaluaton.temp", "did you mean 'evaluation.temperature'?"),
        ({"space": {"Loss.Beta1": [1]}}, "/space/Loss.Beta1", "did you mean 'loss.beta1'?"),
        ({"space": {"loss.names": ["grpo"]}}, "/space/loss.names", "did you mean 'loss.name', as in"),
        ({"space": {"training.loss.beta1": [1]}}, "/space/training.loss.beta1", "did you mean 'loss.beta1'?"),
        ({"space": {"training.steps": [8]}}, "/space/training.steps", "did you mean 'steps' (counted in"),
        ({"space": {"optimizer": {"learning_rate": [1]}}}, "/space/optimizer", "write optimizer.learning_rate: …"),
        ({"space": {"loss": {"erc": {"mode": ["mask"]}}}}, "/space/loss", "write loss.erc.mode: …"),
        (
            {"training": {"rollout": {"rollout": 1}}},
            "/training/rollout/rollout",
            "there are rollout.prompts_per_rollout",
        ),
        ({"space": {"steps": {"min": 8, "max": 16}}}, "/space/steps", "there is no type, but"),
        ({"training": {"engine": "vllm"}}, "/training/engine", "as in rollout: {engine: {name: vllm}}?"),
        ({"training": {"use_vllm": True}}, "/training/use_vllm", "as in rollout: {engine: {name: vllm}}?"),
        (
            {"training": {"rollout": {"engine": "vLLM"}}},
            "/training/rollout/engine",
            "a mapping is needed: {name: vllm}",
        ),
        ({"training": {"loss": "GRPO"}}, "/training/loss", "a mapping is needed: {name: grpo}"),
        ({"training": {"loss": {"name": "DAPO"}}}, "/training/loss", "; did you mean 'dapo'?"),
        ({"training": {"loss": {"name": "CE-GPPO"}}}, "/training/loss", "; did you mean 'ce_gppo'?"),
        ({"training": {"loss": {"name": "PPO"}}}, "/training/loss", "; did you mean 'grpo'?"),
        ({"training": {"loss": {"name": "erc"}}}, "/training/loss", "as in {name: dapo, erc: {mode: mask}}"),
        ({"training": {"loss": {"name": "dapo", "erc": "mask"}}}, "/training/loss/erc", "needed: {mode: mask}"),
        ({"training": {"optimizer": 3}}, "/training/optimizer", "of learning_rate, adam_beta1, adam_beta2, "),
        ({"training": {"optimizer": 3}}, "/training/optimizer", "weight_decay, … (given: 3)"),
        ({"training": {"critic": 3}}, "/training/critic", "value_clip, normalize, learning_rate (given: 3)"),
        ({"training": {"rollout.temperature": 1}}, "/training/rollout.temperature", "rollout: {temperature: …}"),
        ({"training": {"loss": {"name": 3}}}, "/training/loss", "there is no loss '3'"),
        ({"space": {"preset": "bapo_bounds", "steps": [1]}}, "/space", "a preset stands alone; remove steps"),
        ({"training": {"model": "Qwen/Qwen2"}}, "/training/model", "{name: pretrained, model: NAME}"),
        ({"training": {"task": {"name": "gsm8k"}}}, "/training/task", "{name: word_problems, data: NAME}"),
        ({"training": {"evaluation": {"temp": 1}}}, "/training/evaluation/temp", "'evaluation.temperature'"),
        ({"training": {"compute": {"autocast": "bf16"}}}, "/training/compute/autocast", "did you mean 'bfloat16'?"),
        ({"algorithm": "GRPO"}, "/algorithm", "as in training: {loss: {name: grpo}}?"),
        ({"search": {"strategy": "Bayesian", "num_configs": 3}}, "/search/strategy", "did you mean 'tpe'?"),
        ({"space": {"loss.name": ["grpo", "KL-Cov"]}}, "/space/loss.name", "did you mean 'kl_cov'?"),
        ({"space": {"loss": ["grpo"]}}, "/space/loss", "a mapping is needed: {name: grpo}"),
    ],
)
def test_the_place_and_the_shape_are_shown(changes: dict[str, Any], pointer: str, words: str) -> None:
    assert words in told(**changes)[pointer]


def test_a_word_that_means_nothing_suggests_nothing() -> None:
    assert setting_meant("frobnicate", ["steps"]) is None
    assert setting_meant("lr", ["steps"]) is None
    assert choice_meant("frobnicate", ("grpo", "dapo")) is None
    assert choice_meant("", ("grpo",)) is None
    assert choice_meant("x" * 100_000, ("grpo",)) is None
    assert "did you mean" not in told(training={"loss": {"name": "x" * 500}})["/training/loss"]
