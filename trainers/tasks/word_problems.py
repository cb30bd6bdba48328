r"""Task "word_problems": the prompt is a text of a dataset, the answer stands in `\boxed{}`; a reward judges it.

A policy made from scratch reads it through a byte-level tokenizer trained on the problems. Imports no torch.
"""

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainers.catalog.entries import BenchmarkEntry, entry_folder, read_entry, shipped_file
from trainers.config import HeldOutData, WordProblemsTask
from trainers.errors import ConfigError
from trainers.rewards import make_reward
from trainers.rewards.number import no_number, value_of
from trainers.tasks.base import Completion, Judgement, Problem, by_length
from trainers.tasks.data_record import Reason
from trainers.tasks.dataset_rows import DatasetRows, ProblemRow, read_dataset
from trainers.tasks.same_text import same_text
from trainers.tasks.tokenizers import byte_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_VOCABULARY: Final = 512
"""Number of tokens of a policy made from scratch: 256 bytes and the most frequent pieces of words."""


class WordProblems:
    """The task over the rows of a dataset; docs/tasks.md says which are trained on and which validated on.

    Prompts hold all that is asked but a chat's system turn, and no chat template yet: `PromptedProblems` writes that.
    Raises: ConfigError, if dataset, benchmarks or reward are missing or wrong, or no problem is left; or if an answer
        is not a number and the reward needs one.
    """

    def __init__(self, config: WordProblemsTask, cache: Path) -> None:
        self.config = config
        self.left_out: list[tuple[Reason, str]] = []
        dataset = read_dataset(config.data, cache)
        self.sources = [dataset.source]
        benchmarks = _benchmarks(config.apart_from, cache)
        rows = self._apart(dataset, benchmarks)
        if config.validation is None:
            training, validation = _parted(rows, config)
        else:
            training, validation = rows, self._apart(self._held_out(config.validation, cache), benchmarks)
            validation = _spread(validation, config.validation.problems)
            training = self._without(training, {same_text(row.problem) for row in validation}, "like_validation")
        _refuse_none({"training": training, "validation": validation}, self.left_out)
        self.rows = [*training, *validation]
        if config.reward == "number":
            _refuse_other_than_numbers(self.rows)
        self.training, self.validation = [*map(self._problem, training)], [*map(self._problem, validation)]
        self._reward = make_reward(config.reward, config.correct_from)

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge each completion of the problem beside it, by the reward that the configuration names."""
        return self._reward.judge(problems, completions)

    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """Return a byte-level tokenizer trained on the training problems."""
        return self._tokenizer

    def worked_example(self, random_numbers: random.Random) -> tuple[str, str]:
        """Draw a training problem that is short enough to be trained on, and its answer alone in a box."""
        problem = random_numbers.choice(self._teachable)
        return problem.prompt, boxed(problem)

    @property
    def recipe(self) -> dict[str, Any]:
        """The digest of the training problems, and the length of prompts that are short enough."""
        text = "\0".join(part for problem in self.training for part in problem)
        return {
            "task": "word_problems",
            "training": hashlib.sha256(text.encode()).hexdigest(),
            "max_prompt_tokens": self.config.max_prompt_tokens,
        }

    def close(self) -> None:
        """End what the reward keeps running."""
        self._reward.close()

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerFast":
        texts = [problem.prompt + boxed(problem) for problem in self.training]
        return byte_tokenizer(texts, _VOCABULARY)

    @cached_property
    def _teachable(self) -> list[Problem]:
        return by_length(self._tokenizer, self.training, self.config.max_prompt_tokens).short

    def _held_out(self, held_out: HeldOutData, cache: Path) -> DatasetRows:
        changes = {"ref": held_out.ref or self.config.data.ref, "split": held_out.split, "filter": held_out.filter}
        try:
            dataset = read_dataset(self.config.data.model_copy(update=changes), cache)
        except ConfigError as error:
            raise ConfigError(*(f"task.validation: {problem}" for problem in error.problems)) from error
        self.sources.append(dataset.source)
        return dataset

    def _apart(self, dataset: DatasetRows, benchmarks: set[str]) -> list[ProblemRow]:
        self.left_out += dataset.left_out
        return self._without(dataset.problems, benchmarks, "like_benchmark")

    def _without(self, rows: Sequence[ProblemRow], texts: set[str], reason: Reason) -> list[ProblemRow]:
        alike = [same_text(row.problem) in texts for row in rows] if texts else [False] * len(rows)
        self.left_out.extend((reason, json.dumps(row)) for row, left in zip(rows, alike, strict=True) if left)
        return [row for row, left in zip(rows, alike, strict=True) if not left]

    def _problem(self, row: ProblemRow) -> Problem:
        data = self.config.data
        system = data.system if data.template == "raw" else None
        return Problem((system or "") + row.problem + data.suffix, row.answer)


def boxed(problem: Problem) -> str:
    """Return the shortest right completion of a problem."""
    return rf"\boxed{{{problem.answer}}}"


def _refuse_other_than_numbers(rows: Sequence[ProblemRow]) -> None:
    if others := [row for row in rows if value_of(row.answer) is None]:
        more = f" ({len(others)} of {len(rows)} problems are like this)" if others[1:] else ""
        raise ConfigError(f"task.reward: {no_number(*others[0])}{more}")


def _benchmarks(names: Iterable[str], cache: Path) -> set[str]:
    """Read the problems of benchmarks of the catalog, in the form in which equal ones are equal."""
    texts = set[str]()
    for name in names:
        path = shipped_file(BenchmarkEntry, name)
        try:
            if path is None:
                read_entry(cache, BenchmarkEntry, name)
                path = entry_folder(cache, BenchmarkEntry, name) / "problems.jsonl"
            texts |= {same_text(json.loads(line)["problem"]) for line in path.read_bytes().splitlines() if line.strip()}
        except ConfigError as error:
            raise ConfigError(f"task.apart_from: {error}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"task.apart_from {name}: {path} is damaged ({error}); add the benchmark anew") from error
    return texts


def _parted(rows: Sequence[ProblemRow], config: WordProblemsTask) -> tuple[list[ProblemRow], list[ProblemRow]]:
    """Part rows into training and validation: every n-th different problem, with its repetitions, is for validation."""
    texts = [same_text(row.problem) for row in rows]
    different = list(dict.fromkeys(texts))
    held_out = set(different[config.validation_every - 1 :: config.validation_every])
    if different and not held_out:
        raise ConfigError(
            f"task.data: {config.data.ref} has {len(different)} different problems, so that none is kept for "
            f"validation by task.validation_every {config.validation_every}; lower that, or name task.validation"
        )
    pairs = list(zip(rows, texts, strict=True))
    return [row for row, text in pairs if text not in held_out], [row for row, text in pairs if text in held_out]


def _spread(rows: list[ProblemRow], count: int | None) -> list[ProblemRow]:
    """Return `count` of the rows, at equal distances; None for all."""
    if count is None or count >= len(rows):
        return rows
    return [rows[place * len(rows) // count] for place in range(count)]


def _refuse_none(parts: dict[str, list[ProblemRow]], left_out: Sequence[tuple[Reason, str]]) -> None:
    reasons = ", ".join(f"{reason} {sum(one == reason for one, _ in left_out)}" for reason in dict(left_out))
    if problems := [
        f"task.data: no problem is left for {name}; rows left out: {reasons or 'none'}"
        for name, rows in parts.items()
        if not rows
    ]:
        raise ConfigError(*problems)
