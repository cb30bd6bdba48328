"""The interface of tasks, and the order in which a run reads their prompts."""

import json
import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from trainers.errors import ConfigError
from trainers.tasks.prompts import token_counts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast


class Problem(NamedTuple):
    """A prompt, with the answer and columns by which completions of it are judged."""

    prompt: str
    answer: str
    columns_json: str = ""
    """JSON object of the row's other columns that rewards read; empty where they read none."""
    turns_json: str = ""
    """JSON list of the chat's turns before the prompt, each its role and content; empty where there are none."""
    group: str = ""
    """The problems that it resembles have the same; empty for a problem on its own."""

    @property
    def turns(self) -> list[tuple[str, str]]:
        """The role and the content of each turn of the chat before the prompt."""
        return [(role, content) for role, content in json.loads(self.turns_json)] if self.turns_json else []

    @property
    def question(self) -> str:
        """The prompt after all that others than the system said before: problems that differ in it are two."""
        before = [content for role, content in self.turns if role != "system"]
        return "\n".join([*before, self.prompt]) if before else self.prompt

    @property
    def group_text(self) -> str:
        """The text that problems of one group share: the group that data give, else the prompt."""
        return self.group or self.prompt

    @property
    def columns(self) -> dict[str, Any]:
        """The values of the row's other columns that rewards read, by column."""
        return json.loads(self.columns_json or "{}")

    @property
    def content(self) -> tuple[str, ...]:
        """The texts that go into a digest of problems."""
        texts = self[:4] if self.turns_json else self[:3] if self.columns_json else self[:2]
        return (*texts, self.group) if self.group else texts


class Completion(NamedTuple):
    """Sampled text without its end token."""

    text: str
    tokens: int
    truncated: bool
    """True if the completion was cut before its end token."""


class Judgement(NamedTuple):
    """The judgement of a completion: its reward, its correctness and its answer."""

    reward: float | None
    """Reward; None where the judge itself failed, which is counted and gives no advantage, never a silent 0."""
    correct: bool
    answer: str | None = None
    """Answer in the text, in a form that is the same for equal answers; None if there is none."""
    timed_out: bool = False
    """True if the judge gave up on the completion at its deadline."""
    parts: Mapping[str, float | None] = {}
    """Values of several rewards by name, before weights; None where one failed; empty for one reward."""


class Reward(Protocol):
    """A judge of completions; made once a run: without arguments, or with its settings if its class has `Settings`.

    One that reads other columns of the dataset than problem and answer names them in an attribute `columns`. One that
    cannot read every right answer has a method `unreadable`, as `OneByOne` has it: it is asked before anything trains.
    """

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge each completion of the problem beside it."""
        ...

    def close(self) -> None:
        """End the processes that the judge keeps running."""


class OneByOne:
    """Base of judges that take each completion by itself and keep no process running."""

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge each completion of the problem beside it."""
        return [self.judgement(problem, completion) for problem, completion in zip(problems, completions, strict=True)]

    def judgement(self, problem: Problem, completion: Completion) -> Judgement:
        """Judge one completion."""
        raise NotImplementedError

    def unreadable(self, answers: Sequence[str], _cache: Path) -> dict[str, str]:
        """Return the right answers that it cannot read, each with the reason, such as "is not one number"."""
        reasons = {answer: self.unread(answer) for answer in dict.fromkeys(answers)}
        return {answer: reason for answer, reason in reasons.items() if reason}

    def unread(self, _answer: str) -> str:
        """Return the reason why a right answer cannot be read; empty if it can."""
        return ""

    def close(self) -> None:
        """Do nothing: no process is kept running."""


class Task(Reward, Protocol):
    """Problems of two disjoint sets, and a judge of completions."""

    @property
    def training(self) -> Sequence[Problem]:
        """Problems to train on, in a fixed order."""
        ...

    @property
    def validation(self) -> Sequence[Problem]:
        """Problems to validate on, in a fixed order; none is trained on."""
        ...

    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """Return the tokenizer of a policy made from scratch for this task: padding on the left, with an end token."""
        ...

    def worked_example(self, random_numbers: random.Random) -> tuple[str, str]:
        """Draw a prompt and a right answer to it (without end token) for the supervised warm start."""
        ...

    @property
    def recipe(self) -> dict[str, Any]:
        """Everything that determines tokenizer and worked examples, as JSON; it names the warm start in the cache."""
        ...


class ProblemsByLength(NamedTuple):
    """Problems whose prompts are short enough, and the others."""

    short: list[Problem]
    long: list[Problem]
    lengths: list[int]
    """Lengths of the short prompts, in tokens."""


def by_length(
    tokenizer: "PreTrainedTokenizerBase",
    problems: Sequence[Problem],
    max_prompt_tokens: int,
    part: str = "training",
    *,
    chat: bool = False,
) -> ProblemsByLength:
    """Part problems, in order, by the length of their prompts in the tokens that a policy is given.

    `part` names the problems in an error.

    Raises: ConfigError, if none is short enough.
    """
    lengths = token_counts(tokenizer, [problem.prompt for problem in problems], chat=chat)
    sized = list(zip(problems, lengths, strict=True))
    short = [(problem, length) for problem, length in sized if length <= max_prompt_tokens]
    if not short:
        shortest = min((length for _, length in sized), default=0)
        raise ConfigError(
            f"task.max_prompt_tokens: all {len(problems)} {part} prompts are longer than {max_prompt_tokens} tokens, "
            f"the shortest has {shortest}; raise it"
        )
    long = [problem for problem, length in sized if length > max_prompt_tokens]
    return ProblemsByLength([problem for problem, _ in short], long, [length for _, length in short])


def prompt_at(position: int, num_problems: int, seed: int) -> int:
    """Return the index of the problem at a position of a run's endless stream of prompts.

    Every epoch of the stream is a fresh permutation of the problems. A pure function: what a run has read does not
    depend on how often it was resumed, and a longer run starts with the prompts of a shorter one.
    """
    epoch, offset = divmod(position, num_problems)
    return _permutation(epoch, num_problems, seed)[offset]


@lru_cache(maxsize=4)
def _permutation(epoch: int, num_problems: int, seed: int) -> list[int]:
    return random.Random(f"prompts/{seed}/{epoch}").sample(range(num_problems), num_problems)
