"""Golden files: whole texts that the product writes, kept beside the tests, so that a change is read as a diff.

`.venv/bin/python -m tests.golden` rewrites the golden files of all tests that call `matches_golden`; with a folder or
file, such as `tests/unit/sweep_service/cli`, those of the tests there. Then read `git diff`.
"""

import difflib
import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
_rewriting = False


def matches_golden(path: Path, text: str) -> None:
    """Fail, with the difference, unless the file holds exactly this text.

    Args:
        path: of the golden file, usually `Path(__file__).parent / "golden" / name`.
        text: written today; the same on every machine, day and run.
    """
    if _rewriting:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return
    golden = path.read_bytes().decode() if path.exists() else ""
    if golden == text:
        return
    name = os.path.relpath(path, TESTS.parent)
    lines = (golden.splitlines(keepends=True), text.splitlines(keepends=True))
    diff = "".join(difflib.unified_diff(*lines, name, "written now", n=1)) or f"only the end of {name} differs"
    pytest.fail(
        f"{diff}\nIf this change is meant, run `.venv/bin/python -m tests.golden` and read `git diff`.", pytrace=False
    )


def rewrite(places: list[str]) -> int:
    """Run the tests below these places that have golden files, and let them write theirs."""
    global _rewriting
    roots = [Path(place) for place in places] or [TESTS]
    if missing := [str(root) for root in roots if not root.exists()]:
        print(f"there is no {', '.join(missing)}")
        return 1
    files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("test_*.py")))]
    users = [str(file) for file in files if "matches_golden(" in file.read_text(encoding="utf-8")]
    if not users:
        print("No test there has a golden file.")
        return 1
    _rewriting = True
    return int(pytest.main(["--quiet", *users]))


if __name__ == "__main__":
    # The tests import this module by its name, so the switch must be the one of that module, not of `__main__`.
    from tests import golden

    sys.exit(golden.rewrite(sys.argv[1:]))
