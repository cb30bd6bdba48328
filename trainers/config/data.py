"""How the columns of a dataset become problems."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from trainers.config.base import CatalogName, Frozen

Split = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
Value = bool | int | float | str


class DataConfig(Frozen):
    """Which rows of which dataset, and how a row is asked."""

    ref: CatalogName = Field(default="shop-sums", description="A dataset of the catalog, or one of the package.")
    split: Split = "train"
    prompt: str = Field(default="problem", min_length=1, description="Column with the problem.")
    answer: str = Field(default="answer", min_length=1, description="Column with the final answer.")
    answer_after: str | None = Field(
        default=None, min_length=1, description="The answer is what follows the last such text; null: the whole column."
    )
    filter: dict[str, tuple[Value, ...]] = Field(
        default={}, description="Columns and the values they may have; other rows are left out, counted."
    )
    system: str | None = Field(
        default=None, min_length=1, description="Text before every problem; a chat's system turn."
    )
    suffix: str = Field(default="\nPut the final answer in \\boxed{}.\n", description="Text right after every problem.")
    template: Literal["raw", "chat"] = Field(
        default="raw", description="raw: the text alone, for base models; chat: through the tokenizer's chat template."
    )
    template_options: dict[str, Value] = Field(
        default={}, description="Passed to the chat template, such as enable_thinking: false."
    )


class HeldOutData(Frozen):
    """Other rows to validate on; columns, texts and template are those of the training data."""

    ref: CatalogName | None = Field(default=None, description="null: the dataset that is trained on.")
    split: Split = "validation"
    filter: dict[str, tuple[Value, ...]] = Field(default={})
    problems: int | None = Field(default=None, ge=1, description="At most so many, the first ones; null: all.")
