"""A column with the reason why attempts and trials ended; before, only their messages said it."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give old rows the ending that follows from their outcome or state and from the beginning of their message."""
    for table in ("attempts", "trials"):
        op.add_column(table, sa.Column("ending", sa.String(16)))
    op.execute(
        sa.text(
            "UPDATE attempts SET ending = CASE "
            "WHEN outcome = 'FAILED' AND message LIKE 'stopped after max_trial_hours%' THEN 'TIMED_OUT' "
            "WHEN outcome = 'CRASHED' AND message LIKE 'the trainer was ended by signal 9%' THEN 'KILLED' "
            "ELSE outcome END"
        )
    )
    last = "(SELECT ending FROM attempts WHERE trial_id = trials.id AND number = trials.attempts)"
    op.execute(
        sa.text(
            "UPDATE trials SET ending = CASE "
            "WHEN state = 'CANCELLED' AND message LIKE 'not begun: budget.max_gpu_hours%' THEN 'OVER_BUDGET' "
            "WHEN state = 'FAILED' AND message LIKE 'stopped after max_trial_hours%' THEN 'TIMED_OUT' "
            f"WHEN state = 'FAILED' THEN COALESCE({last}, state) "
            "ELSE state END WHERE state NOT IN ('PENDING', 'RUNNING')"
        )
    )


def downgrade() -> None:
    """Drop the columns."""
    for table in ("trials", "attempts"):
        op.drop_column(table, "ending")
