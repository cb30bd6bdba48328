r"""Task "word_problems": the prompt is a text from a JSONL file, the answer stands in `\boxed{}`; a reward judges it.

A policy made from scratch reads it through a byte-level tokenizer trained on the file. Imports no torch.
"""

import hashlib
import random
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import ConfigDict, StringConstraints

from trainers.config import Frozen, WordProblemsTask
from trainers.errors import ConfigError
from trainers.jsonl import read_jsonl
from trainers.rewards import make_reward
from trainers.rewards.exact import normalised
from trainers.tasks.base import Completion, Judgement, Problem, within
from trainers.tasks.tokenizers import byte_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SHIPPED: Final = Path(__file__).parent / "data"
_VOCABULARY: Final = 512
"""Tokens of a policy made from scratch: 256 bytes and the most frequent pieces of words."""

_Text = Annotated[str, StringConstraints(strict=True, min_length=1)]


class Line(Frozen):
    """A line of the file; other fields may stand beside these."""

    model_config = ConfigDict(extra="ignore")

    id: _Text
    problem: _Text
    answer: _Text


class WordProblems:
    """The task, over the problems of a file.

    Every `validation_every`-th different text is for validation, and its repetitions with it; neither rewards, the warm
    start nor the tokenizer are trained on it.
    Raises: ConfigError, if file or reward are missing or wrong.
    """

    def __init__(self, config: WordProblemsTask, cache: Path) -> None:
        self._config = config
        path = _file(config.data.ref, cache)
        try:
            lines = read_jsonl(path, Line, unique="id")
        except OSError as error:
            raise ConfigError(
                f"task.data: {config.data.ref} cannot be read from {path}: {error.strerror}; put a JSONL file with "
                "`id`, `problem` and `answer` there, or name one that comes with the package: "
                f"{', '.join(file.stem for file in SHIPPED.iterdir())}"
            ) from error
        different = list(dict.fromkeys(normalised(line.problem) for line in lines))
        held_out = set(different[config.validation_every - 1 :: config.validation_every])
        if not held_out:
            raise ConfigError(
                f"task.data: {path} has {len(different)} different problems, so that none is kept for validation by "
                f"task.validation_every {config.validation_every}; lower that or take a longer file"
            )
        self.training = [self._problem(line) for line in lines if normalised(line.problem) not in held_out]
        self.validation = [self._problem(line) for line in lines if normalised(line.problem) in held_out]
        self._reward = make_reward(config.reward)

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge each completion of the problem beside it, by the reward that the configuration names."""
        return self._reward.judge(problems, completions)

    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """A byte-level tokenizer trained on the training problems."""
        return self._tokenizer

    def worked_example(self, random_numbers: random.Random) -> tuple[str, str]:
        """A random training problem, if it is short enough to be trained on, and its answer alone in a box."""
        problem = random_numbers.choice(self._teachable)
        return problem.prompt, _boxed(problem)

    @property
    def recipe(self) -> dict[str, Any]:
        """The training problems, and which of them are short enough."""
        text = "\0".join(part for problem in self.training for part in problem)
        return {
            "task": "word_problems",
            "training": hashlib.sha256(text.encode()).hexdigest(),
            "max_prompt_tokens": self._config.max_prompt_tokens,
        }

    def close(self) -> None:
        """End what the reward keeps running."""
        self._reward.close()

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerFast":
        texts = [problem.prompt + _boxed(problem) for problem in self.training]
        return byte_tokenizer(texts, _VOCABULARY)

    @cached_property
    def _teachable(self) -> list[Problem]:
        return within(self._tokenizer, self.training, self._config.max_prompt_tokens).kept

    def _problem(self, line: Line) -> Problem:
        data = self._config.data
        return Problem((data.system or "") + line.problem + data.suffix, line.answer)


def _file(name: str, cache: Path) -> Path:
    given, shipped = cache / "data" / f"{name}.jsonl", SHIPPED / f"{name}.jsonl"
    if given.exists() and shipped.exists():
        raise ConfigError(f"task.data: {name} comes with the package, and {given} is another; rename that file")
    return shipped if shipped.exists() else given


def _boxed(problem: Problem) -> str:
    return rf"\boxed{{{problem.answer}}}"
