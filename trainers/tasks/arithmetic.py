"""Arithmetic over + - * / with exact values: built from parts, or read from text by a recursive-descent parser."""

import re
from collections import deque
from fractions import Fraction
from operator import add, mul, sub, truediv
from typing import Final, NamedTuple

_TOKENS: Final = re.compile(r"(?:[1-9][0-9]?(?![0-9])|[-+*/()])+")
_TOKEN: Final = re.compile(r"[1-9][0-9]?|[-+*/()]")
_LONGEST: Final = 64  # characters: six numbers of two digits with a pair of parentheses around each step have 27
_DEEPEST: Final = 8
_PRECEDENCE: Final = {"+": 1, "-": 1, "*": 2, "/": 2}
_OPERATIONS: Final = {"+": add, "-": sub, "*": mul, "/": truediv}
_NUMBER: Final = 3


class Expression(NamedTuple):
    """An arithmetic expression: its shortest text, exact value and numbers from left to right."""

    text: str
    value: Fraction
    numbers: tuple[int, ...]
    precedence: int


def number(value: int) -> Expression:
    """A number by itself."""
    return Expression(str(value), Fraction(value), (value,), _NUMBER)


def combined(left: Expression, operator: str, right: Expression) -> Expression:
    """Write `left operator right` with only the parentheses that keep its value. Raises: ZeroDivisionError."""
    precedence = _PRECEDENCE[operator]
    first = left.text if left.precedence >= precedence else f"({left.text})"
    bare = right.precedence > precedence or (right.precedence == precedence and operator in "+*")
    second = right.text if bare else f"({right.text})"
    value = _OPERATIONS[operator](left.value, right.value)
    return Expression(f"{first}{operator}{second}", value, left.numbers + right.numbers, precedence)


def parsed(text: str) -> Expression | None:
    """Parse a whole text as an expression: numbers 1 to 99, + - * / and parentheses, no sign, space or leading zero.

    Returns: None for any other text, for more than 64 characters or 8 parentheses in each other, and for a division by
        zero.
    """
    if len(text) > _LONGEST or not _TOKENS.fullmatch(text):
        return None
    tokens = deque(_TOKEN.findall(text))
    try:
        expression = _sum(tokens, depth=0)
    except (ValueError, ZeroDivisionError):
        return None
    return None if tokens else expression


def _sum(tokens: deque[str], depth: int) -> Expression:
    expression = _product(tokens, depth)
    while tokens and tokens[0] in "+-":
        expression = combined(expression, tokens.popleft(), _product(tokens, depth))
    return expression


def _product(tokens: deque[str], depth: int) -> Expression:
    expression = _factor(tokens, depth)
    while tokens and tokens[0] in "*/":
        expression = combined(expression, tokens.popleft(), _factor(tokens, depth))
    return expression


def _factor(tokens: deque[str], depth: int) -> Expression:
    token = tokens.popleft() if tokens else "end"
    if token.isdigit():
        return number(int(token))
    if token != "(" or depth == _DEEPEST:
        raise ValueError(token)
    inner = _sum(tokens, depth + 1)
    if not tokens or tokens.popleft() != ")":
        raise ValueError("missing )")
    return inner
