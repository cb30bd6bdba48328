"""Plants a mistake in a loaded module: its functions get the code of a source in which one snippet differs.

The functions stay the objects they are, so whoever holds one runs the mistake: methods of classes, rows of tables,
names imported elsewhere.
"""

import inspect
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any


@contextmanager
def planted(module: ModuleType, right: str, wrong: str) -> Generator[None]:
    """Run `module` with the snippet `right` replaced by `wrong`. A snippet that is not there exactly once is stale."""
    source = inspect.getsource(module)
    occurrences = source.count(right)
    assert occurrences == 1, (
        f"{right!r} is {occurrences} times in {module.__name__}, not once: bring the mutation up to date"
    )
    assert right.count("\n") == wrong.count("\n"), "lines may not move: they are part of what code objects compare"
    before, after = (_codes(source.replace(right, text), module) for text in (right, wrong))
    changed = {name: code for name, code in after.items() if code != before[name]}
    touched = [(function, changed[name]) for name, function in _functions(module) if name in changed]
    assert touched, f"{right!r} lies in no function of {module.__name__}"
    originals = [function.__code__ for function, _ in touched]
    try:
        for function, code in touched:
            function.__code__ = code
        yield
    finally:
        for (function, _), code in zip(touched, originals, strict=True):
            function.__code__ = code


def _codes(source: str, module: ModuleType) -> dict[str, CodeType]:
    """The code of each function by its qualified name."""
    return dict(_nested(compile(source, str(module.__file__), "exec", dont_inherit=True)))


def _nested(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            yield from _nested(constant)


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """Functions and methods defined in the module, below their decorators."""
    for item in vars(module).values():
        if getattr(item, "__module__", None) != module.__name__:
            continue
        for member in [item, *(vars(item).values() if isinstance(item, type) else [])]:
            if function := _plain(member):
                yield function.__qualname__, function


def _plain(member: Any) -> FunctionType | None:
    """The function inside a method, property or decorator."""
    for attribute in ("__func__", "fget", "func", "__wrapped__"):
        member = getattr(member, attribute, None) or member
    return member if isinstance(member, FunctionType) else None
