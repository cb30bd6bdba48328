"""Seeds and settings that reach the sampling of rollouts and of evaluations."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from tests.unit.trainers.training.bare_trainers import bare, config
from trainers.process.seeds import derived_seed
from trainers.tasks.base import Completion, Judgement, Problem
from trainers.training import sampling_trainer
from trainers.training.sampling_trainer import SampledTokens, SamplingTrainer


def test_an_evaluation_is_seeded_by_the_seed_of_the_run_and_by_its_step() -> None:
    trainer = bare(SamplingTrainer, config(seed=5), _evaluation=lambda seed: seed)
    assert [trainer.evaluation_after(step) for step in (1, 8)] == [derived_seed(5, "evaluation", s) for s in (1, 8)]


def test_the_processes_of_an_evaluation_draw_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_trainer, "evaluate", lambda *_: torch.rand(1).item())

    def drawn(rank: int) -> float:
        task = SimpleNamespace(validation=[])
        return bare(SamplingTrainer, config(), _rank=rank, _processes=2, _task=task)._evaluation(7)

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)


def test_a_rollout_is_sampled_in_batches_of_its_own_size() -> None:
    asked = list[tuple[int | None, int, int]]()

    def completed(prompt_ids: list[list[int]], batch: int | None, seed: int, copies: int) -> list[SampledTokens]:
        asked.append((batch, seed, copies))
        return [SampledTokens(ids, None) for ids in prompt_ids]

    settings = config(
        rollout__sampling_batch=6, evaluation__sampling_batch=5, rollout__completions_per_prompt=4, device_batch=16
    )
    task: Any = SimpleNamespace(
        training=[Problem("1+1=", "2"), Problem("1+2=", "3")],
        judge=lambda problems, _: [Judgement(float(problem.answer), correct=True) for problem in problems],
    )
    trainer = bare(
        SamplingTrainer,
        settings,
        _task=task,
        _completed=completed,
        _token_ids=lambda problems: [[int(problem.answer)] for problem in problems],
        _completion=lambda ids: Completion("", len(ids), truncated=False),
    )
    groups = trainer._sampled_groups([1, 0], 9)
    assert asked == [(6, 9, 4)]
    assert [[sample.judgement.reward for sample in group] for group in groups] == [[3.0] * 4, [2.0] * 4]


def test_an_evaluation_samples_with_its_own_settings_and_puts_those_of_training_back() -> None:
    kwargs = {"temperature": 0.8, "top_p": 1.0, "max_new_tokens": 4, "do_sample": True}
    training, model = GenerationConfig(**kwargs), torch.nn.Linear(1, 1)
    own = {"evaluation.temperature": 0.6, "evaluation.top_p": 0.9, "evaluation.max_completion_tokens": 7}
    trainer = bare(SamplingTrainer, config(**own), model=model, generation_config=training, generation_kwargs=kwargs)
    with trainer._evaluation_settings():
        used = trainer.generation_config
        assert (used.temperature, used.top_p, used.max_new_tokens, used.do_sample) == (0.6, 0.9, 7, True)
        assert trainer.generation_kwargs == kwargs | {"temperature": 0.6, "top_p": 0.9, "max_new_tokens": 7}
        assert not model.training
    assert trainer.generation_config is training
    assert trainer.generation_kwargs == kwargs
    assert model.training
