"""The rows and columns of a dataset that become problems."""

import operator
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, StringConstraints, Tag

from trainers.config.base import SPLIT_PATTERN, CatalogName, Frozen

COLUMN_OF_TEXT: Final = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
"""A column's name in a text that several columns go into, in braces; `{{` and `}}` stand for the braces themselves."""

Split = Annotated[str, StringConstraints(pattern=SPLIT_PATTERN)]
Value = bool | int | float | str


_Several = TypeVar("_Several", bound=dict[str, Any] | tuple[Any, ...])


def _within_64_bits(values: _Several) -> _Several:
    """Refuse whole numbers that databases and other programs cannot read."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"whole numbers have at most 64 bits: from {-(2**63)} to {2**63 - 1}")
    return values


_OneOrMore = Value | Annotated[list[Value], Field(min_length=1)]
Values = Annotated[
    tuple[Value, ...],
    Field(min_length=1),
    BeforeValidator(lambda one: [one] if isinstance(one, Value) else one, json_schema_input_type=_OneOrMore),
    AfterValidator(_within_64_bits),
]


class Range(Frozen):
    """Numbers from `min` to `max`, both included."""

    min: float | None = Field(default=None, description="null: no lower bound.")
    max: float | None = Field(default=None, description="null: no upper bound.")

    def _refusals(self) -> Iterator[str]:
        if self.min is None and self.max is None:
            yield "a range needs min, max or both"
        if self.min is not None and self.max is not None and self.min > self.max:
            yield f"no number is from {self.min:g} to {self.max:g}; swap min and max"

    def __str__(self) -> str:
        bounds = {"of at least": self.min, "of at most": self.max}
        return "a number " + " and ".join(f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None)


Allowed = Annotated[
    Annotated[Range, Tag("range")] | Annotated[Values, Tag("values")],
    Discriminator(lambda value: "range" if isinstance(value, dict | Range) else "values"),
]
Filter = dict[str, Allowed]
"""Allowed values by column: a range of numbers, or the values themselves."""


class DataConfig(Frozen):
    """Dataset, rows, and the prompt made from a row.

    A column is named as it is in the dataset; `a.b` is field `b` of column `a`, `a.0` the first entry of its list, and
    `a.-1` the last.
    """

    ref: CatalogName = Field(default="shop-sums", description="A dataset of the catalog, or shop-sums of the package.")
    split: Split = "train"
    prompt: str = Field(
        default="problem",
        min_length=1,
        description="Column with the problem, a text or the messages of a chat; or a text with columns in braces, "
        'such as "{instruction}\\n\\n{input}".',
    )
    answer: str = Field(default="answer", min_length=1, description="Column with the final answer, a text or number.")
    answer_after: str | None = Field(
        default=None, min_length=1, description="The answer is what follows the last such text; null: the whole column."
    )
    answer_boxed: bool = Field(default=False, description="The answer stands in the column's last \\boxed{}.")
    group: str | None = Field(
        default=None,
        min_length=1,
        exclude_if=operator.not_,
        description="Column with the group of problems that are alike, a text or number: those that are validated on "
        "count as one problem. A row without one is a problem on its own.",
    )
    filter: Filter = Field(
        default={}, description="Columns and what they may hold: values, or {min, max}. Other rows are left out."
    )
    system: str | None = Field(
        default=None,
        min_length=1,
        description="A chat's system turn, where its row has none; raw: text before every problem.",
    )
    suffix: str = Field(default="\nPut the final answer in \\boxed{}.\n", description="Text right after every problem.")
    template: Literal["raw", "chat"] = Field(
        default="raw", description="raw: the text alone, for base models; chat: through the tokenizer's chat template."
    )
    template_options: Annotated[dict[str, Value], AfterValidator(_within_64_bits)] = Field(
        default={}, description="Passed to the chat template, such as enable_thinking: false."
    )

    @property
    def prompt_columns(self) -> tuple[str, ...]:
        """The columns that the prompt is made of."""
        return tuple(name for name in COLUMN_OF_TEXT.findall(self.prompt) if name) or (self.prompt,)

    def _refusals(self) -> Iterator[str]:
        if "{" in COLUMN_OF_TEXT.sub("", self.prompt) or "}" in COLUMN_OF_TEXT.sub("", self.prompt):
            yield f"prompt {self.prompt!r:.100} has a brace that is none of a column's; write {{{{ and }}}} for braces"
        if self.answer in self.prompt_columns:
            yield f"prompt and answer are both {self.answer}: every prompt would show its answer; name another column"
        if self.answer_boxed and self.answer_after is not None:
            yield "answer_after and answer_boxed are two ways to find the answer in its column; give one"
        elif self.template_options and self.template == "raw":
            yield "template_options are for the chat template; set template: chat, or leave them out"


class HeldOutData(Frozen):
    """Other rows to validate on, or a benchmark; columns, texts and template are those of the training data."""

    benchmark: CatalogName | None = Field(
        default=None, description="A benchmark of the catalog, in place of a dataset; its problems are not trained on."
    )
    ref: CatalogName | None = Field(default=None, description="null: the dataset that is trained on.")
    split: Split = "validation"
    filter: Filter = Field(default={}, description="Columns and what they may hold: values, or {min, max}.")
    problems: int | None = Field(
        default=None, ge=1, le=10_000_000, description="At most so many, spread over all; null: all."
    )

    def _refusals(self) -> Iterator[str]:
        if self.benchmark is not None and (self.ref is not None or self.filter or self.split != "validation"):
            yield (
                f"benchmark {self.benchmark} has neither ref nor split nor filter; leave them out, or name no benchmark"
            )

    def dataset(self, trained_on: DataConfig) -> DataConfig:
        """Return the dataset to validate on, where that is no benchmark."""
        return trained_on.model_copy(
            update={"ref": self.ref or trained_on.ref, "split": self.split, "filter": self.filter}
        )
