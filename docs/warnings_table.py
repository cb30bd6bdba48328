"""Writes the table of warnings in `docs/report.md` from the report's rules: python docs/warnings_table.py."""

from pathlib import Path
from typing import Final

from sweep_service.report.findings.table import WARNINGS

PAGE: Final = Path(__file__).with_name("report.md")
BEGIN: Final = "<!-- This table is made by docs/warnings_table.py. -->\n"
END: Final = "<!-- Until here. -->\n"


def with_table(page: str) -> str:
    """The page with the table between `BEGIN` and `END` made anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{PAGE} has no line {BEGIN}"
    assert end, f"{PAGE} has no line {END}"
    rows = [f"| {rule.code} | {rule.condition.replace('|', '&#124;')} |\n" for rule in WARNINGS]
    return "".join([before, begin, "\n| code | rule |\n|---|---|\n", *rows, "\n", end, after])


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
