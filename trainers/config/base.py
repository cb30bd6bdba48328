"""The base of every part of a configuration, and names that configurations share."""

from typing import Annotated, Final, TypeVar

from pydantic import StringConstraints

from trainers.losses.base import Params

_Any = TypeVar("_Any")
NAME_PATTERN: Final = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
NAME_RULE: Final = "1 to 63 of a-z, 0-9, '.', '_' and '-', a letter or digit first and last"
SPLIT_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"

CatalogName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""A plain name, never a path or URL: of an entry of the catalog (models, datasets, benchmarks), or of a reward."""


def within_64_bits(value: _Any) -> _Any:
    """Refuse whole numbers that databases and other programs cannot read."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"whole numbers have at most 64 bits: from {-(2**63)} to {2**63 - 1}")
    return value


Frozen = Params
"""Base of every part of a configuration, as of the losses' parameters."""
