"""Finds the gold answers that math-verify cannot read, and keeps in a file what it said, for the runs that follow."""

import hashlib
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from trainers.grading.answers import LONGEST_ANSWER, is_plain_number, normal
from trainers.grading.grader_pool import GraderPool

_AT_ONCE: Final = 20
"""Number of golds after which what was learned is written: an interrupted reading goes on from there."""
_FRACTION: Final = re.compile(r"-?(?:[0-9]+/0*[1-9][0-9]*|\\frac\{-?[0-9]+\}\{0*[1-9][0-9]*\})")
_EXPONENT: Final = re.compile(r"(?<![A-Za-z\\])[0-9.]+[eE][+-]?[0-9]+")
_UNREADABLE: Final = "is nothing that math-verify reads"


def unreadable_golds(golds: Iterable[str], pool: GraderPool, folder: Path) -> dict[str, str]:
    """Return the golds that cannot be read, each with the reason. Numbers and fractions take no time.

    Args:
        golds: as the pool gets them.
        folder: of the file in which the answers of math-verify are kept; one that cannot be written keeps nothing.
    Raises: GraderError, if math-verify does not work here.
    """
    reasons, asked = dict[str, str](), list[str]()
    for gold in dict.fromkeys(golds):
        if len(gold) > LONGEST_ANSWER:
            reasons[gold] = f"has {len(gold)} characters; at most {LONGEST_ANSWER} can be read"
        elif _EXPONENT.search(gold):
            reasons[gold] = "has an exponent behind an e, which is read as Euler's e; write the number out"
        elif not is_plain_number(text := normal(gold)) and not _FRACTION.fullmatch(text):
            asked.append(gold)
    file = folder / f"golds-{_code_digest()}.jsonl"
    known = _remembered(file) if asked else {}
    missing = [gold for gold in asked if gold not in known]
    for start in range(0, len(missing), _AT_ONCE):
        some = missing[start : start + _AT_ONCE]
        learned = dict(zip(some, pool.read(some), strict=True))
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="ascii") as lines:
                lines.write("".join(json.dumps(pair) + "\n" for pair in learned.items()))
        known |= learned
    return reasons | {gold: _UNREADABLE for gold in asked if not known[gold]}


def _remembered(file: Path) -> dict[str, bool]:
    """Return what the file says; a line that was cut, or that two processes wrote into each other, says nothing."""
    known = dict[str, bool]()
    with suppress(OSError):
        for line in file.read_bytes().splitlines():
            with suppress(ValueError):
                match json.loads(line):
                    case [str(gold), bool(readable)]:
                        known[gold] = readable
                    case _:
                        pass
    return known


@cache
def _code_digest() -> str:
    """Return what names the code that reads golds: another version may read others."""
    digest = hashlib.sha256()
    for name in ("math-verify", "latex2sympy2-extended", "sympy"):
        digest.update(f"{name} {version(name)}\n".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
