"""From prompts to a rollout's tensors, without a model."""

import math
from collections.abc import Callable

import pytest
import torch

from trainers.config import DynamicSampling, RolloutConfig
from trainers.losses import AdvantageParams, AggregationParams, OverlongParams
from trainers.rollouts.rollout import (
    Group,
    PromptStream,
    Sample,
    as_tensors,
    collect,
    counts,
    engine_logprobs,
    has_spread,
    totals,
    with_entropy_rewards,
)
from trainers.tasks.base import Completion, Judgement

CPU = torch.device("cpu")


def group(*rewards: float | None, lengths: tuple[int, ...] | None = None, prompt: int = 7) -> Group:
    return [
        Sample(
            [prompt] * (prompt % 3 + 1),
            [5] * length,
            Completion("x" * length, length, truncated=False),
            Judgement(reward, correct=reward == 1),
        )
        for reward, length in zip(rewards, lengths or (2,) * len(rewards), strict=True)
    ]


def rollout(
    prompts: int, dynamic: DynamicSampling | None = None, overlong: OverlongParams | None = None
) -> RolloutConfig:
    return RolloutConfig(
        prompts_per_rollout=prompts,
        prompts_per_minibatch=prompts,
        completions_per_prompt=2,
        max_completion_tokens=8,
        dynamic_sampling=dynamic,
        overlong=overlong,
    )


def stream(rank: int = 0, processes: int = 1, problems: int = 5) -> PromptStream:
    return PromptStream(problems, seed=3, rank=rank, processes=processes)


def test_every_epoch_of_the_stream_is_another_permutation() -> None:
    prompts = stream()
    epochs = [prompts.take(5) for _ in range(4)]
    assert all(sorted(epoch) == list(range(5)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert PromptStream(5, seed=4, rank=0, processes=1).take(5) != epochs[0]


def test_a_stream_goes_on_from_any_position() -> None:
    whole = stream().take(23)
    for position in (0, 4, 5, 11, 22):
        later = stream()
        later.position = position
        assert later.take(23 - position) == whole[position:]


def test_processes_share_the_stream_of_one() -> None:
    one, parts = stream(), [stream(rank, 3) for rank in range(3)]
    for _ in range(4):
        shares = [part.take(6) for part in parts]
        assert [shares[place % 3][place // 3] for place in range(6)] == one.take(6)


def sampler(mixed: Callable[[int], bool]) -> tuple[Callable[[list[int]], list[Group]], list[list[int]]]:
    asked: list[list[int]] = []

    def sample(indices: list[int]) -> list[Group]:
        asked.append(indices)
        return [group(1, 0, prompt=i) if mixed(i) else group(1, 1, prompt=i) for i in indices]

    return sample, asked


def is_mixed(members: Group) -> bool:
    return members[0].judgement.reward != members[1].judgement.reward


def test_without_dynamic_sampling_every_group_is_trained_on() -> None:
    sample, asked = sampler(lambda index: index == 0)
    collected = collect(rollout(4), stream(), 1, sample, bool)
    assert [len(indices) for indices in asked] == [4]
    assert (len(collected.groups), collected.sampled) == (4, 4)


def test_dynamic_sampling_refills_until_all_groups_have_a_spread() -> None:
    sample, asked = sampler(lambda index: index % 2 == 0)
    prompts = stream()
    collected = collect(rollout(4, DynamicSampling(prompts_per_round=3, max_rounds=9)), prompts, 1, sample, bool)
    assert len(collected.groups) == 4
    assert all(map(is_mixed, collected.groups))
    assert collected.sampled == prompts.position == sum(map(len, asked))
    assert sum(index % 2 == 0 for indices in asked[:-1] for index in indices) < 4


def test_what_is_missing_after_the_last_round_is_filled_without_a_spread() -> None:
    sample, _ = sampler(lambda index: index == 0)
    collected = collect(rollout(4, DynamicSampling(prompts_per_round=5, max_rounds=2)), stream(), 1, sample, bool)
    assert [is_mixed(members) for members in collected.groups] == [True, True, False, False]
    assert collected.sampled == 10


def test_all_processes_sample_as_often_as_the_neediest() -> None:
    sample, asked = sampler(lambda _: True)
    dynamic = DynamicSampling(prompts_per_round=4, max_rounds=3)
    collected = collect(rollout(4, dynamic), stream(0, 2), 2, sample, lambda _: len(asked) < 3)
    assert [len(indices) for indices in asked] == [2, 2, 2]
    assert len(collected.groups) == 2


def test_rows_are_padded_on_both_sides_and_advantages_are_the_groups() -> None:
    groups = [group(1, 0, lengths=(1, 3), prompt=6), group(1, 1, lengths=(2, 2), prompt=8)]
    tensors = as_tensors(groups, rollout(2), AdvantageParams(epsilon=0), 9, CPU)
    assert tensors.prompt_ids.tolist() == [[9, 9, 6], [9, 9, 6], [8, 8, 8], [8, 8, 8]]
    assert tensors.prompt_mask.tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 1], [1, 1, 1]]
    assert tensors.completion_ids.tolist() == [[5, 9, 9], [5, 5, 5], [5, 5, 9], [5, 5, 9]]
    assert tensors.completion_mask.sum(1).tolist() == [1, 3, 2, 2]
    assert tensors.advantages.tolist() == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5), 0, 0])
    assert tensors.correct.tolist() == [True, False, True, True]
    assert tensors.active.tolist() == [True, True, False, False]


def test_a_judge_that_failed_gives_no_advantage() -> None:
    tensors = as_tensors([group(1, None, 0, None)], rollout(1), AdvantageParams(epsilon=0), 9, CPU)
    assert tensors.advantages.tolist() == pytest.approx([math.sqrt(0.5), 0, -math.sqrt(0.5), 0])


def test_overlong_completions_are_worth_less_which_makes_a_group_active() -> None:
    groups = [group(1, 1, lengths=(4, 8))]
    tensors = as_tensors(groups, rollout(1, overlong=OverlongParams(cache_tokens=4)), AdvantageParams(), 9, CPU)
    assert tensors.advantages[0] > 0 > tensors.advantages[1]
    assert tensors.active.tolist() == [True, True]


def test_rewards_shared_out_by_entropy_replace_the_advantages_and_what_is_active() -> None:
    """A wrong completion counts -1, less its penalty for length; the group without a wrong one is not active."""
    groups = [group(1, 0, lengths=(1, 8)), group(1, 1, lengths=(2, 2))]
    config, params = rollout(2, overlong=OverlongParams(cache_tokens=4)), {"share": 0.1, "level": "token"}
    off, on = AdvantageParams(normalize_std=False), {"normalize_std": False, "entropy_reward": params}
    tensors = as_tensors(groups, config, off, 9, CPU)
    entropy_BT = torch.ones(4, 8)
    assert with_entropy_rewards(tensors, groups, config, off, entropy_BT) is tensors
    shaped = with_entropy_rewards(tensors, groups, config, AdvantageParams.model_validate(on), entropy_BT)
    mean = (1.1 - 8 * 2.1) / 9
    expected = [[1.1 - mean, *[0.0] * 7], [-2.1 - mean] * 8, [0.0] * 8, [0.0] * 8]
    torch.testing.assert_close(shaped.advantages, torch.tensor(expected))
    assert shaped.active.tolist() == [True, True, False, False]
    assert shaped.correct is tensors.correct


def test_denominators_share_a_rollout_out_over_updates_and_processes() -> None:
    groups = [group(1, 0, lengths=(1, 3)), group(1, 1, lengths=(2, 2))]
    tensors = as_tensors(groups, rollout(2), AdvantageParams(), 9, CPU)
    counted = counts(tensors, AggregationParams())
    assert counted.tolist() == [8, 4, 4, 2, 5, 3]
    assert counts(tensors, AggregationParams(denominator="active")).tolist() == [8, 4, 4, 2, 1, 1]
    shares = totals(counted * 2, updates_per_rollout=4, processes=2, max_completion_tokens=8)
    assert (float(shares.tokens), float(shares.sequences)) == (2, 1)
    assert (float(shares.active_tokens), float(shares.active_sequences)) == (1, 0.5)
    assert (float(shares.correct_tokens), float(shares.correct_sequences)) == (1.25, 0.75)
    assert shares.width == 4


def test_what_a_rollout_cannot_be_is_refused_all_at_once() -> None:
    with pytest.raises(ValueError, match=r"rollout\.prompts_per_rollout 5 is not a multiple") as caught:
        RolloutConfig(
            prompts_per_rollout=5,
            prompts_per_minibatch=2,
            max_completion_tokens=8,
            dynamic_sampling=DynamicSampling(prompts_per_round=2, max_rounds=2),
            overlong=OverlongParams(cache_tokens=9),
        )
    assert "draws at most 2 x 2 prompts, fewer than prompts_per_rollout 5" in str(caught.value)
    assert "overlong.cache_tokens 9 exceeds max_completion_tokens 8" in str(caught.value)


def test_a_completion_on_which_the_judge_failed_makes_no_spread() -> None:
    assert not has_spread(group(1.0, None, 1.0))
    assert not has_spread(group(None, None))
    assert has_spread(group(1.0, None, 0.0))


def test_log_probabilities_of_the_engine_stand_at_their_tokens() -> None:
    first, second = group(1, 0, lengths=(1, 3))
    groups = [[first._replace(logprobs=[-0.5]), second._replace(logprobs=[-1.0, math.nan, -2.0])]]
    logprobs_BT = engine_logprobs(groups, CPU)
    assert logprobs_BT is not None
    assert str(logprobs_BT.tolist()) == "[[-0.5, 0.0, 0.0], [-1.0, nan, -2.0]]"
    assert engine_logprobs([[first, second]], CPU) is None
