"""What every part of a configuration is built on."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of every part of a configuration: immutable, unknown keys refused, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
