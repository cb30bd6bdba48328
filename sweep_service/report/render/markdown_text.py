"""Lists, tables and code as Markdown."""

from collections.abc import Sequence
from itertools import groupby

from sweep_service.report.formatting import plain
from trainers.printable import printable


def titled(title: str, blocks: Sequence[str]) -> list[str]:
    """Return a section's blocks below its title; nothing without any."""
    return [f"## {title}", *blocks] if blocks else []


def bullets(lines: Sequence[str]) -> str:
    """Write lines that are Markdown already as a list."""
    return "\n".join(f"- {line}" for line in lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write cells that are Markdown already as a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def fenced(text: str, language: str = "") -> str:
    """Write a block of code that no backtick inside can end."""
    fence = "`" * max(3, 1 + max((len(list(run)) for char, run in groupby(text) if char == "`"), default=0))
    return f"{fence}{language}\n{printable(text)}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def code(text: str) -> str:
    """Write text as code in a line, or as plain text if a reader of Markdown could act on it there."""
    line = " ".join(text.split())
    return plain(line) if set(line) & set("`<>&|[]") else f"`{line}`"
