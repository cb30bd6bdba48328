"""math-verify's judgement of two answers. Imported only by the child: it can hang, hold the GIL and eat memory."""

from typing import Any, Final

import sympy.core.random
from math_verify import LatexExtractionConfig, parse, verify

_BOX_ONLY: Final = (LatexExtractionConfig(boxed_match_priority=0),)


class UnreadableGoldError(Exception):
    """The gold answer is not mathematics that math-verify reads: what equals it cannot be known."""


def equal(gold: str, answer: str) -> bool:
    """Tell whether an answer equals the gold answer; one that math-verify cannot read, or fails on, does not.

    Departs from math-verify's defaults: only what is in the box is read, not any number near it; there are no alarms,
    because the parent's deadline also ends what holds the interpreter; sympy's random tests are seeded, so that the
    same pair gets the same verdict in every run.

    Raises: UnreadableGoldError.
    """
    sympy.core.random.seed(0)
    golds = _parse(gold)
    if all(isinstance(value, str) for value in golds):
        raise UnreadableGoldError(f"math-verify cannot read the gold answer {gold!r}")
    return verify(golds, _parse(answer), timeout_seconds=None)


def _parse(answer: str) -> list[Any]:
    """Return the sympy value of an answer and its text; only the text if it has no value; nothing if it is empty."""
    return parse(rf"\boxed{{{answer}}}", _BOX_ONLY, parsing_timeout=None)  # pyright: ignore[reportArgumentType]
