"""Refuses a document that is larger than any sweep needs, before anything else looks at it.

The work of every later check grows with the document, so these limits bound it. They are wide: the longest of
the examples has 91 values and 1,242 characters of training.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from sweep_service.errors import SpecError, pointer

MAX_DEPTH: Final = 32
"""Levels of nesting; a spec needs fewer than ten."""
MAX_VALUES: Final = 4000
"""Values of a document; two stages of 1,000 seeds leave half of them for the rest."""
MAX_TRAINING_VALUES: Final = 1000
"""Values of `training`, which is read anew for every point of the space that is tried."""
MAX_TRAINING_CHARACTERS: Final = 16_384
"""Characters of `training` as JSON, of which every config keeps a copy."""
MAX_KEY_CHARACTERS: Final = 200

_Path = tuple[str | int, ...]


def size_errors(document: Mapping[Any, Any]) -> list[SpecError]:
    """Return the errors of a document that is too large to be checked any further, or has a key that is no text."""
    if errors := _errors_of(document, MAX_VALUES, "the document"):
        return errors
    training = document.get("training")
    if not isinstance(training, Mapping):
        return []
    if errors := _errors_of(cast("Mapping[Any, Any]", training), MAX_TRAINING_VALUES, "training", ("training",)):
        return errors
    characters = len(json.dumps(training, default=str))
    if characters <= MAX_TRAINING_CHARACTERS:
        return []
    remedy = f"more than {MAX_TRAINING_CHARACTERS}, and every config keeps a copy of it; shorten its texts and lists"
    return [SpecError("/training", f"training has {characters} characters as JSON, {remedy}")]


def _errors_of(document: object, most: int, name: str, begin: _Path = ()) -> list[SpecError]:
    level, values = [(begin, document)], 0
    for _ in range(MAX_DEPTH):
        for path, node in level:
            if isinstance(node, Mapping) and (reason := _wrong_key(cast("Mapping[object, object]", node))):
                return [SpecError(pointer(path), reason)]
        level = [inner for path, node in level for inner in _inner(path, node)]
        if not level:
            return []
        values += len(level)
        if values > most:
            remedy = "give a range in place of a long list, or a shorter one"
            return [SpecError(pointer(begin), f"{name} has more than {most} values; {remedy}")]
    return [
        SpecError(
            pointer(level[0][0][:3]), f"{name} is nested deeper than {MAX_DEPTH} levels; a sweep needs fewer than ten"
        )
    ]


def _wrong_key(mapping: Mapping[object, object]) -> str | None:
    for key in mapping:
        if not isinstance(key, str):
            return f'the key {key!r:.100} is no text; write "{key!s:.100}" if it is a name'
        if len(key) > MAX_KEY_CHARACTERS:
            return f"the key {key[:40]!r}… has {len(key)} characters, more than {MAX_KEY_CHARACTERS}"
    return None


def _inner(path: _Path, node: object) -> Iterator[tuple[_Path, object]]:
    if isinstance(node, Mapping):
        yield from (((*path, str(key)), value) for key, value in cast("Mapping[object, object]", node).items())
    elif isinstance(node, list | tuple):
        values = cast("Sequence[object]", node)
        yield from (((*path, index), value) for index, value in enumerate(values))
