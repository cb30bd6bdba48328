"""Who begins next, when several sweeps want the slots of one cluster. Pure.

Sweeps that have not begun go first, in the order in which they began to ask. Then the one goes first that is delayed
most, compared with its own length: a small sweep becomes urgent soon, a large one surely. Who comes first and does not
fit yet is waited for, so that no small trial overtakes a large one for ever. What fits no node comes last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from sweep_service.sweep.spec import Resources

Node = Mapping[str, Any]
"""Ray's resources of a node, such as {"CPU": 8.0, "GPU": 2.0}."""
_ROUNDING = 1e-6
_NAMED = 3
"""Number of sweeps named to one that waits behind them."""
MORE_DELAYED: Final = 1.5
"""Factor by which a sweep must be delayed more than another one that makes room for it."""


class Part(NamedTuple):
    """CPUs and GPUs of one trial or evaluation."""

    cpus: float
    gpus: float

    @classmethod
    def of(cls, resources: Resources) -> Self:
        """Return the part that these resources are."""
        return cls(resources.cpus, resources.gpus)

    def slots(self, nodes: Sequence[Node]) -> int:
        """Return how many of it fit these nodes, each on one."""
        slots, free = 0, [_Free.of(node) for node in nodes]
        while any(node.take(self) for node in free):
            slots += 1
        return slots


@dataclass(frozen=True)
class Share:
    """A sweep's share of the cluster: its present part, its past use since it began to ask, and its needs."""

    sweep_id: str
    name: str
    held: tuple[Part, ...]
    """Parts of its trials, evaluations and probe that run."""
    waits_for: Part | None
    """The part that it could begin now, if it were its turn."""
    asks_since: float
    """Time at which it was submitted, resumed or opened again, in seconds since 1970."""
    asked_s: float
    """Seconds for which it has asked for slots since then."""
    done_s: float
    """Seconds for which its trials and evaluations have held their parts since then, all together."""
    left_s: float | None
    """Seconds for which the rest of them will, as far as can be told; None before any has made an update."""
    slots: int = 1
    """Number of trials that could run at a time if it were alone."""
    lacks_node: bool = False
    """True if no node had room for a trial of it when it last asked."""
    claims: int = 0
    """Number of runners that it has got."""

    @property
    def has_begun(self) -> bool:
        """True if it has got anything since it began to ask."""
        return bool(self.held) or self.done_s > 0

    @property
    def slowdown(self) -> float:
        """Its expected duration relative to running alone, if it gets all its slots from now on."""
        if self.left_s is None or not self.done_s + self.left_s:
            return 1.0
        return (self.asked_s * self.slots + self.left_s) / (self.done_s + self.left_s)

    @property
    def order(self) -> tuple[int, bool, float, int, str]:
        """The key by which sweeps take turns; those that lack a node look for one in turn."""
        urgency = -self.slowdown if self.has_begun else self.asks_since
        last = 1 + self.claims if self.lacks_node else 0
        return last, self.has_begun, urgency, len(self.held), self.sweep_id

    def makes_room_for(self, other: "Share") -> bool:
        """True if it is worth ending a runner or pausing a trial of this sweep, for the other one to go on."""
        if not self.has_begun or not other.has_begun:
            return self.has_begun
        return other.slowdown >= MORE_DELAYED * self.slowdown


def is_turn_of(sweep_id: str, shares: Sequence[Share], nodes: Sequence[Node]) -> bool:
    """True if the part for which a sweep waits may begin, with room left for all who come before it."""
    parts = [part for share in shares for part in share.held]
    for share in placeable(_in_order(shares), nodes):
        assert share.waits_for is not None
        parts.append(share.waits_for)
        if not fit(parts, nodes):
            return False
        if share.sweep_id == sweep_id:
            return True
    return False


def has_to_yield(
    sweep_id: str, freeing: Sequence[Part], shares: Sequence[Share], nodes: Sequence[Node]
) -> Share | None:
    """Return the sweep for whose turn one of this sweep's trials is to be paused; None if all go on.

    Of those that hold slots, and whose delay makes this worth while, the one yields whose turn is the last.

    Args:
        freeing: parts of its trials that are being paused already.
    """
    waiting = placeable(_in_order(shares), nodes)
    first = next((share for share in waiting if not is_turn_of(share.sweep_id, shares, nodes)), None)
    if first is None or first.waits_for is None:
        return None
    yielding = [share for share in _in_order(shares) if share.held and share.makes_room_for(first)]
    if not yielding or yielding[-1].sweep_id != sweep_id or first is yielding[-1]:
        return None
    goes_on = [part for share in shares if share not in yielding for part in share.held]
    if not fit([*goes_on, first.waits_for], nodes):  # it would wait for others all the same
        return None
    stays = [part for share in shares for part in share.held]
    for part in freeing:
        stays.remove(part)
    return None if fit([*stays, first.waits_for], nodes) else first


def placeable(shares: Sequence[Share], nodes: Sequence[Node]) -> list[Share]:
    """Return the sweeps whose next part would fit a free node."""
    return [share for share in shares if share.waits_for and fit([share.waits_for], nodes)]


def _in_order(shares: Sequence[Share]) -> list[Share]:
    return sorted(shares, key=lambda share: share.order)


def fit(parts: Sequence[Part], nodes: Sequence[Node]) -> bool:
    """True if these fit the nodes together, each on one; the largest are placed first, where there is room."""
    free = [_Free.of(node) for node in nodes]
    largest_first = sorted(parts, key=lambda part: (part.gpus, part.cpus), reverse=True)
    return all(any(node.take(part) for node in free) for part in largest_first)


@dataclass
class _Free:
    """Resources of a node that nothing has taken yet."""

    cpus: float
    gpus: list[float]
    """Share of each GPU; work that asks for one or more gets whole ones, other work a part of a single one."""

    @classmethod
    def of(cls, node: Node) -> Self:
        """Return all resources of a node."""
        return cls(node.get("CPU", 0.0), [1.0] * int(node.get("GPU", 0.0)))

    def take(self, part: Part) -> bool:
        """Take resources if they are there; return whether they were."""
        share, number = (1.0, int(part.gpus)) if part.gpus >= 1 else (part.gpus, int(part.gpus > 0))
        taken = [place for place, free in enumerate(self.gpus) if free > share - _ROUNDING][:number]
        if self.cpus < part.cpus - _ROUNDING or len(taken) < number:
            return False
        self.cpus -= part.cpus
        for place in taken:
            self.gpus[place] -= share
        return True


def waiting_text(sweep_id: str, shares: Sequence[Share], nodes: Sequence[Node]) -> str:
    """Return the reason for which a sweep waits: a node, or the sweeps that hold slots or come first."""
    (own,) = (share for share in shares if share.sweep_id == sweep_id)
    assert own.waits_for is not None
    if not fit([own.waits_for], nodes):
        needed = f"{own.waits_for.cpus:g} CPUs and {own.waits_for.gpus:g} GPUs"
        return f"waits for a node with {needed}; the Ray cluster has none at present"
    first = [
        share.name
        for share in _in_order(shares)
        if share is not own and (share.held or (share.waits_for and share.order < own.order))
    ]
    shown = ", ".join(first[:_NAMED]) + (f" and {len(first) - _NAMED} more" if len(first) > _NAMED else "")
    return f"waits for a slot behind {shown or 'other programs on the Ray cluster'}"
