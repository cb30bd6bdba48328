"""The record of a run's data, counted and digested, so that two runs can be compared. Imports no torch."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Self

from pydantic import Field

from trainers.config import Frozen

_SHOWN_LINES: Final = 24
_SHOWN_ANSWER: Final = 80  # characters

Reason = Literal[
    "filter", "empty", "no_answer", "like_benchmark", "like_validation", "unreadable", "special_token", "too_long"
]
"""A reason why a row is neither trained nor validated on."""

REASONS: Mapping[Reason, str] = {
    "filter": "have other values than task.data.filter and task.validation.filter allow",
    "empty": "have no problem",
    "no_answer": "have no answer",
    "like_benchmark": "are problems of task.apart_from or of task.validation.benchmark",
    "like_validation": "are problems that are validated on",
    "unreadable": "have an answer that the reward cannot read",
    "special_token": "hold a special token of the tokenizer",
    "too_long": "have prompts longer than task.max_prompt_tokens",
}


class Problems(Frozen):
    """Problems of one kind, in their order."""

    problems: int = Field(ge=0)
    sha256: str = Field(description="Of their texts and answers, in order.")

    @classmethod
    def of(cls, problems: Iterable[tuple[str, ...]]) -> Self:
        """Count and digest problems, given as the `Problem.content` of each."""
        digest, count = hashlib.sha256(), 0
        for problem in problems:
            digest.update(json.dumps(problem).encode() + b"\n")
            count += 1
        return cls(problems=count, sha256=digest.hexdigest())


class Groups(Frozen):
    """Groups of problems that are alike; problems of different groups are independent."""

    groups: int
    largest: int = Field(description="Problems of the largest one.")

    @classmethod
    def of(cls, problems: Iterable[str]) -> Self:
        """Count groups, given as the `Problem.group_text` of each problem."""
        sizes = Counter(problems)
        return cls(groups=len(sizes), largest=max(sizes.values(), default=0))


class Source(Frozen):
    """A file that rows were read from."""

    ref: str = Field(description="The dataset's name.")
    split: str
    rows: int
    sha256: str = Field(description="Of the file.")


class Tokens(Frozen):
    """Lengths of the prompts that are trained and validated on, in tokens."""

    shortest: int
    median: int
    longest: int


class RewardRecord(Frozen):
    """A reward as it judges a run."""

    name: str
    weight: float
    settings: Mapping[str, Any] = Field(default={}, description="All of them, with the reward's defaults.")
    code: tuple[str, ...] = Field(
        default=(), description="Package, version and digest of its Python files; none: it is ours."
    )


class DataRecord(Frozen):
    """The problems of a run, those that it was not given, and what judges them."""

    sources: tuple[Source, ...] = Field(default=(), description="Files; none: the code makes the problems.")
    training: Problems
    validation: Problems
    validation_groups: Groups | None = Field(default=None, description="Of `validation`; null: not counted.")
    left_out: Mapping[Reason, Problems] = Field(default={}, description="By reason; reasons without rows are missing.")
    repeated: int = Field(default=0, description="Rows kept whose problem an earlier one has, up to layout.")
    contradicting: int = Field(default=0, description="Those of them whose answer is another text.")
    prompt_tokens: Tokens | None = Field(default=None, description="null: not counted.")
    rewards: tuple[RewardRecord, ...] = Field(default=(), description="First the one that says what is correct.")

    @property
    def alike(self) -> Groups | None:
        """The groups of problems to validate on, if some problems are alike; None if all are independent."""
        groups = self.validation_groups
        return groups if groups is not None and groups.groups < self.validation.problems else None


class Prompt(Frozen):
    """A prompt as the policy reads it."""

    text: str = Field(description="Its tokens, decoded; special tokens are written out.")
    tokens: int
    answer: str


class AnswersTried(Frozen):
    """The reward's judgements of problems' own answers, each in a box."""

    reward: str = Field(description="Name of the reward that says what is right.")
    tried: int
    refused: int
    example: str | None = Field(description="The first answer that is not right.")
    median_length: int = Field(description="Of these answers, in characters.")
    worked: str | None = Field(description="One of them, if they look like worked solutions and not like answers.")


class Preview(Frozen):
    """The data that a run would read."""

    prompts: tuple[Prompt, ...] = Field(description="The shortest, the middle and the longest training prompt.")
    data: DataRecord
    chat_template: bool = Field(description="True if the tokenizer has one.")
    ends: tuple[str, ...] = Field(description="Tokens that end a completion.")
    answers: AnswersTried | None = Field(description="null: the reward is not ours, or is none.")


def worked_warning(answers: AnswersTried) -> str | None:
    """Warn of answers that look like worked solutions: compared with itself, a whole solution is right."""
    if answers.worked is None:
        return None
    return (
        f"the answers look like worked solutions (median {answers.median_length} characters), e.g. "
        f"{answers.worked!r:.100}: name where the answer stands by task.data.answer_after or answer_boxed"
    )


def title(prompt: Prompt) -> str:
    """Write a prompt's length and answer in one line."""
    answer = " ".join(prompt.answer.split())
    return f"{prompt.tokens} tokens, answer {answer[:_SHOWN_ANSWER]}{'…' if answer[_SHOWN_ANSWER:] else ''}"


def lines(prompt: Prompt) -> str:
    """Write a prompt's text behind bars; the middle of a long one is left out."""
    shown = prompt.text.split("\n")
    if len(shown) > _SHOWN_LINES:
        half = _SHOWN_LINES // 2
        shown = [*shown[:half], f"… {len(shown) - 2 * half} lines more …", *shown[-half:]]
    return "\n".join(f"   | {line}" for line in shown)


def data_facts(data: DataRecord) -> list[str]:
    """Describe a run's data, a line for each fact."""
    independent = (
        f", {alike.groups} of them independent: up to {alike.largest} are alike" if (alike := data.alike) else ""
    )
    facts = [f"{data.training.problems} problems to train on, {data.validation.problems} to validate on{independent}"]
    facts += [f"{source.ref}, {source.split}: {source.rows} rows" for source in data.sources]
    facts += [f"left out: {left.problems} that {REASONS[reason]}" for reason, left in data.left_out.items()]
    if data.repeated:
        facts.append(f"repeated: {data.repeated} rows, {data.contradicting} of them with another answer")
    if (tokens := data.prompt_tokens) is not None:
        facts.append(f"prompts of {tokens.shortest} to {tokens.longest} tokens, half of them at most {tokens.median}")
    for reward in data.rewards:
        if reward.settings or reward.code or len(data.rewards) > 1:
            settings = "".join(f", {name} {value}" for name, value in reward.settings.items())
            by = f" of {reward.code[0].rpartition(' ')[0]}" if reward.code else ""
            facts.append(f"reward {reward.name}{by}: weight {reward.weight:g}{settings}")
    return facts
