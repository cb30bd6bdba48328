"""Makes the tiny policy: a Qwen2 model from scratch, taught a task's worked examples, cached by its recipe's digest.

On the default task the result is right half of the time and its entropy is high, so that training can raise the reward
and lower the entropy. A warm start that is stopped, or killed, goes on from its last saved step to the same weights.
"""

import hashlib
import io
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import tokenizers
import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from trainers import tasks
from trainers.config import TinyPolicy
from trainers.errors import StoppedError
from trainers.process.durable import move_whole, write_whole
from trainers.process.events import EventWriter
from trainers.process.locks import locked
from trainers.process.progress import Announcer, tracked
from trainers.tasks import Task

_BATCH: Final = 128
_LEARNING_RATE: Final = 1e-3
_CONTEXT: Final = 2**17
"""Largest number of tokens in a prompt and completion that settings allow. Rotary positions take no memory."""
_IGNORED: Final = -100
_SAVED_EVERY: Final = 100
"""Steps after which an unfinished warm start is saved; some seconds of work, and milliseconds to write."""
_PROGRESS_FILE: Final = "progress.pt"


def warm_started(model: TinyPolicy, task: Task, cache: Path, events: EventWriter, stopping: Callable[[], bool]) -> Path:
    """Return the folder of the warm-started model and its tokenizer, making it if no run has made it before.

    Processes that need the same model wait for the first to make it.
    Raises: StoppedError, if `stopping()` becomes true meanwhile; what is done of the warm start is saved.
    """
    target = cache / f"tiny-qwen2-{_recipe_digest(model, task)}"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    waiting = Announcer(events, "waiting for another run's warm start", 1)

    def wait() -> None:
        if stopping():
            raise StoppedError("stopped while another run made the warm start")
        waiting.announce(0)

    with locked(target.with_suffix(".lock"), wait):
        if not target.exists():
            unfinished = target.with_suffix(".unfinished")
            unfinished.mkdir(exist_ok=True)
            tokenizer, progress = task.tokenizer(), unfinished / _PROGRESS_FILE
            policy = _taught(model, task, tokenizer, progress, events, stopping)
            shutil.rmtree(unfinished)
            policy.save_pretrained(unfinished)
            tokenizer.save_pretrained(unfinished)
            move_whole(unfinished, target)
    return target


def _recipe_digest(model: TinyPolicy, task: Task) -> str:
    """Return a digest of everything that determines the weights: configuration, code and library versions."""
    code = [Path(__file__), *sorted(Path(tasks.__file__).parent.glob("*.py"))]
    recipe = {
        "model": model.model_dump(exclude={"lora"}),
        "task": task.recipe,
        "code": [file.read_text(encoding="utf-8") for file in code],
        "versions": [library.__version__ for library in (torch, transformers, tokenizers)],
    }
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]


def _taught(
    model: TinyPolicy,
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    progress: Path,
    events: EventWriter,
    stopping: Callable[[], bool],
) -> Qwen2ForCausalLM:
    policy = _untaught(model, tokenizer)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=_LEARNING_RATE, fused=True)
    random_numbers, done = random.Random(model.warm_start_seed), 0
    if progress.exists():
        saved = torch.load(progress)
        policy.load_state_dict(saved["policy"])
        optimizer.load_state_dict(saved["optimizer"])
        random_numbers.setstate(saved["random"])
        done = saved["step"]
    batches = _batches(task, tokenizer, model.warm_start_steps - done, random_numbers)
    announced = tracked(batches, "warm start", model.warm_start_steps, events, done)
    for step, (ids_BT, labels_BT) in enumerate(announced, done + 1):
        hidden_BTH = policy.model(input_ids=ids_BT).last_hidden_state
        answered_BT = labels_BT != _IGNORED
        cross_entropy(policy.lm_head(hidden_BTH[answered_BT]), labels_BT[answered_BT]).backward()
        optimizer.step()
        optimizer.zero_grad()
        stop = stopping()
        if stop or step % _SAVED_EVERY == 0:
            states = {"policy": policy.state_dict(), "optimizer": optimizer.state_dict()}
            content = io.BytesIO()
            torch.save({"step": step, "random": random_numbers.getstate(), **states}, content)
            write_whole(progress, content.getvalue())
        if stop:
            raise StoppedError(f"stopped after step {step} of the warm start; it goes on from there next time")
    return policy


def _untaught(model: TinyPolicy, tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    special: dict[str, Any] = {
        name: getattr(tokenizer, name) for name in ("pad_token_id", "eos_token_id", "bos_token_id")
    }
    architecture = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=model.hidden_size,
        intermediate_size=4 * model.hidden_size,
        num_hidden_layers=model.num_layers,
        num_attention_heads=model.num_heads,
        num_key_value_heads=model.num_heads,
        max_position_embeddings=_CONTEXT,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        **special,
    )
    torch.manual_seed(model.warm_start_seed)
    return Qwen2ForCausalLM(architecture)


def _batches(
    task: Task, tokenizer: PreTrainedTokenizerFast, steps: int, random_numbers: random.Random
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield token ids (B, T), padded on the right, and the labels (B, T) of their next tokens, answers only."""
    for _ in range(steps):
        examples = [task.worked_example(random_numbers) for _ in range(_BATCH)]
        prompts, answers = (tokenizer(list(texts))["input_ids"] for texts in zip(*examples, strict=True))
        rows = [[*prompt, *answer, tokenizer.eos_token_id] for prompt, answer in zip(prompts, answers, strict=True)]
        width = max(map(len, rows))
        ids_BT = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
        positions_T = torch.arange(width)
        prompt_B1 = torch.tensor([[len(prompt)] for prompt in prompts])
        length_B1 = torch.tensor([[len(row)] for row in rows])
        labels_BT = ids_BT.where((positions_T >= prompt_B1) & (positions_T < length_B1), _IGNORED)
        yield ids_BT[:, :-1], labels_BT[:, 1:]
