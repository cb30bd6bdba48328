import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainers.config import CountdownTask, ExpressionsTask, LoRAConfig, TaskConfig, TinyPolicy, WordProblemsTask
from trainers.errors import StoppedError
from trainers.policy import warm_start
from trainers.policy.warm_start import _batches, warm_started
from trainers.process import durable
from trainers.process.events import EventWriter, read_events
from trainers.tasks import make_task

MODEL = TinyPolicy(hidden_size=16, num_layers=1, num_heads=2, warm_start_steps=30)
EXPRESSIONS = ExpressionsTask()


def make(
    folder: Path,
    name: str,
    model: TinyPolicy = MODEL,
    stop: Callable[[], bool] = lambda: False,
    task: TaskConfig = EXPRESSIONS,
) -> Path:
    with EventWriter(folder / f"{name}.jsonl") as events:
        return warm_started(model, make_task(task, folder / "cache"), folder / "cache", events, stop)


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
    seed, lora = ({"warm_start_seed": 1}, {"lora": LoRAConfig()})
    one = make(tmp_path, "one")
    assert make(tmp_path, "other", MODEL.model_copy(update=seed)) != one
    assert make(tmp_path, "task", task=ExpressionsTask(largest=98)) != one
    assert make(tmp_path, "split", task=ExpressionsTask(validation_every=6)) == one
    assert make(tmp_path, "adapters", MODEL.model_copy(update=lora)) == one


@pytest.mark.parametrize("task", [CountdownTask(), WordProblemsTask(reward="number")], ids=lambda task: task.name)
def test_every_task_teaches_a_policy_that_reads_its_prompts(tmp_path: Path, task: TaskConfig) -> None:
    folder = make(tmp_path, "one", MODEL.model_copy(update={"warm_start_steps": 3}), task=task)
    policy, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    prompts = [problem.prompt for problem in make_task(task, tmp_path).training[:8]]
    batch = tokenizer(prompts, padding=True, return_tensors="pt")
    logits_BTV = policy(**batch).logits
    assert logits_BTV.shape == (*batch["input_ids"].shape, len(tokenizer))
    assert logits_BTV.isfinite().all()
    assert tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True) == prompts
    assert policy.config.max_position_embeddings >= 2 * 65536  # the longest prompt and completion of any setting


def test_only_answers_are_taught() -> None:
    task = make_task(ExpressionsTask(), Path())
    tokenizer = task.tokenizer()
    ids_BT, labels_BT = next(_batches(task, tokenizer, 1, random.Random(0)))
    random_numbers = random.Random(0)
    for ids_T, labels_T in zip(ids_BT, labels_BT, strict=True):
        prompt, answer = task.worked_example(random_numbers)
        assert tokenizer.decode(ids_T[: len(prompt + answer)]) == prompt + answer
        taught = labels_T[labels_T != -100]
        assert tokenizer.decode(taught) == f"{answer}<end>"
        assert labels_T[len(prompt) - 1] == ids_T[len(prompt)]


def test_the_model_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[tuple[str, list[str]]]()

    def sync(path: Path) -> None:
        synced.append((path.name, [entry.name for entry in (tmp_path / "cache").iterdir() if not entry.suffix]))

    monkeypatch.setattr(durable, "sync", sync)
    folder = make(tmp_path, "one", MODEL.model_copy(update={"warm_start_steps": 1}))
    *content, unfinished, cache = synced
    assert sorted(name for name, _ in content) == sorted(file.name for file in folder.iterdir())
    assert unfinished == (f"{folder.name}.unfinished", [])
    assert cache == ("cache", [folder.name])
    assert not any(named for _, named in content)


@pytest.mark.parametrize("saved_every", [2, 100], ids=["killed", "stopped"])
def test_what_is_done_before_a_stop_or_a_kill_is_kept_and_the_model_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved_every: int
) -> None:
    monkeypatch.setattr(warm_start, "_SAVED_EVERY", saved_every)
    whole = make(tmp_path / "whole", "whole")
    answers = iter([False] * 5 + [True])

    def stop() -> bool:
        if (answer := next(answers)) and saved_every == 2:
            raise KeyboardInterrupt
        return answer

    with pytest.raises((StoppedError, KeyboardInterrupt)):
        make(tmp_path / "cut", "cut", stop=stop)
    assert sorted(path.suffix for path in (tmp_path / "cut" / "cache").iterdir()) == [".lock", ".unfinished"]
    again = make(tmp_path / "cut", "again")
    begun = next(event["done"] for event in read_events(tmp_path / "cut" / "again.jsonl"))
    assert begun == (4 if saved_every == 2 else 6)
    contents = [{file.name: file.read_bytes() for file in folder.iterdir()} for folder in (whole, again)]
    assert contents[0] == contents[1]
    assert sorted(path.suffix for path in again.parent.iterdir()) == ["", ".lock"]
