"""The problems that are trained on, and the rewards of their completions."""

import operator
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from trainers.config.base import CatalogName, Frozen
from trainers.config.data_config import DataConfig, HeldOutData
from trainers.config.reward_config import FurtherRewards, NamedReward, RewardConfig

BenchmarkNames = Annotated[
    tuple[CatalogName, ...],
    Field(max_length=100, description="Benchmarks whose problems are neither trained nor validated on."),
]


class ExpressionsTask(Frozen):
    """Write an arithmetic expression with a given value: the prompt is `N=`, the reward 1 if the answer has value N."""

    name: Literal["expressions"] = "expressions"
    smallest: int = Field(default=2, ge=0, le=999, description="Smallest N.")
    largest: int = Field(default=99, ge=0, le=999, description="Largest N.")
    validation_every: int = Field(
        default=2, ge=2, le=1000, description="Every so many numbers one is for validation only."
    )
    apart_from: BenchmarkNames = ()

    def _refusals(self) -> Iterator[str]:
        if self.largest - self.smallest < 2 * self.validation_every:
            yield (
                f"the range {self.smallest}..{self.largest} is too small to keep every "
                f"{self.validation_every}th number for validation; widen it"
            )


class CountdownTask(Frozen):
    """Reach a target with given numbers, each used once, and + - * /: the prompt is `3,7,12>15=`."""

    name: Literal["countdown"] = "countdown"
    numbers: int = Field(default=3, ge=2, le=6, description="Numbers of a problem.")
    largest: int = Field(default=20, ge=2, le=99, description="Largest given number.")
    largest_target: int = Field(default=40, ge=2, le=999)
    problems: int = Field(default=1000, ge=4, le=100_000, description="Problems generated, all solvable.")
    problem_seed: int = Field(
        default=0, ge=0, lt=2**32, description="Makes the problems; separate from the run's seed."
    )
    validation_every: int = Field(
        default=10, ge=2, le=100_000, description="Every so many problems one is for validation only."
    )

    def _refusals(self) -> Iterator[str]:
        if self.problems < self.validation_every:
            yield (
                f"of {self.problems} problems none is kept for validation by validation_every {self.validation_every}; "
                "raise problems or lower validation_every"
            )


def _data(value: object) -> object:
    """Let a name stand for the data of that name."""
    return {"ref": value} if isinstance(value, str) else value


class WordProblemsTask(Frozen):
    """Problems in words from a dataset of the catalog; answers are judged by a named reward."""

    name: Literal["word_problems"] = "word_problems"
    data: Annotated[DataConfig, BeforeValidator(_data, json_schema_input_type=CatalogName | DataConfig)] = Field(
        default=DataConfig(), description="What to read, or its name alone; shop-sums comes with the package."
    )
    reward: NamedReward = Field(
        default="math",
        description="exact, number, math, expression, or the reward of an installed package, alone or with its "
        "settings; it says what is correct: see docs/tasks.md.",
    )
    further_rewards: FurtherRewards = Field(
        default={},
        exclude_if=operator.not_,
        description="Rewards that are added to it, each with a weight and its own settings; they change what is "
        "trained on, and never what is correct.",
    )
    correct_from: float | None = Field(
        default=None,
        ge=-1e9,
        le=1e9,
        description="Reward from which a completion counts as correct; null: as the reward itself says.",
    )
    unreadable_answers: Literal["refuse", "leave_out"] = Field(
        default="refuse",
        description="Problems whose answer the reward cannot read (number: it is not one number): refuse all, or leave "
        "them out, counted.",
    )
    max_prompt_tokens: int = Field(
        default=512, ge=1, le=65536, description="Problems with longer prompts are left out."
    )
    validation: HeldOutData | None = Field(
        default=None, description="Problems to validate on; null: some of the training problems are kept for it."
    )
    validation_every: int = Field(
        default=10,
        ge=2,
        le=1_000_000,
        description="Without validation: every so many problems one is kept from training for it.",
    )
    apart_from: BenchmarkNames = ()

    @property
    def judging(self) -> RewardConfig:
        """The reward that says what is correct."""
        return RewardConfig(name=self.reward) if isinstance(self.reward, str) else self.reward

    @property
    def rewards(self) -> tuple[RewardConfig, ...]:
        """All rewards, first the one that says what is correct."""
        return (self.judging, *self.further_rewards.values())

    def _refusals(self) -> Iterator[str]:
        if not any(reward.weight for reward in self.rewards):
            yield "every reward has the weight 0, so there is nothing to train on; give one another weight"
        elif self.judging.name in self.further_rewards:
            yield f"further_rewards has {self.judging.name}, which reward names, too; give reward itself a weight"
        elif self.validation is not None and self.validation.benchmark in self.apart_from:
            yield (
                f"apart_from has {self.validation.benchmark}, which validation.benchmark validates on; take it out of "
                "apart_from: the data is kept apart from it anyway"
            )
        elif self.data.group is not None and self.validation is not None and self.validation.benchmark is not None:
            yield (
                f"data.group {self.data.group} is for rows that are validated on, and validation.benchmark names a "
                "benchmark, whose file says its groups; leave data.group out"
            )


def reward_parts(task: "TaskConfig") -> tuple[str, ...]:
    """Return the names of the rewards whose weighted sum is trained on; none where one reward is taken as it is."""
    if not isinstance(task, WordProblemsTask) or (not task.further_rewards and task.judging.weight == 1):
        return ()
    return tuple(reward.name for reward in task.rewards)


TaskConfig = ExpressionsTask | CountdownTask | WordProblemsTask
"""Use it as a field with `Field(discriminator="name")`."""
