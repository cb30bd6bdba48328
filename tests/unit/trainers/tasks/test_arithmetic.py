"""The parser against two others: trees evaluated while they are generated, and Python's own grammar."""

import ast
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainers.tasks.arithmetic import parsed

VALUES: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
PYTHON: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class Tree(NamedTuple):
    """An expression as a test knows it; its value is None where it divides by zero."""

    text: str
    value: Fraction | None
    numbers: tuple[int, ...]


def leaf(number: int) -> Tree:
    return Tree(str(number), Fraction(number), (number,))


def branch(left: Tree, sign: str, right: Tree) -> Tree:
    try:
        value = None if left.value is None or right.value is None else VALUES[sign](left.value, right.value)
    except ZeroDivisionError:
        value = None
    return Tree(f"({left.text}{sign}{right.text})", value, left.numbers + right.numbers)


TREES = st.recursive(
    st.integers(1, 99).map(leaf),
    lambda parts: st.builds(branch, parts, st.sampled_from("+-*/"), parts),
    max_leaves=8,
)


def by_python(text: str) -> Tree | None:
    """What Python reads, if it is made only of numbers from 1 to 99 and our four signs."""
    try:
        return from_node(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError):
        return None


def from_node(node: Any) -> Tree:
    if isinstance(node, ast.BinOp) and type(node.op) in PYTHON:
        return branch(from_node(node.left), PYTHON[type(node.op)], from_node(node.right))
    if isinstance(node, ast.Constant) and type(node.value) is int and 1 <= node.value <= 99:
        return leaf(node.value)
    raise ValueError(node)


@given(TREES)
def test_a_tree_is_read_as_it_was_made(tree: Tree) -> None:
    expression = parsed(tree.text)
    if tree.value is None or len(tree.text) > 64:
        assert expression is None
    else:
        assert expression is not None
        assert (expression.value, expression.numbers) == (tree.value, tree.numbers)


@given(TREES)
def test_the_shortest_text_says_the_same_and_has_no_shorter(tree: Tree) -> None:
    expression = parsed(tree.text)
    if expression is not None:
        assert parsed(expression.text) == expression
        assert len(expression.text) <= len(tree.text)


@given(st.text("0123456789+-*/()", max_size=12))
@example("110")
@example("2+1000")
def test_any_text_means_what_it_means_to_python_or_nothing(text: str) -> None:
    expression, expected = parsed(text), by_python(text)
    if expected is None or expected.value is None:
        assert expression is None
    else:
        assert expression is not None
        assert (expression.value, expression.numbers) == (expected.value, expected.numbers)


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    expression = parsed(text)
    assert expression is None or set(text) <= set("0123456789+-*/()")


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("7", "7"),
        ("((7))", "7"),
        ("(3+7)*12", "(3+7)*12"),
        ("(3*7)+12", "3*7+12"),
        ("12-(7-3)", "12-(7-3)"),
        ("12+(7-3)", "12+7-3"),
        ("12/(7*3)", "12/(7*3)"),
        ("12*(7/3)", "12*7/3"),
        ("((12-7))*(3)", "(12-7)*3"),
    ],
)
def test_parentheses_that_change_nothing_are_left_out(text: str, shortest: str) -> None:
    expression = parsed(text)
    assert expression is not None
    assert expression.text == shortest


@pytest.mark.parametrize(
    "text",
    [
        *("", "3+", "-3", "(3", "3)", "()", "3(4)", "(3)(4)", "3--3"),
        *("3 + 4", "3+4\n", "3+4=7", "0", "03+4", "100", "1.5", "9**9", "9//2"),
        *("1/(2-2)", "5/(3-3)+1"),
        *("\u0663+\u0664", "\uff13+\uff14", "3\u22124", "3\u00d74", "__import__('os').system('id')"),
        *("(" * 9 + "3" + ")" * 9, "(" * 100_000, "1+" * 100_000 + "1", "99*" * 30 + "99"),
    ],
)
def test_everything_else_is_no_expression(text: str) -> None:
    assert parsed(text) is None


def test_bounds_leave_room_for_every_answer() -> None:
    assert parsed("(" * 8 + "3" + ")" * 8) is not None
    assert parsed("(((((99-98)-97)-96)-95)-94)") is not None
    longest = "99*" * 20 + "9+99"
    assert len(longest) == 64
    assert parsed(longest) is not None
    assert parsed(f"{longest}*9") is None
