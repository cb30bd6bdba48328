"""The base of every part of a configuration, and names that configurations share."""

from typing import Annotated, Final

from pydantic import StringConstraints

from trainers.losses.base import Params

NAME_PATTERN: Final = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
NAME_RULE: Final = "1 to 63 of a-z, 0-9, '.', '_' and '-', a letter or digit first and last"
SPLIT_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"

CatalogName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""A plain name, never a path or URL: of an entry of the catalog (models, datasets, benchmarks), or of a reward."""


Frozen = Params
"""Base of every part of a configuration, as of the losses' parameters."""
