"""One rollout and its updates, without a model: what is called with what, in which order, and what is counted."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.trainers.training.bare_trainers import bare, config
from tests.unit.trainers.two_processes import Process, in_both
from trainers.errors import OffPolicyError, SamplingInterruptedError
from trainers.losses import CEGPPOParams, TokenBatch, Totals, objective
from trainers.process.seeds import derived_seed
from trainers.rollouts.rollout import Collected, PromptStream
from trainers.training import policy_trainer
from trainers.training.policy_trainer import PolicyTrainer


def test_a_rollout_is_seeded_by_the_number_of_prompts_before_it() -> None:
    trainer = bare(
        PolicyTrainer,
        config(seed=5),
        _prompts=SimpleNamespace(position=96),
        _sampled_groups=lambda indices, seed: (indices, seed),
    )
    assert trainer._sampled_round([3, 1]) == ([3, 1], derived_seed(5, "rollout", 96))


def generating(sampled_round: Any, clock: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(policy_trainer, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    settings = config(rollout__prompts_per_rollout=8, rollout__prompts_per_minibatch=4)
    return bare(
        PolicyTrainer,
        settings,
        _prompts=PromptStream(10, 0, 0, 1),
        _sampled_round=sampled_round,
        _scored=lambda collected: collected,
        any_process=bool,
        _generation_s=1.0,
    )


def test_the_time_of_sampling_and_scoring_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = generating(lambda indices: [[index] for index in indices], iter((10.0, 14.0)), monkeypatch)
    collected = trainer._generate_and_score_completions("inputs")
    assert isinstance(collected, Collected)
    assert (len(collected.groups), trainer._prompts.position, trainer._generation_s) == (8, 8, 5.0)


def test_a_rollout_that_is_interrupted_has_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: list[int]) -> Any:
        torch.rand(1), random.random()
        raise SamplingInterruptedError

    trainer = generating(interrupted, iter((10.0,)), monkeypatch)
    trainer._prompts.position = 16
    before = torch.get_rng_state(), random.getstate()
    with pytest.raises(SamplingInterruptedError):
        trainer._generate_and_score_completions("inputs")
    assert trainer._prompts.position == 16
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def token_batch(gap_nats: float, tokens: int = 3) -> TokenBatch:
    """Tokens whose log-probabilities changed by so much, and one place of padding."""
    old_BT = torch.zeros(1, tokens + 1)
    mask_BT = torch.ones(1, tokens + 1)
    mask_BT[0, -1] = 0
    return TokenBatch(old_BT + gap_nats, old_BT, torch.ones(1, tokens + 1), mask_BT)


def test_a_fresh_rollout_may_differ_by_rounding_alone() -> None:
    trainer = bare(PolicyTrainer, config(), accelerator=None)
    for small in (token_batch(0.019), token_batch(-0.019), token_batch(0.0, tokens=0)):
        trainer._check_on_policy(small)
    for large in (token_batch(0.021), token_batch(-0.021)):
        with pytest.raises(OffPolicyError, match=r"differ by 0\.021 nats a token"):
            trainer._check_on_policy(large)


def test_all_processes_end_where_the_rollout_of_one_differs() -> None:
    gaps = [0.0, 0.5]

    def ended(process: Process) -> str:
        trainer = bare(PolicyTrainer, config(), _processes=2, accelerator=process)
        with pytest.raises(OffPolicyError) as caught:
            trainer._check_on_policy(token_batch(gaps[process.process_index]))
        return str(caught.value)

    first, second = in_both(ended)
    assert first == second
    assert "differ by 0.5 nats" in first


TOTALS = Totals(20, 5, 16, 4, 8, 2, 12)
LOGPROBS = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, -1.5, -2.5]])


def inputs() -> dict[str, torch.Tensor]:
    return {
        "old_logprobs": LOGPROBS - torch.tensor([[0.5], [-0.5]]),  # ratios on the sides that the betas weigh
        "old_entropy": torch.ones(2, 3),
        "advantages": torch.tensor([1.0, -1.0]),
        "completion_mask": torch.tensor([[1, 1, 0], [1, 1, 1]]),
        "correct": torch.tensor([True, False]),
        "active": torch.tensor([True, True]),
        "reference_logprobs": LOGPROBS - 0.2,
        **{f"totals/{name}": torch.tensor(float(value)) for name, value in vars(TOTALS).items()},
    }


@pytest.mark.parametrize(("updates", "beta1"), [(2, 0.5), (3, 0.25)])
def test_the_loss_is_the_objective_of_the_present_betas_over_the_totals_of_the_update(
    updates: int, beta1: float
) -> None:
    """The betas change after update 3."""
    added, checked = list[Any](), list[TokenBatch]()
    settings = config(
        loss__schedule=[{"step": 3, "beta1": 0.25}],
        terms={"entropy_bonus": {"coefficient": 0.1}, "positive_nll": 0.2, "kl": {"coefficient": 0.4}},
        aggregation={"mode": "seq_mean_token_sum_norm"},
    )
    logprobs_BT, entropy_BT = LOGPROBS.clone().requires_grad_(), torch.full((2, 3), 0.7)
    trainer = bare(
        PolicyTrainer,
        settings,
        _step=9,
        _batches_per_rollout=8,
        _entropy_coefficient=0.3,
        _positive_weight=0.6,
        _window_loss=torch.tensor(2.0),
        _logprobs=lambda model, rows: (logprobs_BT, entropy_BT) if model == "model" else None,
        _check_on_policy=checked.append,
        _stats=SimpleNamespace(add=lambda *args, **named: added.append((*args, named))),
        accelerator=SimpleNamespace(device=torch.device("cpu")),
        state=SimpleNamespace(global_step=updates),
        args=SimpleNamespace(gradient_accumulation_steps=2),
    )
    loss = trainer._compute_loss("model", inputs())
    params = CEGPPOParams(beta1=beta1)
    batch = trainer._token_batch(inputs(), logprobs_BT, entropy_BT)
    parts = settings.aggregation, settings.terms
    expected = objective(batch, params, *parts, entropy_coefficient=0.3, positive_weight=0.6, totals=TOTALS)
    assert loss.item() == expected.loss.item()
    assert expected.output.regions["na_lp"].any()
    assert trainer._window_loss.item() == pytest.approx(2.0 + loss.item())
    ((seen, result, gradient_BT, bounds),) = added
    assert (seen.logprobs_BT - batch.logprobs_BT).abs().sum() == 0
    assert result.loss is loss
    (expected_BT,) = torch.autograd.grad(expected.output.loss_BT.sum(), logprobs_BT, retain_graph=True)
    assert torch.equal(gradient_BT, expected_BT)
    assert bounds == {"bounds": (params.low, params.high)}
    loss.backward()  # the graph is still there
    for step, fresh in ((9, True), (10, False), (15, False), (16, True), (17, True)):
        checked.clear()
        trainer._step = step
        trainer._compute_loss("model", inputs())
        assert bool(checked) == fresh, step
