"""A benchmark samples by its own settings and by none that the model's folder brings."""

from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from tests.unit.trainers.tasks import chats
from trainers.benchmarks.job import BenchmarkSampling
from trainers.benchmarks.sampler import ModelSampler

SAMPLING = BenchmarkSampling(
    samples=1,
    temperature=0.7,
    top_p=0.9,
    max_tokens=5,
    prompt_suffix="",
    chat=False,
    dtype="float32",
    reward="number",
    seed=0,
)


class Model:
    """Answers each prompt with one drawn token; its own settings are none that a benchmark has."""

    def __init__(self) -> None:
        self.generation_config = GenerationConfig(temperature=0.1, top_k=3, repetition_penalty=1.3, max_new_tokens=9)

    def generate(self, input_ids: Tensor, **_: Any) -> Tensor:
        return torch.cat([input_ids, torch.randint(256, (len(input_ids), 1))], dim=1)


def sampler(model: Model) -> ModelSampler:
    made: Any = ModelSampler.__new__(ModelSampler)
    parts = {"_device": "cpu", "_stopping": lambda: False, "_tokenizer": chats.base_tokenizer(), "_own_ends": None}
    made.__dict__.update(parts, _model=model)
    return made


def test_every_setting_of_the_sampling_reaches_the_model() -> None:
    model = Model()
    sampler(model).sample([[65], [66, 67]], SAMPLING, seeds=[1, 2])
    used: Any = model.generation_config
    assert (used.do_sample, used.temperature, used.top_p, used.top_k) == (True, 0.7, 0.9, 0)
    assert used.max_new_tokens == 5
    assert set(used.eos_token_id) == {used.pad_token_id} == {chats.base_tokenizer().eos_token_id}
    assert {used.repetition_penalty, used.min_p, used.typical_p, used.num_beams} <= {None, 1.0}


def test_completions_follow_from_the_seed() -> None:
    drawn = [sampler(Model()).sample([[65]] * 8, SAMPLING, [seed] * 8) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
