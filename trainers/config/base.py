"""What every part of a configuration is built on."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

CatalogName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")]
"""A plain name, never a path or URL: of an entry of the catalog (models, datasets, benchmarks), or of a reward."""


class Frozen(BaseModel):
    """Base of every part of a configuration: immutable, unknown keys refused, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
