"""A rollout worked out again from its token ids and the model that sampled them."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tests.proof.plain_entropy_rewards import entropy_rewarded
from tests.proof.plain_loop import DeviceBatch, Head, scored, valued
from tests.proof.plain_losses import Values, generalised_advantages
from tests.proof.runs import Recording, device_batch
from trainers.config import TrainingConfig
from trainers.tasks.base import Completion, Judgement, Problem

ROUNDING = 1e-9
FLOAT32 = 1e-5  # advantages are float32


def assert_rollout_is_right(recording: Recording, index: int, config: TrainingConfig) -> None:
    """Masks, judgements, advantages, old log-probabilities and entropies, and denominators of a rollout."""
    sampled, size = recording.sampled[index], config.rollout.completions_per_prompt
    rows = device_batch(sampled, None)
    prompts = [_text(recording, ids, mask) for ids, mask in zip(rows.prompt_ids_BP, rows.prompt_mask_BP, strict=True)]
    assert prompts == [prompts[row // size * size] for row in range(len(prompts))], "a group has one prompt"
    completions = [_completion(recording, ids) for ids in rows.completion_ids_BT]
    lengths = [completion.tokens for completion in completions]
    width = rows.mask_BT.shape[1]
    assert rows.mask_BT.tolist() == [[int(t < length) for t in range(width)] for length in lengths]
    problems = [Problem(prompt, prompt.removesuffix("=")) for prompt in prompts]
    judgements = recording.task.judge(problems, completions)
    assert rows.correct_B.tolist() == [judgement.correct for judgement in judgements]
    rewards = [
        (judgement.reward or 0.0) + _overlong(completion.tokens, config)
        for judgement, completion in zip(judgements, completions, strict=True)
    ]
    with torch.no_grad():
        logprobs_BT, entropy_BT = scored(recording.model(recording.old[index]), rows, config.rollout.temperature)
    entropies = [entropy_BT[row, :length].tolist() for row, length in enumerate(lengths)]
    groups = [slice(start, start + size) for start in range(0, len(rewards), size)]
    if config.critic is not None:
        _assert_critic_is_right(recording, index, rows, rewards, config)
    for group in () if config.critic is not None else groups:
        advantages = _advantages(rewards[group], judgements[group], lengths[group], entropies[group], config)
        for ours_T, plain, length in zip(rows.advantages_BT[group], advantages, lengths[group], strict=True):
            torch.testing.assert_close(ours_T[:length], torch.tensor(plain).double(), rtol=FLOAT32, atol=FLOAT32)
    shared_out = config.advantage.entropy_reward is not None
    differ = [{j.correct for j in judgements[group]} if shared_out else set(rewards[group]) for group in groups]
    assert rows.active_B.tolist() == [len(values) > 1 for values in differ for _ in range(size)]
    for ours_BT, plain_BT in ((rows.old_logprobs_BT, logprobs_BT), (rows.old_entropy_BT, entropy_BT)):
        mask_BT = rows.mask_BT.bool()
        torch.testing.assert_close(ours_BT[mask_BT], plain_BT[mask_BT], rtol=ROUNDING, atol=ROUNDING)
    batches = [batch for update in recording.rollouts[index] for batch in update]
    assert _each_row(batches) == _each_row([rows]), "the updates of a rollout are its rows, each once"


def _assert_critic_is_right(
    recording: Recording, index: int, rows: DeviceBatch, rewards: Sequence[float], config: TrainingConfig
) -> None:
    """Values, their targets, and advantages with mean 0 and deviation 1 over all tokens of the rollout."""
    assert config.critic is not None
    assert rows.old_values_BT is not None
    assert rows.returns_BT is not None
    critic, mask_BT, head = config.critic, rows.mask_BT.bool(), recording.heads[index]
    with torch.no_grad():
        values_BT = valued(recording.model(recording.old[index]), Head(head["weight"], head["bias"]), rows)
    torch.testing.assert_close(rows.old_values_BT[mask_BT], values_BT[mask_BT], rtol=ROUNDING, atol=ROUNDING)
    values = Values(critic.gae_lambda, critic.gamma, critic.value_coeff, 0.0, 0.0)
    before = [row[mask].tolist() for row, mask in zip(values_BT, mask_BT, strict=True)]
    raw = [
        advantage
        for reward, row in zip(torch.tensor(rewards).tolist(), before, strict=True)  # which are float32
        for advantage in generalised_advantages(values, reward, row)
    ]
    targets = torch.tensor(raw, dtype=torch.float64) + values_BT[mask_BT]
    torch.testing.assert_close(rows.returns_BT[mask_BT], targets, rtol=ROUNDING, atol=ROUNDING)
    mean = sum(raw) / len(raw)
    variance = sum((advantage - mean) ** 2 for advantage in raw) / (len(raw) - 1)
    scaled = [(advantage - mean) / math.sqrt(variance + 1e-8) for advantage in raw]
    assert critic.normalize
    torch.testing.assert_close(rows.advantages_BT[mask_BT].tolist(), scaled, rtol=ROUNDING, atol=ROUNDING)


def _text(recording: Recording, ids: Tensor, mask: Tensor) -> str:
    real = int(mask.sum())
    assert mask.tolist() == [0] * (len(mask) - real) + [1] * real, "prompts are padded on the left"
    return recording.characters.decode(ids[len(mask) - real :])


def _completion(recording: Recording, ids_T: Tensor) -> Completion:
    ids, end = ids_T.tolist(), recording.characters.eos_token_id
    length = ids.index(end) + 1 if end in ids else len(ids)
    text = recording.characters.decode(ids[: length - (end in ids)])
    return Completion(text, length, truncated=end not in ids)


def _overlong(length: int, config: TrainingConfig) -> float:
    overlong = config.rollout.overlong
    if overlong is None:
        return 0.0
    excess = length - (config.rollout.max_completion_tokens - overlong.cache_tokens)
    return -overlong.factor * max(excess, 0) / overlong.cache_tokens


def _advantages(
    rewards: Sequence[float],
    judgements: Sequence[Judgement],
    lengths: Sequence[int],
    entropies: Sequence[Sequence[float]],
    config: TrainingConfig,
) -> list[list[float]]:
    """Return the advantage of each token of a group's completions."""
    shares = config.advantage.entropy_reward
    if shares is None:
        return [[value] * length for value, length in zip(_of_group(rewards, config), lengths, strict=True)]
    penalties = [_overlong(length, config) for length in lengths]
    return entropy_rewarded(
        [(j.reward or 0.0 if j.correct else -1.0) + p for j, p in zip(judgements, penalties, strict=True)],
        [j.correct for j in judgements],
        entropies,
        per_token=shares.level == "token",
        base=shares.base,
        share=shares.share,
        own_set=shares.compared == "set",
        divisor_offset=config.advantage.epsilon if config.advantage.normalize_std else None,
    )


def _of_group(rewards: Sequence[float], config: TrainingConfig) -> list[float]:
    mean = sum(rewards) / len(rewards)
    variance = sum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)
    divisor = math.sqrt(variance) + config.advantage.epsilon if config.advantage.normalize_std else 1.0
    return [(reward - mean) / divisor for reward in rewards]


def _each_row(batches: Sequence[DeviceBatch]) -> list[tuple[object, ...]]:
    rows = [
        (
            *batch.completion_ids_BT[row].tolist(),
            *batch.advantages_BT[row].tolist(),
            *batch.old_logprobs_BT[row].tolist(),
        )
        for batch in batches
        for row in range(len(batch.mask_BT))
    ]
    return sorted(rows)
