"""Each promise of docs/reliability.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_promise_names_tests_that_exist() -> None:
    text, _, _ = (ROOT / "docs" / "reliability.md").read_text().partition("\n## ")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named or "`make chaos`" in row, row
        assert [path for path in named if not (ROOT / path).exists()] == []
