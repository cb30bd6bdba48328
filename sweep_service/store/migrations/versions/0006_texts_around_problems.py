"""Texts around problems belong to the data: `prompt_prefix` and `prompt_suffix` are `data.system` and `data.suffix`."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_SWEEPS = sa.table("sweeps", sa.column("id", sa.String), sa.column("spec", sa.JSON))
_CONFIGS = sa.table(
    "configs", sa.column("sweep_id", sa.String), sa.column("id", sa.String), sa.column("training", sa.JSON)
)


def upgrade() -> None:
    """Move the texts; prompts and ids of configs stay the same."""
    connection = op.get_bind()
    for row in connection.execute(sa.select(_SWEEPS)).all():
        if (training := _moved(row.spec["training"])) is not None:
            change = sa.update(_SWEEPS).where(_SWEEPS.c.id == row.id)
            connection.execute(change.values(spec=row.spec | {"training": training}))
    for row in connection.execute(sa.select(_CONFIGS)).all():
        if (training := _moved(row.training)) is not None:
            change = sa.update(_CONFIGS).where(_CONFIGS.c.sweep_id == row.sweep_id, _CONFIGS.c.id == row.id)
            connection.execute(change.values(training=training))


def downgrade() -> None:
    """Change nothing: a version that knew the old names cannot read other new ones either."""


def _moved(training: dict[str, Any]) -> dict[str, Any] | None:
    """Return a training with its texts moved to the data; None if there is nothing to move."""
    task = dict(training.get("task") or {})
    prefix, suffix = task.pop("prompt_prefix", None), task.pop("prompt_suffix", None)
    if prefix is None and suffix is None:
        return None
    data = task.get("data", {})
    texts = {"system": prefix or None, "suffix": suffix}
    moved = {name: text for name, text in texts.items() if text is not None}
    return training | {"task": task | {"data": ({"ref": data} if isinstance(data, str) else data) | moved}}
