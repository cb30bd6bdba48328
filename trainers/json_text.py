"""Hooks for `json.loads` that refuse what the parser of the standard library takes without a word."""

from typing import Any, NoReturn


class RepeatedKey(ValueError):
    """An object has a key twice, of which other parsers would keep one value silently."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs, as an `object_pairs_hook`.

    Raises: RepeatedKey.
    """
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise RepeatedKey(f"the key {repeated[:40]!r} appears twice in one object")
    return result


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, as a `parse_constant`.

    Raises: ValueError.
    """
    raise ValueError(f"{name} is not a number in JSON")
