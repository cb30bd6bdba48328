"""What all parameters of losses are built on."""

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """Immutable parameters; unknown names, NaN and infinity are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
