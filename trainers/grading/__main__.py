r"""The child: judges pairs of answers by math-verify, one JSON object a line, until its input ends.

    in    {"id": 1, "gold": "\\frac{1}{2}", "answer": "0.5"}
    out   {"ready": true}            once, when it has shown that it can judge
          {"id": 1, "equal": true}   or {"id": 1, "error": "why it cannot be judged"}

A question without an answer asks whether the gold answer can be read; the reply is then as if it were its own answer.

By hand: echo '{"id": 1, "gold": "1/2", "answer": "0.5"}' | python -m trainers.grading
"""

import argparse
import json
import logging
import os
import sys
import warnings
from typing import Any, Final

import sympy
import sympy.core.random
from math_verify import LatexExtractionConfig, parse, verify

from trainers.process.lifeline import follow_parent

_DECIMAL_ACCURACY: Final = 1e-5
"""Largest relative difference of an exact value and its decimal."""
_SLOW: Final = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit)
_BOX_ONLY: Final = (LatexExtractionConfig(boxed_match_priority=0),)


class UnreadableGoldError(Exception):
    """The gold answer is not mathematics that math-verify reads, so its equals cannot be known."""


def main() -> int:
    """Answer questions until standard input ends; exit code 1: math-verify does not work here."""
    parser = argparse.ArgumentParser("python -m trainers.grading", description="Judge pairs of mathematical answers.")
    parser.add_argument("--parent-fd", type=int, metavar="N", help="exit when this inherited pipe reaches its end")
    if (lifeline := parser.parse_args().parent_fd) is not None:
        follow_parent(lifeline)
    logging.disable()  # math-verify logs every answer that it cannot read
    warnings.simplefilter("ignore")
    replies = os.fdopen(os.dup(1), "w", buffering=1, encoding="ascii")
    os.dup2(2, 1)  # whatever a library prints is not a reply

    # What math-verify fails on it calls unequal: with a broken installation, everything.
    if not equal(r"\frac{1}{2}", "0.5") or equal(r"\sqrt{2}", r"\sqrt{3}"):
        sys.stderr.write("math-verify does not tell equal from unequal answers: check its installation (antlr4)\n")
        return 1
    replies.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = question.get("answer")
            verdict = {"equal": bool(_read(question["gold"])) if answer is None else equal(question["gold"], answer)}
        except UnreadableGoldError as error:
            verdict = {"error": str(error)}
        replies.write(json.dumps({"id": question["id"], **verdict}) + "\n")
    return 0


def equal(gold: str, answer: str) -> bool:
    """Tell whether an answer equals the gold answer; one that math-verify cannot read, or fails on, does not.

    Departs from math-verify's defaults: only what is in the box is read, not any number near it; there are no alarms,
    because the parent's deadline also ends what holds the interpreter; sympy's random tests are seeded, so that the
    same pair gets the same verdict in every run.

    Raises: UnreadableGoldError.
    """
    sympy.core.random.seed(0)
    golds = _read(gold)
    answers = _parse(answer)
    if not verify(golds, answers, timeout_seconds=None):
        return False
    return "%" in gold + answer or not _differ(golds[0], answers[0])  # 50\% equals 50 and 0.5


def _read(gold: str) -> list[Any]:
    """Return the sympy value of a gold answer and its text. Raises: UnreadableGoldError."""
    values = _parse(gold)
    if all(isinstance(value, str) for value in values):
        raise UnreadableGoldError(f"math-verify cannot read the gold answer {gold!r}")
    return values


def _differ(gold: Any, answer: Any) -> bool:
    """True of two numbers that are not equal: math-verify rounds both to six decimals, however small they are.

    Exact numbers are compared exactly, and with decimals relative to their size.
    """
    if not all(isinstance(value, sympy.Expr) and value.is_number and not value.has(*_SLOW) for value in (gold, answer)):
        return False
    try:
        difference = abs(sympy.N(gold.doit() - answer.doit(), 30))
        if not isinstance(difference, sympy.Float) or not difference.is_finite:  # zero, or no number
            return False
        if gold.has(sympy.Float) or answer.has(sympy.Float):
            return bool(difference > _DECIMAL_ACCURACY * max(abs(sympy.N(gold)), abs(sympy.N(answer))))
        return difference._prec > 1  # with a bit of precision the difference is noise
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        return False  # math-verify could read what sympy cannot compute


def _parse(answer: str) -> list[Any]:
    """Return the sympy value of an answer and its text; only the text if it has no value; nothing if it is empty."""
    return parse(rf"\boxed{{{answer}}}", _BOX_ONLY, parsing_timeout=None)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    sys.exit(main())
