"""Finds the values of a row, a JSON object: of a column, of a path into one, and of the chat that a column holds."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeGuard

MISSING: Final = object()
"""The value of a column that a row does not have."""
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")
_ROLES: Final = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "model"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation"), "tool"),
}
"""The roles of chat templates, by the names that datasets give them."""


class Turn(NamedTuple):
    """A message of a chat."""

    role: str
    content: str


def value_at(row: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column, or of a path into one; `MISSING` if the row has none."""
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif is_list(value) and _INDEX.fullmatch(part) and -len(value) <= int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    """True of a list, false of a text."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def where_it_ends(row: Mapping[str, Any], path: str) -> str:
    """Say what a row has in the place where a path leaves it: `a has b, c`."""
    parts = path.split(".")
    places = [place for end in range(1, len(parts)) if value_at(row, place := ".".join(parts[:end])) is not MISSING]
    value = value_at(row, places[-1])
    if isinstance(value, Mapping):
        return f"{places[-1]} has {', '.join(map(str, value)) or 'no fields'}"
    return f"{places[-1]} is {'a list of ' + str(len(value)) if is_list(value) else shown(value)}"


def plain_text(value: Any, column: str) -> str:
    """Return a text without white space around it, its lines ended by line feeds; empty for null and `MISSING`.

    Raises: ValueError, if it is no text, or one that no tokenizer reads.
    """
    if value is None or value is MISSING:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{column} is {shown(value)}; it must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{column} holds half a character (an unpaired surrogate), which no tokenizer reads") from None
    return value.replace("\r\n", "\n").replace("\r", "\n").strip()


def shown(value: Any) -> str:
    """Return the beginning of a value as JSON."""
    return f"{json.dumps(value):.60}"


def turns_of(value: Any, column: str) -> list[Turn]:
    """Return the messages of a chat, each with its role: `role` and `content`, or ShareGPT's `from` and `value`.

    Raises: ValueError, if the value is no such list.
    """
    if not is_chat(value):
        raise ValueError(f"{column} is {shown(value)}; it must be a text, or a chat: a list of role and content")
    return [_turn(message, f"{column}.{place}") for place, message in enumerate(value)]


def is_chat(value: Any) -> bool:
    """True of a list of messages."""
    return is_list(value) and bool(value) and all(map(_is_message, value))


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and ({"role", "content"} <= value.keys() or {"from", "value"} <= value.keys())


def _turn(message: Mapping[str, Any], place: str) -> Turn:
    role, text = ("role", "content") if message.get("role") is not None and "content" in message else ("from", "value")
    name, content = message.get(role), message.get(text)
    if message.get("tool_calls"):
        raise ValueError(f"{place} calls tools; only text is read")
    if not isinstance(name, str) or name not in _ROLES:
        raise ValueError(f"{place} has the role {shown(name)}; roles are {', '.join(_ROLES)}")
    if is_list(content):  # in parts, as APIs for several kinds of media write it
        if not all(isinstance(part, Mapping) and part.get("type") == "text" for part in content):
            raise ValueError(f"{place} holds {shown(content)}; only text is read")
        content = "\n".join(plain_text(part.get("text"), place) for part in content)
    return Turn(_ROLES[name], plain_text(content, place))


def turn_of(row: Mapping[str, Any], path: str) -> tuple[str, list[Turn]] | None:
    """Return the role of the message whose text a path leads to, and the turns before it; None if it leads elsewhere.

    Raises: ValueError, if the path leads into a chat that is not whole.
    """
    place, _, _ = path.rpartition(".")
    column, _, index = place.rpartition(".")
    chat = value_at(row, column) if index and path not in row else None
    if not is_chat(chat) or not _INDEX.fullmatch(index):
        return None
    turns = turns_of(chat, column)
    number = range(len(turns))[int(index)]
    return turns[number].role, turns[:number]
