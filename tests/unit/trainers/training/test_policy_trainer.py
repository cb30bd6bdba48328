"""What an update is given and what is recorded of it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.trainers.training.bare_trainers import bare, config
from trainers.errors import CheckpointError
from trainers.process.seeds import loss_seed
from trainers.record.frozen_probe import FrozenCompletions
from trainers.rollouts.rollout import Collected, PromptStream, Sample, problems_digest
from trainers.tasks.base import Completion, Judgement, Problem
from trainers.training import policy_trainer
from trainers.training.inert_betas import InertBetas
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.sampling_trainer import SampledTokens

TASK: Any = SimpleNamespace(training=[Problem("1+1=", "2"), Problem("1+2=", "3")], validation=[Problem("2+3=", "5")])
ONE_PROCESS: Any = SimpleNamespace(num_processes=1, device=torch.device("cpu"), reduce=lambda tensor, **_: tensor)


def frozen(seed: int) -> list[Any]:
    """Return the prompts and completions that a run of this seed freezes; each completion is drawn."""
    kept = list[Any]()

    def completed(prompt_ids: list[str], _batch: int | None, seed: int) -> list[SampledTokens]:
        return [SampledTokens([seed, int(torch.randint(2**31, ()))], None) for _ in prompt_ids]

    trainer = bare(
        PolicyTrainer,
        config(seed=seed, evaluation__probe_completions=3),
        _task=TASK,
        _token_ids=lambda problems: [problem.prompt for problem in problems],
        _completed=completed,
        _tokenizer=SimpleNamespace(pad_token_id=0),
        _frozen=SimpleNamespace(freeze=lambda *args: kept.extend(args[:2])),
    )
    trainer.freeze_completions()
    return kept


def test_frozen_completions_answer_training_problems_and_are_the_same_for_all_seeds() -> None:
    prompts, completions = frozen(seed=1)
    assert prompts == ["1+1=", "1+2=", "1+1="]
    assert len(set(map(tuple, completions))) == 3
    torch.rand(1)  # nor do they depend on what was drawn before
    assert frozen(seed=2) == [prompts, completions]


def test_a_loss_draws_by_the_seed_of_the_run_the_device_batch_and_the_process() -> None:
    trainer = bare(PolicyTrainer, config(seed=3), _step=11, _rank=2, accelerator=ONE_PROCESS)
    ones_BT, ones_B = torch.ones(2, 4), torch.ones(2)
    inputs = {
        "old_logprobs": 2 * ones_BT,
        "advantages": 3 * ones_B,
        "completion_mask": ones_BT,
        "old_entropy": 4 * ones_BT,
        "correct": torch.tensor([True, False]),
        "active": torch.tensor([False, True]),
        "sampling_weight": 5 * ones_BT,
    }
    batch = trainer._token_batch(inputs, 6 * ones_BT, 7 * ones_BT)
    assert batch.generator.initial_seed() == loss_seed(3, 11, 2)
    means = {name: part.float().mean().item() for name, part in vars(batch).items() if isinstance(part, torch.Tensor)}
    assert means == {
        "logprobs_BT": 6,
        "old_logprobs_BT": 2,
        "advantages_BT": 3,
        "mask_BT": 1,
        "entropy_BT": 7,
        "old_entropy_BT": 4,
        "correct_B": 0.5,
        "active_B": 0.5,
        "sampling_weight_BT": 5,
    }
    assert (batch.correct_B.tolist(), batch.active_B.tolist()) == ([True, False], [False, True])


def test_tokens_per_second_are_of_the_whole_step_with_its_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_trainer, "time", SimpleNamespace(perf_counter=lambda: 30.0))
    monkeypatch.setattr(policy_trainer, "gather_object", lambda values: [*values, 1e9])
    trainer = bare(PolicyTrainer, config(), _step_started=10.0, _generation_s=12.0, _frozen_s=3.0)
    assert trainer._times({"tokens/step": 100.0}) == {
        "time/generation_s": 12.0,
        "time/update_s": 5.0,
        "time/step_s": 20.0,
        "tokens/per_second": 5.0,
        "memory/peak_mib": 1e9,
    }
    assert (trainer._step_started, trainer._generation_s, trainer._frozen_s) == (0.0, 0.0, 0.0)


def test_measuring_the_frozen_completions_is_no_part_of_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((10.0, 14.0, 20.0, 21.0))
    monkeypatch.setattr(policy_trainer, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    measured = list[object]()
    frozen = SimpleNamespace(measure=measured.append)
    trainer = bare(PolicyTrainer, config(), _frozen=frozen, _frozen_s=0.0, _forward="forward")
    for _ in range(2):
        trainer.measure_frozen_completions()
    assert (trainer._frozen_s, measured) == (5.0, ["forward", "forward"])


def test_groups_that_dynamic_sampling_gave_up_are_counted_as_generated() -> None:
    group = [
        Sample([1], [2, 3], Completion("x", 2, truncated=False), Judgement(reward, correct=reward == 1))
        for reward in (0.0, 1.0)
    ]
    trainer = bare(
        PolicyTrainer,
        config(),
        accelerator=ONE_PROCESS,
        _tokenizer=SimpleNamespace(pad_token_id=0),
        _forward=lambda rows: (torch.zeros(rows["completion_ids"].shape),) * 2,
    )
    trainer._scored(Collected([group, group], sampled=6))
    assert trainer._rollout_metrics["sampling/groups_generated"] == 3.0


def test_the_recorded_betas_are_those_that_the_update_used() -> None:
    settings = config(loss__schedule=[{"step": 3, "beta1": 0.25, "beta2": 0.125}])
    trainer = bare(PolicyTrainer, settings, _entropy_coefficient=0.5)
    betas = [(at["schedule/beta1"], at["schedule/beta2"]) for at in map(trainer._schedules, (3, 4))]
    first: Any = settings.loss.at(2)
    assert betas == [(first.beta1, first.beta2), (0.25, 0.125)]


def restored(state: dict[str, Any], task: Any = TASK) -> Any:
    settings = config()
    parts = {"_prompts": PromptStream(2, 0, 0, 1), "_frozen": FrozenCompletions(), "_inert": InertBetas(settings)}
    trainer = bare(PolicyTrainer, settings, _task=task, **parts)
    trainer._restore(state)
    return trainer


def test_a_resumed_run_goes_on_with_the_counters_of_its_checkpoint() -> None:
    state = {
        "problems": problems_digest(TASK),
        "prompts_read": 7,
        "seed_derivation": 1,
        "rollout_metrics": {"reward/mean": 0.5},
        "entropy_coefficient": 0.25,
        "probe": {"entropy": 1.5},
        "inert": {"clipped": 1.0, "all": 2.0, "dead": 3.0},
        "evaluated_step": 4,
    }
    trainer = restored(state)
    assert {
        "problems": trainer._problems,
        "prompts_read": trainer._prompts.position,
        "seed_derivation": trainer._seed_derivation,
        "rollout_metrics": trainer._rollout_metrics,
        "entropy_coefficient": trainer._entropy_coefficient,
        "probe": trainer._frozen.state,
        "inert": trainer._inert.state,
        "evaluated_step": trainer.evaluated_step,
    } == state


@pytest.mark.parametrize("part", ["training", "validation"])
def test_a_run_does_not_go_on_with_other_problems(part: str) -> None:
    state = {"problems": problems_digest(TASK)}
    other = SimpleNamespace(**{**vars(TASK), part: [Problem("4+4=", "8")]})
    with pytest.raises(CheckpointError, match="other problems"):
        restored(state, other)
