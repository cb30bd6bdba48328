"""The settings that make a warm-started model, and so name its folder in the cache."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from trainers.config import ExpressionsTask, TinyPolicy
from trainers.policy import warm_start
from trainers.policy.warm_start import _batches, _recipe_digest
from trainers.tasks.base import Completion, Problem
from trainers.tasks.expressions import Expressions

TASK = Expressions(ExpressionsTask(), Path("absent"))
OTHERS: dict[str, Any] = {
    "hidden_size": 32,
    "num_layers": 3,
    "num_heads": 2,
    "warm_start_steps": 7,
    "warm_start_seed": 5,
}
DIGEST = _recipe_digest(TinyPolicy(), TASK)


def test_every_setting_of_the_model_is_part_of_it_but_adapters_which_come_later() -> None:
    assert OTHERS.keys() | {"name", "lora"} == TinyPolicy.model_fields.keys()
    digests = {_recipe_digest(TinyPolicy(**{name: value}), TASK) for name, value in OTHERS.items()}
    assert len(digests | {DIGEST}) == len(OTHERS) + 1
    assert _recipe_digest(TinyPolicy.model_validate({"lora": {}}), TASK) == DIGEST


def test_the_recipe_of_the_task_the_code_and_the_libraries_are_part_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    digests = {DIGEST, _recipe_digest(TinyPolicy(), Expressions(ExpressionsTask(largest=98), Path("absent")))}
    for library in (warm_start.torch, warm_start.transformers, warm_start.tokenizers):
        with monkeypatch.context() as patch:
            patch.setattr(library, "__version__", "0")
            digests.add(_recipe_digest(TinyPolicy(), TASK))
    (tmp_path / "__init__.py").touch()
    monkeypatch.setattr(warm_start.tasks, "__file__", str(tmp_path / "__init__.py"))
    digests.add(_recipe_digest(TinyPolicy(), TASK))
    assert len(digests) == 6


def test_the_seed_decides_the_examples_and_answers_alone_are_learnt() -> None:
    tokenizer: Any = TASK.tokenizer()
    batches = [next(_batches(TASK, tokenizer, 1, Random(seed))) for seed in (1, 1, 2)]
    ids_BT, labels_BT = batches[0]
    assert torch.equal(ids_BT, batches[1][0])
    assert ids_BT.shape != batches[2][0].shape or not torch.equal(ids_BT, batches[2][0])
    for ids, labels in zip(ids_BT.tolist(), labels_BT.tolist(), strict=True):
        learnt = [label for label in labels if label >= 0]
        assert learnt[-1] == tokenizer.eos_token_id
        text = tokenizer.decode([*ids[: labels.index(learnt[0]) + 1], *learnt[:-1]])
        prompt, answer = text.split("=")
        assert tokenizer.decode(learnt[:-1]) == answer
        assert TASK.judge([Problem(f"{prompt}=", prompt)], [Completion(answer, 9, truncated=False)])[0].correct
