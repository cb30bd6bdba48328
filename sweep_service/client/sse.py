"""Reading server-sent events (the HTML standard's text/event-stream)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """One event of a stream."""

    event: str
    data: str


def read_messages(lines: Iterable[str]) -> Iterator[Message]:
    """Yield the messages of a stream; comments, ids and messages without data are left out."""
    event, data = "message", list[str]()
    for line in lines:
        if not line:
            if data:
                yield Message(event, "\n".join(data))
            event, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
