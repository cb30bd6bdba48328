"""Datasets as they are published: each from its file to a trained model, by the line that docs/tasks.md has for it."""

import json
import re
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml

from tests.integration.trainers.chat_models import add_chat_model
from tests.integration.trainers.test_chat import TRAINING
from tests.integration.trainers.trainer_runs import run
from tests.unit.trainers.tasks import chats
from trainers.catalog.add_from_disk import add_local_dataset
from trainers.config import TrainingConfig
from trainers.training.preview import preview

DOCS = Path(__file__).parents[3] / "docs" / "tasks.md"
LINES = re.findall(r"^\| (\w+)[^|]*\| `(\{ref: .*?\})` \| `(\w+)` \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def row(form: str, number: int) -> dict[str, Any]:
    """A row as each format has it; its answer is 1, 2 or 3."""
    question, answer = f"What is {number} modulo 3, plus 1?", number % 3 + 1
    match form:
        case "GSM8K":
            return {"question": question, "answer": f"It is {number} - <<{number}-3=1>>.\n#### {answer}"}
        case "MATH":
            return {
                "problem": question,
                "solution": rf"So $\boxed{{{answer}}}$.",
                "level": "Level 5",
                "type": "Algebra",
            }
        case "verl":
            system = {"role": "system", "content": "You add."}
            return {
                "data_source": "lab",
                "prompt": [system, user(question)] if number % 2 else [user(question)],
                "reward_model": {"ground_truth": str(answer), "style": "rule"},
                "extra_info": {"index": number},
            }
        case "alpaca":
            if number % 2:
                return {"instruction": "Take it modulo 3, plus 1.", "input": str(number), "output": answer}
            return {"instruction": question, "input": "", "output": answer}
        case "ShareGPT":
            said = [{"from": "human", "value": question}, {"from": "gpt", "value": "Let me see."}]
            return {"conversations": said, "answer": str(answer)}
        case _:
            return {"messages": [user(question), {"role": "assistant", "content": str(answer)}]}


PROMPTS = {"verl": "system\nYou add.<|im_end|>", "alpaca": "user\nTake it modulo 3, plus 1.\n\n3"}
"""A part of some prompt, where a format has more than the question."""


@pytest.mark.parametrize(("form", "data", "reward"), LINES, ids=[form for form, _, _ in LINES])
def test_a_published_format_is_trained_on_by_its_line_in_the_documentation(
    tmp_path: Path, form: str, data: str, reward: str
) -> None:
    named = yaml.safe_load(data)
    rows = [row(form, number) for number in range(40)]
    if form == "verl":
        path = tmp_path / "rows.parquet"
        datasets.Dataset.from_list(rows).to_parquet(path)
    else:
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    add_local_dataset(path, tmp_path, named["ref"])
    add_chat_model(tmp_path, "qwen", chats.chatml_tokenizer(), "<|im_end|>")
    task = {"name": "word_problems", "data": named, "reward": reward}
    config = TrainingConfig.model_validate(TRAINING | {"task": task})
    shown = preview(config, tmp_path)
    assert shown.answers is not None
    assert (shown.answers.refused, shown.data.left_out, {p.answer for p in shown.prompts} <= {"1", "2", "3"}) == (
        0,
        {},
        True,
    )
    whole = "\n".join(prompt.text for prompt in shown.prompts)
    assert PROMPTS.get(form, "modulo 3, plus 1?\nPut the final answer in \\boxed{}.\n<|im_end|>") in whole
    done = run(config, tmp_path / "run", tmp_path)
    assert (done.outcome, len(done.of("step"))) == ("SUCCEEDED", 2)


def test_each_format_has_its_line() -> None:
    assert [form for form, _, _ in LINES] == ["GSM8K", "MATH", "verl", "alpaca", "ShareGPT", "messages"]
