"""Makes the tiny policy: a Qwen2 model from scratch, taught random right answers, cached by the content of its recipe.

The result can do the task half of the time and is far from certain how: there is something to gain by reward and
entropy to lose.
"""

import fcntl
import hashlib
import json
import random
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers import Qwen2Config, Qwen2ForCausalLM

from trainers.config import ExpressionsTask, TinyPolicy
from trainers.errors import StoppedError
from trainers.events import EventWriter
from trainers.progress import Announcer, tracked
from trainers.tasks import expressions
from trainers.tasks.expressions import ALPHABET, END, PAD, START, Expressions, character_tokenizer

_BATCH: Final = 128
_LEARNING_RATE: Final = 1e-3
_IGNORED: Final = -100
_LOCK_POLL_S: Final = 0.2


def warm_started(
    model: TinyPolicy, task: ExpressionsTask, cache: Path, events: EventWriter, stopping: Callable[[], bool]
) -> Path:
    """The folder of the warm-started model and its tokenizer; made now if no run has made it before.

    Processes that need the same model wait for the first to make it.
    Raises: StoppedError, if `stopping()` becomes true meanwhile.
    """
    target = cache / f"tiny-qwen2-{_recipe_digest(model, task)}"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    waiting = Announcer(events, "waiting for another run's warm start", 1)
    with _locked(target.with_suffix(".lock"), waiting, stopping):
        if not target.exists():
            unfinished = target.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            _taught(model, task, events, stopping).save_pretrained(unfinished)
            character_tokenizer().save_pretrained(unfinished)
            unfinished.rename(target)
    return target


def _recipe_digest(model: TinyPolicy, task: ExpressionsTask) -> str:
    """Names everything the weights follow from: configuration, code and library versions."""
    recipe = {
        "model": model.model_dump(),
        "numbers": [task.smallest, task.largest],
        "code": [Path(file).read_text(encoding="utf-8") for file in (__file__, expressions.__file__)],
        "versions": [torch.__version__, transformers.__version__],
    }
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]


def _taught(
    model: TinyPolicy, task: ExpressionsTask, events: EventWriter, stopping: Callable[[], bool]
) -> Qwen2ForCausalLM:
    torch.manual_seed(model.warm_start_seed)
    policy = Qwen2ForCausalLM(_architecture(model))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=_LEARNING_RATE, fused=True)
    batches = _batches(Expressions(task), model.warm_start_steps, model.warm_start_seed)
    for ids_BT, labels_BT in tracked(batches, "warm start", model.warm_start_steps, events):
        if stopping():
            raise StoppedError("stopped during the warm start; it starts anew next time")
        hidden_BTH = policy.model(input_ids=ids_BT).last_hidden_state
        answered_BT = labels_BT != _IGNORED
        cross_entropy(policy.lm_head(hidden_BTH[answered_BT]), labels_BT[answered_BT]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return policy


def _architecture(model: TinyPolicy) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=len(ALPHABET),
        hidden_size=model.hidden_size,
        intermediate_size=4 * model.hidden_size,
        num_hidden_layers=model.num_layers,
        num_attention_heads=model.num_heads,
        num_key_value_heads=model.num_heads,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        pad_token_id=ALPHABET.index(PAD),
        eos_token_id=ALPHABET.index(END),
        bos_token_id=ALPHABET.index(START),
    )


def _batches(task: Expressions, steps: int, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield token ids (B, T), padded on the right, and the labels (B, T) of their next tokens, answers only."""
    random_numbers = random.Random(seed)
    number_of = {character: index for index, character in enumerate(ALPHABET)}
    for _ in range(steps):
        solved = [task.solved_problem(random_numbers) for _ in range(_BATCH)]
        rows = [[number_of[character] for character in (*prompt, *answer, END)] for prompt, answer in solved]
        width = max(map(len, rows))
        ids_BT = torch.tensor([row + [number_of[PAD]] * (width - len(row)) for row in rows])
        positions_T = torch.arange(width)
        prompt_B1 = torch.tensor([[len(prompt)] for prompt, _ in solved])
        length_B1 = torch.tensor([[len(row)] for row in rows])
        labels_BT = ids_BT.where((positions_T >= prompt_B1) & (positions_T < length_B1), _IGNORED)
        yield ids_BT[:, :-1], labels_BT[:, 1:]


@contextmanager
def _locked(path: Path, waiting: Announcer, stopping: Callable[[], bool]) -> Generator[None]:
    """Hold an exclusive lock on `path`; the kernel frees it when its holder dies, however it dies."""
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stopping():
                    raise StoppedError("stopped while another run made the warm start") from None
                waiting.announce(0)
                time.sleep(_LOCK_POLL_S)
        yield
