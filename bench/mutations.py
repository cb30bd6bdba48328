"""Makes the small mistakes that `bench/mutants.py` plants, with the operators of mutmut.

These are another operator, number or comparison, an argument that is gone or None, a value that is None, a branch that
is always taken. What words things for people stays as it is: texts, messages of errors, descriptions and help.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

_WHOLE: Final = (cst.Annotation, cst.Assert, cst.Import, cst.ImportFrom, cst.Raise)
"""Parts without mutants: what changes nothing that is computed, or words alone."""
_NO_CODE: Final = ("cast", "Metric", "log")
"""Calls without mutants: a type for the type checker, what a metric means, and methods of a module's log."""
_WORDED: Final = ("description", "epilog", "help", "metavar", "responses")
"""Arguments without mutants, because they word the API's description or the help of a command."""


class _Change(NamedTuple):
    node: cst.CSTNode
    other: cst.CSTNode


class Mutations:
    """All mutations of one file, by their numbers; each is made when it is asked for."""

    def __init__(self, source: str) -> None:
        finder = _Finder()
        self._module = cst.parse_module(source)
        self._module.visit(finder)
        self._changes = finder.changes

    def __len__(self) -> int:
        return len(self._changes)

    def __getitem__(self, number: int) -> str:
        """Return the source with one mutation in it, which may be no Python any more."""
        node, other = self._changes[number]
        changed = self._module.deep_replace(node, other)
        assert isinstance(changed, cst.Module)
        return changed.code


class _Finder(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.changes = list[_Change]()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _WHOLE) or _is_plain_decorator(node) or _is_no_code(node) or _is_worded(node):
            return False
        others = [other for make in _operators(type(node)) for other in make(node)]
        self.changes += [_Change(node, other) for other in others if not _changes_words_alone(node, other)]
        return True


@cache
def _operators(kind: type[cst.CSTNode]) -> list[Callable[[Any], Iterable[cst.CSTNode]]]:
    return [make for of, make in mutation_operators if issubclass(kind, of) and make.__name__ != "operator_string"]


def _is_plain_decorator(node: cst.CSTNode) -> bool:
    """Tell whether a decorator registers nothing, unlike `@router.post(...)`, whose arguments are rules."""
    if not isinstance(node, cst.Decorator):
        return False
    return not (isinstance(node.decorator, cst.Call) and isinstance(node.decorator.func, cst.Attribute))


def _is_no_code(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call):
        return False
    called = node.func.value if isinstance(node.func, cst.Attribute) else node.func
    return isinstance(called, cst.Name) and called.value in _NO_CODE


def _is_worded(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value in _WORDED


def _changes_words_alone(node: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Tell whether the mutant of a call lacks nothing but words."""
    if not isinstance(node, cst.Call) or not isinstance(other, cst.Call):
        return False
    gone: Sequence[cst.Arg] = [arg for arg in node.args if not any(arg is kept for kept in other.args)]
    return bool(gone) and all(map(_is_worded, gone))
