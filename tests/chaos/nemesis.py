"""The nemesis: faults in shuffled rounds and verbs between them, at moments that a seed draws."""

import heapq
import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sweep_service.client import Client
from sweep_service.errors import ServiceError
from tests.chaos.faults import FAULTS, Strike
from tests.chaos.installation import Installation
from tests.chaos.verbs import WEIGHTS, Book, ask, look_at_states
from tests.chaos.watch import Watch

FAULT_EVERY_S: Final = (12.0, 18.0)
VERB_EVERY_S: Final = (7.0, 14.0)
LOOK_EVERY_S: Final = 0.25


@dataclass
class Tally:
    """Deeds so far, for the table at the end."""

    faults: Counter[str] = field(default_factory=Counter[str])
    verbs: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter[str]))
    broken: list[str] = field(default_factory=list[str])


class Rounds:
    """Draws kinds so that each comes once before any comes again; one that finds nothing to hit comes first next."""

    def __init__(self, kinds: Sequence[str], rng: random.Random) -> None:
        self._kinds, self._rng, self._left = sorted(kinds), rng, list[str]()

    def next(self) -> Iterator[str]:
        """Yield kinds to try; whoever uses one calls `used`."""
        if not self._left:
            self._left = self._rng.sample(self._kinds, len(self._kinds))
        yield from list(self._left)
        again = [kind for kind in self._kinds if kind not in self._left]
        self._left += self._rng.sample(again, len(again))  # nothing of this round can be done now
        yield from self._left[-len(again) :] if again else ()

    def used(self, kind: str) -> None:
        """Note that this kind was done."""
        self._left.remove(kind)


class Nemesis:
    """Does faults and verbs for some time.

    Args:
        kinds: kinds of faults, of `FAULTS`.
        verbs: names of what is asked for, of `VERBS`.
        rng: draws kinds, victims and moments.
        say: called with a line about each thing done.
    """

    def __init__(
        self,
        installation: Installation,
        watch: Watch,
        book: Book,
        kinds: Sequence[str],
        verbs: Sequence[str],
        rng: random.Random,
        say: Callable[[str], None],
    ) -> None:
        self._installation, self._watch, self._book, self._rng, self._say = installation, watch, book, rng, say
        self._rounds, self._verbs = Rounds(kinds, rng), sorted(verbs)
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._undone: dict[int, Strike] = {}
        self.tally = Tally()

    def run(self, client: Client, seconds: float) -> None:
        """Do faults and verbs; at the end of the time all faults are undone."""
        end = time.monotonic() + seconds
        self._later(0, lambda: self._ask("submit", client))
        self._later(1, lambda: self._ask("submit", client))
        self._later(2, lambda: self._verb(client))
        self._later(self._rng.uniform(*FAULT_EVERY_S), self._fault)
        while time.monotonic() < end:
            self._installation.tend()
            while self._due and self._due[0][0] <= time.monotonic():
                heapq.heappop(self._due)[2]()
            time.sleep(LOOK_EVERY_S)

    def undo_all(self) -> None:
        """End every fault that goes on; one that waits to be noticed is waited for."""
        while self._undone:
            self._installation.tend()
            for number, strike in list(self._undone.items()):
                if not strike.is_open:
                    self._undo(number)
            time.sleep(LOOK_EVERY_S)

    def _later(self, seconds: float, do: Callable[[], object]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), do))

    def _fault(self) -> None:
        self._later(self._rng.uniform(*FAULT_EVERY_S), self._fault)
        for kind in self._rounds.next():
            strike = FAULTS[kind](self._installation, self._rng)
            if strike is not None:
                self._rounds.used(kind)
                self._note(strike)
                return

    def _note(self, strike: Strike) -> None:
        self.tally.faults[strike.kind] += 1
        self._say(f"FAULT   {strike.said}")
        self._watch.expect_progress(strike)
        if strike.lasts_s:
            number = next(self._numbers)
            self._undone[number] = strike
            self._later(strike.lasts_s, lambda: self._undo(number))

    def _undo(self, number: int) -> None:
        strike = self._undone.pop(number, None)
        if strike is not None and (broken := strike.undo()) is not None:
            self.tally.broken.append(broken)

    def _verb(self, client: Client) -> None:
        self._later(self._rng.uniform(*VERB_EVERY_S), lambda: self._verb(client))
        with suppress(ServiceError):
            look_at_states(client, self._book)
        drawn = self._rng.choices(self._verbs, [WEIGHTS.get(verb, 1) for verb in self._verbs], k=len(self._verbs))
        for name in (*dict.fromkeys(drawn), "plan"):
            if self._ask(name, client):
                return

    def _ask(self, name: str, client: Client) -> bool:
        told = ask(name, client, self._book, self._rng)
        if told is not None:
            of, answer = told
            self.tally.verbs[name][answer] += 1
            self._say(f"verb    {name} {of}: {answer}")
        return told is not None
