"""Writes the table of the losses' parameters in `docs/losses.md` from their defaults: python docs/losses_table.py.

The table's last column, the meanings, is written by hand and kept; that of a new parameter is its description.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from trainers.losses import LOSSES

PAGE: Final = Path(__file__).with_name("losses.md")
CORNER: Final = "| `loss` |"


def with_table(page: str) -> str:
    """Return the page with the table made anew."""
    before, corner, rest = page.partition(CORNER)
    assert corner, f"{PAGE} has no table that begins with {CORNER}"
    old, blank_line, after = rest.partition("\n\n")
    meanings = {row.split("`")[1]: row.rsplit("|", 2)[1].strip() for row in old.splitlines()[2:]}
    losses = [entry.params.model_fields for entry in LOSSES.values()]
    for fields in losses:
        for name, field in fields.items():
            if name != "name":
                meanings.setdefault(name, str(field.description))
    lines = [_line(["`loss`", *(f"`{loss}`" for loss in LOSSES), ""]), "|---" * (len(LOSSES) + 2) + "|"]
    for name, meaning in meanings.items():
        defaults = [_yaml(fields[name].default) if name in fields else "" for fields in losses]
        lines.append(_line([f"`{name}`", *defaults, meaning]))
    return before + "\n".join(lines) + blank_line + after


def _line(cells: Iterable[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def _yaml(default: object) -> str:
    if default is None:
        return "null"
    return f"{default:g}" if isinstance(default, int | float) else "[]"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
