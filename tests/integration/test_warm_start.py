from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from trainers.config import ExpressionsTask, TinyPolicy
from trainers.errors import StoppedError
from trainers.events import EventWriter, read_events
from trainers.tasks.expressions import Expressions
from trainers.warm_start import warm_started

MODEL = TinyPolicy(hidden_size=16, num_layers=1, num_heads=2, warm_start_steps=30)
TASK = Expressions(ExpressionsTask())


def make(folder: Path, name: str, model: TinyPolicy = MODEL, stop: Callable[[], bool] = lambda: False) -> Path:
    with EventWriter(folder / f"{name}.jsonl") as events:
        return warm_started(model, TASK, folder / "cache", events, stop)


def phases(folder: Path, name: str) -> list[Any]:
    return [event["phase"] for event in read_events(folder / f"{name}.jsonl")]


def test_runs_that_start_together_make_one_model(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        one, other = pool.map(lambda name: make(tmp_path, name), ["one", "other"])
    assert one == other
    makers = [name for name in ("one", "other") if "warm start" in phases(tmp_path, name)]
    assert len(makers) == 1
    (waiter,) = {"one", "other"} - set(makers)
    assert set(phases(tmp_path, waiter)) <= {"waiting for another run's warm start"}
    assert AutoModelForCausalLM.from_pretrained(one).config.vocab_size == 17
    assert make(tmp_path, "later") == one
    assert phases(tmp_path, "later") == []


def test_another_recipe_is_another_model(tmp_path: Path) -> None:
    assert make(tmp_path, "one") != make(tmp_path, "other", MODEL.model_copy(update={"warm_start_seed": 1}))


def test_a_stop_leaves_no_half_made_model(tmp_path: Path) -> None:
    answers = iter([False] * 5 + [True])
    with pytest.raises(StoppedError, match="starts anew"):
        make(tmp_path, "stopped", stop=lambda: next(answers))
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
    assert make(tmp_path, "again").is_dir()
