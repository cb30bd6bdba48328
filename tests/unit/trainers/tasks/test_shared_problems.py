"""How many problems of a benchmark a task has seen."""

import json
from pathlib import Path

import pytest

from trainers.benchmarks.add_benchmark import add_file
from trainers.catalog.new_entry import Reporter
from trainers.config import CountdownTask, ExpressionsTask, TrainingConfig
from trainers.tasks.shared_problems import shared_problems


@pytest.fixture
def exam(tmp_path: Path) -> str:
    """A benchmark of three problems, of which the training data has one, in another layout."""
    row = json.loads((Path(__file__).parents[4] / "trainers/tasks/data/shop-sums.jsonl").read_text().splitlines()[40])
    problems = [row["problem"].upper(), "How many legs have 7 spiders?", "What is 2 to the 9th?"]
    lines = [json.dumps({"problem": text, "answer": "5"}) for text in problems]
    (tmp_path / "exam.jsonl").write_text("\n".join(lines))
    add_file("exam", tmp_path / "exam.jsonl", tmp_path, Reporter())
    return "exam"


def test_a_benchmark_shares_the_problems_that_the_training_data_has(exam: str, tmp_path: Path) -> None:
    task = TrainingConfig.model_validate({"task": {"name": "word_problems"}}).task
    assert shared_problems(task, exam, tmp_path) == 1
    apart = task.model_copy(update={"apart_from": (exam,)})
    assert shared_problems(apart, exam, tmp_path) == 0


def test_what_a_task_validates_on_is_shared_too(exam: str, tmp_path: Path) -> None:
    validating = {"task": {"name": "word_problems", "validation": {"benchmark": exam}}}
    task = TrainingConfig.model_validate(validating).task
    assert shared_problems(task, exam, tmp_path) == 3


def test_numbers_of_the_task_are_shared_unless_it_is_kept_apart(tmp_path: Path) -> None:
    assert shared_problems(ExpressionsTask(), "expressions", tmp_path) == 24
    assert shared_problems(ExpressionsTask(apart_from=("expressions",)), "expressions", tmp_path) == 0
    assert shared_problems(ExpressionsTask(smallest=1, largest=10), "expressions", tmp_path) < 24
    assert shared_problems(CountdownTask(), "expressions", tmp_path) == 0
