"""Reports are kept compressed, and what many of them have in common once, in a table of its own."""

import zlib

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Reports kept so far stay as they are, and whole."""
    op.create_table(
        "report_parts",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("deflated", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_report_parts"),
    )
    op.add_column("reports", sa.Column("gzipped", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("reports", sa.Column("part", sa.String(64)))
    op.add_column("reports", sa.Column("part_at", sa.Integer()))


def downgrade() -> None:
    """Make every report whole again, then drop the columns and the table."""
    connection = op.get_bind()
    found = connection.execute(sa.text("SELECT digest, deflated FROM report_parts"))
    parts = {row.digest: bytes(row.deflated) for row in found}
    keys = "sweep_id = :sweep_id AND inputs_digest = :inputs_digest AND format = :format"
    gzipped = connection.execute(sa.text("SELECT sweep_id, inputs_digest, format FROM reports WHERE gzipped"))
    for key in [dict(row) for row in gzipped.mappings()]:
        row = connection.execute(sa.text(f"SELECT content, part, part_at FROM reports WHERE {keys}"), key).one()
        content = bytes(row.content)
        if row.part_at is not None:
            content = content[: row.part_at] + parts[row.part] + content[row.part_at :]
        whole = {"content": zlib.decompress(content, 16 + zlib.MAX_WBITS)}
        connection.execute(sa.text(f"UPDATE reports SET content = :content WHERE {keys}"), key | whole)
    for column in ("part_at", "part", "gzipped"):
        op.drop_column("reports", column)
    op.drop_table("report_parts")
