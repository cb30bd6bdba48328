"""A task is the same in every process: whatever the hash seed, and whatever was asked of it before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENT_S

SCRIPT = """
import hashlib, json, random, sys
from pathlib import Path
from trainers.config import CountdownTask, ExpressionsTask, WordProblemsTask
from trainers.tasks import make_task

for config in ExpressionsTask(), CountdownTask(problems=200), WordProblemsTask(reward="number"):
    task, random_numbers = make_task(config, Path("absent")), random.Random(0)
    said = [task.training, task.validation, task.recipe, [task.worked_example(random_numbers) for _ in range(200)]]
    said.append(task.tokenizer().backend_tokenizer.to_str())
    sys.stdout.write(hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest() + "\\n")
"""


def digests(hash_seed: int, threads: str) -> list[str]:
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "TOKENIZERS_PARALLELISM": threads}
    command = [sys.executable, "-c", SCRIPT]
    root = Path(__file__).parents[3]
    return subprocess.run(
        command, env=environment, cwd=root, check=True, capture_output=True, text=True, timeout=PATIENT_S
    ).stdout.split()


@pytest.fixture(scope="module")
def first() -> list[str]:
    return digests(0, "false")


def test_there_are_three_different_tasks(first: list[str]) -> None:
    assert len(set(first)) == 3


@pytest.mark.parametrize(("hash_seed", "threads"), [(1, "false"), (2, "true")])
def test_problems_examples_and_tokenizers_are_the_same_in_every_process(
    first: list[str], hash_seed: int, threads: str
) -> None:
    assert digests(hash_seed, threads) == first
