"""What a rollout must be, worked out again from its token ids and the model that sampled them."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tests.proof.plain_loop import DeviceBatch, scored
from tests.proof.runs import Recording, device_batch
from trainers.config import TrainingConfig
from trainers.tasks.base import Completion, Problem

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
    groups = [rewards[start : start + size] for start in range(0, len(rewards), size)]
    advantages = [advantage for group in groups for advantage in _advantages(group, config)]
    torch.testing.assert_close(rows.advantages_B, torch.tensor(advantages).double(), rtol=FLOAT32, atol=FLOAT32)
    assert rows.active_B.tolist() == [len(set(group)) > 1 for group in groups for _ in group]
    with torch.no_grad():
        logprobs_BT, entropy_BT = scored(recording.model(recording.old[index]), rows, config.rollout.temperature)
    for ours_BT, plain_BT in ((rows.old_logprobs_BT, logprobs_BT), (rows.old_entropy_BT, entropy_BT)):
        mask_BT = rows.mask_BT.bool()
        torch.testing.assert_close(ours_BT[mask_BT], plain_BT[mask_BT], rtol=ROUNDING, atol=ROUNDING)
    batches = [batch for update in recording.rollouts[index] for batch in update]
    assert _each_row(batches) == _each_row([rows]), "the updates of a rollout are its rows, each once"


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


def _advantages(rewards: Sequence[float], config: TrainingConfig) -> list[float]:
    mean = sum(rewards) / len(rewards)
    variance = sum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)
    divisor = math.sqrt(variance) + config.advantage.epsilon if config.advantage.normalize_std else 1.0
    return [(reward - mean) / divisor for reward in rewards]


def _each_row(batches: Sequence[DeviceBatch]) -> list[tuple[object, ...]]:
    rows = [
        (*batch.completion_ids_BT[row].tolist(), batch.advantages_B[row].item(), *batch.old_logprobs_BT[row].tolist())
        for batch in batches
        for row in range(len(batch.mask_BT))
    ]
    return sorted(rows)
