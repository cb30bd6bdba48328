"""The value head in the trainer: what it reads, what it is trained on, and how it is optimised, shared and saved."""

import math
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.unit.trainers.training.bare_trainers import config
from tests.unit.trainers.two_processes import ONE_PROCESS, Process, in_both
from trainers.losses import CriticParams, gae
from trainers.record.metrics import STEP_SECTIONS
from trainers.record.rollout_stats import NO_CRITIC, critic_stats
from trainers.training.value_head import Critic


class Layers(torch.nn.Module):
    """Hidden states of 3 numbers: the token's id, its square, 1."""

    def forward(self, ids_BS: Tensor) -> Any:
        return SimpleNamespace(last_hidden_state=torch.stack([ids_BS, ids_BS**2, torch.ones_like(ids_BS)], -1))


def critic_of(accelerator: Any = ONE_PROCESS, **settings: Any) -> tuple[Critic, Layers]:
    layers = Layers()
    text = SimpleNamespace(hidden_size=3)
    policy = SimpleNamespace(base_model=layers, config=SimpleNamespace(get_text_config=lambda: text))
    training = config(critic=settings, optimizer={"max_grad_norm": 0.5, "weight_decay": 0.1, "learning_rate": 0.02})
    assert training.critic is not None
    return Critic(training.critic, policy, training, accelerator), layers


def test_a_value_belongs_to_the_state_before_its_token_and_begins_at_0() -> None:
    critic, layers = critic_of()
    layers(torch.ones(1, 2))  # outside: nothing is kept
    ids_BS = torch.tensor([[2.0, 3, 4, 5], [6, 7, 8, 9]])
    with critic.reading():
        layers(ids_BS)
    assert not critic.values(2).any()
    with torch.no_grad():
        critic.head.weight.copy_(torch.tensor([[1.0, 0, 0]]))
        critic.head.bias.fill_(0.5)
    with critic.reading():
        for row_1S in ids_BS.split(1):  # as in device batches
            layers(row_1S)
    assert critic.values(2).tolist() == [[3.5, 4.5], [7.5, 8.5]]
    with pytest.raises(AssertionError, match="read nothing"):
        critic.values(2)


def test_a_block_that_fails_leaves_nothing_behind() -> None:
    critic, layers = critic_of()
    with suppress(MemoryError), critic.reading():
        layers(torch.ones(1, 2))
        raise MemoryError
    layers(torch.ones(1, 2))
    with pytest.raises(AssertionError, match="read nothing"):
        critic.values(1)


REWARDS_B = torch.tensor([1.0, 0.0, math.nan, 1.0])
VALUES_BT = torch.tensor([[0.5, 0.25, 9.0], [0.125, 9, 9], [0.3, 0.3, 9], [0.2, 0.1, 0.4]])
MASK_BT = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])


def test_targets_are_advantages_plus_values_and_nothing_for_what_was_not_judged() -> None:
    tensors, stats = critic_of(normalize=False, gae_lambda=0.5)[0].targets(REWARDS_B, VALUES_BT, MASK_BT)
    assert tensors["advantages"][0].tolist() == [0.125, 0.75, 0]
    assert tensors["returns"][0, :2].tolist() == [0.625, 1.0]
    assert tensors["returns"][2].isnan().all()
    assert not tensors["advantages"][2].any()
    judged = [(0, 0), (0, 1), (1, 0), (3, 0), (3, 1), (3, 2)]
    values, returns = ([part_BT[place].item() for place in judged] for part_BT in (VALUES_BT, tensors["returns"]))
    left = [target - value for value, target in zip(values, returns, strict=True)]
    assert stats == pytest.approx(
        {
            "critic/value_mean": sum(values) / 6,
            "critic/return_mean": sum(returns) / 6,
            "critic/explained_variance": 1 - torch.tensor(left).var().item() / torch.tensor(returns).var().item(),
        },
        rel=1e-5,
    )


def test_advantages_are_normalised_over_the_tokens_of_all_processes() -> None:
    whole, stats = critic_of(gae_lambda=0.5)[0].targets(REWARDS_B, VALUES_BT, MASK_BT)
    raw_BT = gae(REWARDS_B, VALUES_BT, MASK_BT, CriticParams(gae_lambda=0.5))
    judged_BT = MASK_BT.bool() & ~REWARDS_B.isnan().unsqueeze(1)
    raw_N = raw_BT[judged_BT]
    torch.testing.assert_close(
        whole["advantages"][judged_BT], (raw_N - raw_N.mean()) / raw_N.std(), rtol=1e-5, atol=1e-5
    )
    assert not whole["advantages"][~judged_BT].any()
    parts = [slice(0, 1), slice(1, 4)]

    def of_process(process: Process) -> Any:
        part = parts[process.process_index]
        return critic_of(process, gae_lambda=0.5)[0].targets(REWARDS_B[part], VALUES_BT[part], MASK_BT[part])

    results = in_both(of_process)
    torch.testing.assert_close(torch.cat([tensors["advantages"] for tensors, _ in results]), whole["advantages"])
    assert [of_one for _, of_one in results] == [pytest.approx(stats)] * 2


def test_metrics_of_nothing_are_null() -> None:
    assert NO_CRITIC.keys() == STEP_SECTIONS["Critic"].keys()
    nothing, equal = torch.zeros(3), torch.tensor([2.0, 2.0, 2.0])
    assert critic_stats(nothing, nothing, nothing) == NO_CRITIC
    assert critic_stats(equal, equal, equal)["critic/explained_variance"] is None


def test_the_heads_gradient_is_the_mean_over_processes_and_is_cut_by_itself() -> None:
    def of_process(process: Process) -> Any:
        critic, _ = critic_of(process)
        for parameter in critic.head.parameters():
            parameter.grad = torch.full_like(parameter, float(process.process_index))
        norm = critic.clip_grad_norm()
        gradients: Any = [parameter.grad for parameter in critic.head.parameters()]
        return norm.item(), [gradient.flatten().tolist() for gradient in gradients]

    for norm, gradients in in_both(of_process):
        assert norm == pytest.approx(1.0)  # of four times one half
        assert gradients == [pytest.approx([0.25] * 3, rel=1e-5), pytest.approx([0.25], rel=1e-5)]


def test_the_head_is_optimised_beside_the_policy_and_begins_each_update_anew() -> None:
    critic, _ = critic_of(learning_rate=0.5)
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight], lr=0.02)
    critic.join(optimizer)
    groups = [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups[1:]]
    assert groups == [(0.5, 0.1), (0.5, 0.0)]
    for parameter in critic.head.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert critic.head.weight[0].tolist() == pytest.approx([-0.5] * 3, rel=1e-3)
    assert [parameter.grad for parameter in critic.head.parameters()] == [None, None]
    other, _ = critic_of()
    other.join(optimizer)
    assert optimizer.param_groups[-1]["lr"] == 0.02


def test_a_head_comes_back_as_it_was(tmp_path: Path) -> None:
    critic, restored = critic_of()[0], critic_of()[0]
    with torch.no_grad():
        critic.head.weight.copy_(torch.tensor([[0.1, 0.2, 0.3]]))
        critic.head.bias.fill_(0.4)
    critic.save(tmp_path)
    restored.load(tmp_path)
    for ours, other in zip(critic.head.parameters(), restored.head.parameters(), strict=True):
        assert torch.equal(ours, other)
