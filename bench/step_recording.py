"""The batches, policy and configuration that both sides of `step_time.py` train with."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from trainers.config import TrainingConfig
from trainers.losses import DAPOParams
from trainers.rollouts.rollout import RolloutTensors, counts, totals
from trainers.tasks import make_task

TURNS: Final = 1000
"""How often a process can repeat what was recorded."""

_DRIFT: Final = 0.15
"""Standard deviation, in nats, by which old log-probabilities differ from the policy's: a tenth of the tokens clip."""


@dataclass(frozen=True)
class Shape:
    """A policy and its batch."""

    hidden: int
    layers: int
    heads: int
    vocabulary: int
    sequences: int
    """Of an update, which is one device batch."""
    prompt: int
    completion: int
    """Longest; lengths are uniform from a quarter of it."""
    updates: int
    """Of a rollout, which is what one turn repeats."""

    def __str__(self) -> str:
        return (
            f"{self.sequences} x {self.completion} tokens, hidden {self.hidden}, {self.layers} layers, "
            f"vocabulary {self.vocabulary}"
        )


SHAPES: Final = {
    "embedded": Shape(64, 2, 4, 17, 64, 3, 12, updates=16),
    "medium": Shape(256, 4, 4, 8192, 8, 32, 256, updates=2),
}


def record(shape: Shape, folder: Path) -> None:
    """Write `config.json`, `model/` and `batches.pt`: a policy of random weights, and a rollout in device batches."""
    torch.manual_seed(0)
    config = _config(shape)
    (folder / "config.json").write_text(config.model_dump_json())
    tokenizer = make_task(config.task, folder).tokenizer()
    tokenizer.save_pretrained(folder / "model")
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=shape.vocabulary,
            hidden_size=shape.hidden,
            intermediate_size=4 * shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.heads,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    model.save_pretrained(folder / "model")
    rollout = _rollout(shape, tokenizer.pad_token_id)
    shares = totals(counts(rollout, config.aggregation), shape.updates, 1, shape.completion)
    once = {
        "num_items_in_batch": rollout.completion_mask.sum(),
        **{f"totals/{name}": torch.as_tensor(value) for name, value in vars(shares).items()},
    }
    batches: list[dict[str, Any]] = []
    for start in range(0, shape.updates * shape.sequences, shape.sequences):
        part = {name: tensor[start : start + shape.sequences] for name, tensor in rollout._asdict().items()}
        drift = _DRIFT if start else 0.0  # a rollout's first update is checked to have ratio 1
        batches.append({**part, **_old(model, part, drift), **once})
    torch.save(batches, folder / "batches.pt")


def _config(shape: Shape) -> TrainingConfig:
    return TrainingConfig.model_validate(
        {
            "loss": DAPOParams(),
            "rollout": {
                "prompts_per_rollout": 2 * shape.updates,
                "prompts_per_minibatch": 2,
                "completions_per_prompt": shape.sequences // 2,
                "max_completion_tokens": shape.completion,
            },
            "device_batch": shape.sequences,
            # so small that the recorded log-probabilities stay right however often a batch comes
            "optimizer": {"learning_rate": 1e-12, "warmup_steps": 0},
            "evaluation": {"every_steps": TURNS * shape.updates},
            "steps": TURNS * shape.updates,
            "checkpoint_every_rollouts": TURNS,
        }
    )


def _rollout(shape: Shape, pad: int) -> RolloutTensors:
    rows, width = shape.updates * shape.sequences, shape.completion
    lengths_B = torch.randint(width // 4, width + 1, (rows,))
    mask_BT = torch.arange(width) < lengths_B.unsqueeze(1)
    prompt_ids = torch.randint(shape.vocabulary, (rows, shape.prompt))
    correct_B = torch.rand(rows) < 0.5
    return RolloutTensors(
        prompt_ids=prompt_ids,
        prompt_mask=torch.ones_like(prompt_ids),
        completion_ids=torch.randint(shape.vocabulary, (rows, width)).masked_fill(~mask_BT, pad),
        completion_mask=mask_BT.long(),
        advantages=correct_B.float() * 2 - 1,
        correct=correct_B,
        active=torch.ones_like(correct_B),
    )


@torch.no_grad()
def _old(model: Any, part: dict[str, torch.Tensor], drift: float) -> dict[str, torch.Tensor]:
    """What the policy that sampled the tokens is said to have thought of them, in our words and in TRL's."""
    ids = torch.cat([part["prompt_ids"], part["completion_ids"]], 1)
    attention = torch.cat([part["prompt_mask"], part["completion_mask"]], 1)
    logits_BTV = model(input_ids=ids, attention_mask=attention).logits[:, part["prompt_ids"].size(1) - 1 : -1]
    logprobs_BTV = logits_BTV.log_softmax(-1)
    logprobs_BT = logprobs_BTV.gather(-1, part["completion_ids"].unsqueeze(-1)).squeeze(-1)
    entropy_BT = -(logprobs_BTV.exp() * logprobs_BTV).sum(-1)
    old_logprobs_BT = logprobs_BT + drift * torch.randn_like(logprobs_BT)
    return {
        "old_logprobs": old_logprobs_BT,
        "old_per_token_logps": old_logprobs_BT,
        "old_entropy": entropy_BT * (1 + drift * torch.randn_like(entropy_BT)),
    }
