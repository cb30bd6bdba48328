"""Verbs that a user asks for at random, and the book of what was asked: the service owes every word of it."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sweep_service.client import Client
from sweep_service.client.errors import Refused, Unreachable
from sweep_service.errors import Conflict, NotFound, NotReady, SweepDeleted
from sweep_service.sweep.records import SweepState
from tests.chaos.specs import EXTENDED, MORE, SPECS, spec_of

MOST_UNFINISHED: Final = 4
"""Sweeps that have not ended, above which none is submitted."""
NO_ANSWER: Final = "no answer"


@dataclass
class Asked:
    """A sweep that we have asked for, and what we have asked of it since, answered or not."""

    key: str
    """Its idempotency key, and its name."""
    kind: str
    id: str | None = None
    """Its id, once a submission was answered."""
    verbs: set[str] = field(default_factory=set[str])
    """Verbs that were asked of it, whatever the answer."""
    granted: set[str] = field(default_factory=set[str])
    """Verbs that were asked of it and answered with a success."""
    state: SweepState = SweepState.QUEUED
    """The state that the service last told."""

    @property
    def is_there(self) -> bool:
        """Whether it was acknowledged, and not asked to be deleted."""
        return self.id is not None and "delete" not in self.verbs


class Book:
    """All sweeps that were asked for.

    Args:
        kinds: kinds of sweeps that are submitted, of `SPECS`.
    """

    def __init__(self, kinds: Sequence[str] = tuple(SPECS)) -> None:
        self.kinds = sorted(kinds)
        self.sweeps: list[Asked] = []
        self.broken: list[str] = []
        """Answers that no fault excuses."""

    def new(self, kind: str) -> Asked:
        """Note a sweep that is about to be submitted."""
        asked = Asked(f"{kind}-{len(self.sweeps) + 1}", kind)
        self.sweeps.append(asked)
        return asked

    def of_state(self, is_meant: Callable[[Asked], bool]) -> list[Asked]:
        """Return the sweeps of which this is true, if they are there."""
        return [asked for asked in self.sweeps if asked.is_there and is_meant(asked)]


Verb = Callable[[Client, Book, random.Random], str | None]
"""Asks for something; returns of what, or None if there is nothing now of which it could be asked."""


def submit(client: Client, book: Book, rng: random.Random) -> str | None:
    """Submit a sweep; a submission whose answer was lost comes again first, with the same key."""
    lost = [asked for asked in book.sweeps if asked.id is None]
    if not lost and len(book.of_state(lambda asked: not asked.state.is_over)) >= MOST_UNFINISHED:
        return None
    return send(client, book, rng.choice(lost) if lost else book.new(rng.choice(book.kinds)))


def send(client: Client, book: Book, asked: Asked) -> str:
    """Submit a sweep under its key, and note the id that it has."""
    sweep = client.submit(spec_of(asked.kind, asked.key), asked.key)
    if asked.id not in (None, sweep.id):
        book.broken.append(f"key {asked.key}: the same submission was answered with {asked.id} and with {sweep.id}")
    asked.id, asked.state = sweep.id, sweep.state
    return asked.key


def repeat(client: Client, book: Book, rng: random.Random) -> str | None:
    """Submit an acknowledged sweep once more under its key, as a client does that forgot the answer."""
    acknowledged = [asked for asked in book.sweeps if asked.id is not None]
    return send(client, book, rng.choice(acknowledged)) if acknowledged else None


def of_sweep(
    name: str, ask: Callable[[Client, str], object], is_meant: Callable[[Asked], bool]
) -> Callable[[Client, Book, random.Random], str | None]:
    """Return the verb that asks this of one of the sweeps for which `is_meant` is true."""

    def verb(client: Client, book: Book, rng: random.Random) -> str | None:
        meant = book.of_state(is_meant)
        if not meant:
            return None
        asked = rng.choice(meant)
        asked.verbs.add(name)
        assert asked.id is not None
        ask(client, asked.id)
        asked.granted.add(name)
        return asked.key

    return verb


def _plan(client: Client, book: Book, rng: random.Random) -> str:
    kind = rng.choice(book.kinds)
    client.plan(spec_of(kind, f"plan-{kind}"))
    return kind


def _lives(asked: Asked) -> bool:
    return not asked.state.is_over


VERBS: Final[Mapping[str, Verb]] = {
    "submit": submit,
    "repeat": repeat,
    "plan": _plan,
    "pause": of_sweep("pause", Client.pause, _lives),
    "resume": of_sweep("resume", Client.resume, lambda asked: _lives(asked) and "pause" in asked.verbs),
    "extend": of_sweep(
        "extend",
        lambda client, id_: client.extend(id_, MORE),
        lambda asked: asked.kind == EXTENDED and "cancel" not in asked.verbs,
    ),
    "retry": of_sweep("retry", Client.retry_failed, lambda asked: asked.kind == "fragile" and not _lives(asked)),
    "cancel": of_sweep("cancel", Client.cancel, _lives),
    "delete": of_sweep("delete", lambda client, id_: client.delete(id_), lambda asked: asked.state.is_over),
}
"""Every verb."""
WEIGHTS: Final[Mapping[str, int]] = {"submit": 5, "repeat": 2, "pause": 2, "resume": 2}
"""Weight of a verb in the draw, against one of the others."""


def ask(name: str, client: Client, book: Book, rng: random.Random) -> tuple[str, str] | None:
    """Ask for a verb; return of what, and the answer. None if there is nothing to ask it of."""
    return told(partial(VERBS[name], client, book, rng), book, name)


def told(verb: Callable[[], str | None], book: Book, name: str) -> tuple[str, str] | None:
    """Do a verb and put its answer into a word; note an answer that no fault excuses."""
    try:
        of = verb()
    except Unreachable:
        return "?", NO_ANSWER
    except SweepDeleted as error:
        return str(error)[:70], "410"
    except (Conflict, NotReady) as error:
        return str(error)[:70], "409"
    except NotFound as error:
        book.broken.append(f"{name} was answered with 404 for a sweep that was acknowledged, and not deleted: {error}")
        return str(error)[:70], "404"
    except Refused as error:
        if error.problem.status != 503:
            book.broken.append(f"{name} was answered with {error}; expected a success, 409 or 503")
        return error.problem.detail[:70], str(error.problem.status)
    return None if of is None else (of, "ok")


def look_at_states(client: Client, book: Book) -> None:
    """Note the state of every sweep, as far as the API answers."""
    by_id = {sweep.id: sweep.state for sweep in client.sweeps()}
    for asked in book.sweeps:
        if asked.id in by_id:
            asked.state = by_id[asked.id]
