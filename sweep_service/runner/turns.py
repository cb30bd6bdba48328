"""A sweep's turn among the others: asks for a slot, says behind whom it waits, and gives its runner's place away."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from sweep_service.store import Fence, Store
from sweep_service.sweep.records import Attempt
from sweep_service.sweep.shares import Node, Part, Share, fit, has_to_yield, is_turn_of, placeable, waiting_text

ASK_EVERY_S: Final = 0.5
SAY_AFTER_S: Final = 10.0
"""Seconds without anything that runs after which a sweep says behind whom it waits; turns of seconds go unsaid."""
GIVE_WAY_AFTER_S: Final = 5.0
"""Seconds without anything that runs after which a runner ends, if a sweep that is delayed much more has none."""
YIELD_EVERY_S: Final = 5.0
"""Seconds between two looks whether trials are to give their slots back."""


class Turns:
    """Begins attempts when it is their sweep's turn.

    Args:
        nodes: returns the nodes of the cluster that live now.
        give_way: ends this runner, for another sweep to get one.
    """

    def __init__(
        self, store: Store, fence: Fence, nodes: Callable[[], Sequence[Node]], give_way: Callable[[], None]
    ) -> None:
        self._store, self._fence, self.nodes, self._give_way = store, fence, nodes, give_way
        self._asked_at = self._yielded_at = self._overdrawn_at = float("-inf")
        self._since: float | None = None
        self.delay: str | None = None
        """The reason for a long wait, in words."""

    @property
    def is_early(self) -> bool:
        """True if a request a moment ago returned nothing."""
        return self._since is not None and time.monotonic() - self._asked_at < ASK_EVERY_S

    def begin(self, work_id: str, directory: str, part: Part, *, alone: bool) -> Attempt | None:
        """Start an attempt of a trial or evaluation if it is the sweep's turn; else have the sweep wait for it.

        Args:
            alone: whether nothing else of the sweep runs.
        Raises: StaleEpoch.
        """
        present, nodes = list[Share](), self.nodes()

        def is_turn(shares: Sequence[Share]) -> bool:
            present.extend(shares)
            return is_turn_of(self._fence.sweep_id, shares, nodes)

        attempt = self._store.start_in_turn(self._fence, work_id, directory, part, part.slots(nodes), is_turn)
        if attempt is None:
            self._wait(present, nodes, alone=alone)
        else:
            self._since = self.delay = None
        return attempt

    def could_begin(self, part: Part) -> bool:
        """True if `begin` would start an attempt now, while nothing of the sweep runs; else the sweep waits.

        Raises: StaleEpoch.
        """
        nodes = self.nodes()
        shares = self._store.wait_in_turn(self._fence, part, part.slots(nodes))
        if is_turn_of(self._fence.sweep_id, shares, nodes):
            self._since, self._asked_at = time.monotonic(), float("-inf")  # it begins next
            return True
        self._wait(shares, nodes, alone=True)
        return False

    def _wait(self, shares: Sequence[Share], nodes: Sequence[Node], *, alone: bool) -> None:
        now = self._asked_at = time.monotonic()
        own = next((share for share in shares if share.sweep_id == self._fence.sweep_id), None)
        if own is None:
            return  # its lease has run out: it is renewed in a moment, or this runner ends
        waited_s = now - self._since if self._since is not None and alone else 0.0
        self._since = now - waited_s
        if waited_s < SAY_AFTER_S:
            self.delay = None
        elif self.delay is None:  # said once, though those ahead change
            self.delay = waiting_text(self._fence.sweep_id, shares, nodes)
        if waited_s < GIVE_WAY_AFTER_S:
            return
        if any(own.makes_room_for(other) for other in placeable(self._store.unclaimed(), nodes)):
            # One without a runner is delayed so much more that it needs one.
            self._store.wait_in_turn(self._fence, None)
            self._give_way()

    def withdraw(self) -> None:
        """Wait for nothing any more."""
        if self._since is not None:
            self._since = self.delay = None
            self._store.wait_in_turn(self._fence, None)

    def comes_first(self, freeing: Sequence[Part]) -> Share | None:
        """Return the sweep for whose turn one of this sweep's trials is to be paused; None also between two looks.

        Args:
            freeing: parts of its trials that are being paused already.
        """
        if time.monotonic() - self._yielded_at < YIELD_EVERY_S:
            return None
        self._yielded_at = time.monotonic()
        return has_to_yield(self._fence.sweep_id, freeing, self._store.shares(), self.nodes())

    def is_overdrawn(self) -> bool:
        """True if sweeps hold more than the cluster has, since a node went away; False also between two looks."""
        if time.monotonic() - self._overdrawn_at < YIELD_EVERY_S:
            return False
        self._overdrawn_at = time.monotonic()
        return not fit([part for share in self._store.shares() for part in share.held], self.nodes())
