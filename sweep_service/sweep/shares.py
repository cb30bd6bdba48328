"""Who begins next, when several sweeps want the slots of one cluster. Pure.

Dominant-resource fairness: a sweep's share is the largest fraction of the cluster's CPUs or GPUs that it holds. The one
with the smallest share goes first; of equals the one that has used the least so far, then the one submitted first. Who
comes first and does not fit yet is waited for, so that no small trial overtakes a large one for ever.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from sweep_service.sweep.spec import Resources

Node = Mapping[str, Any]
"""Ray's resources of a node, such as {"CPU": 8.0, "GPU": 2.0}."""
_ROUNDING = 1e-6
_NAMED = 3
"""Number of sweeps named to one that waits behind them."""


class Part(NamedTuple):
    """CPUs and GPUs of one trial or evaluation."""

    cpus: float
    gpus: float

    @classmethod
    def of(cls, resources: Resources) -> Self:
        """Return the part that these resources are."""
        return cls(resources.cpus, resources.gpus)

    def share_of(self, nodes: Sequence[Node]) -> float:
        """Return the larger of its fractions of all CPUs and of all GPUs."""
        totals = (sum(node.get(name, 0.0) for node in nodes) for name in ("CPU", "GPU"))
        return max(asked / total if total else float(asked > 0) for asked, total in zip(self, totals, strict=True))


@dataclass(frozen=True)
class Share:
    """What a sweep holds of the cluster, has used of it, and waits for."""

    sweep_id: str
    name: str
    held: tuple[Part, ...]
    """Parts of its trials, evaluations and probe that run."""
    used: tuple[tuple[Part, float], ...]
    """Parts, and for how many seconds they have been held so far."""
    waits_for: Part | None
    """What it could begin now, if it were its turn."""

    @property
    def used_s(self) -> float:
        """Seconds for which its trials and evaluations have held their parts, all together."""
        return sum(seconds for _, seconds in self.used)

    def order(self, nodes: Sequence[Node]) -> tuple[float, float, str]:
        """Return the key by which sweeps take turns."""
        held = sum(part.share_of(nodes) for part in self.held)
        used = sum(seconds * part.share_of(nodes) for part, seconds in self.used)
        return round(held, 6), used, self.sweep_id


def is_turn_of(sweep_id: str, shares: Sequence[Share], nodes: Sequence[Node]) -> bool:
    """Whether the part for which a sweep waits may begin, with room left for all who come before it."""
    parts = [part for share in shares for part in share.held]
    for share in sorted(shares, key=lambda share: share.order(nodes)):
        if share.waits_for is None or not fit([share.waits_for], nodes):
            continue
        parts.append(share.waits_for)
        if not fit(parts, nodes):
            return False
        if share.sweep_id == sweep_id:
            return True
    return False


def fit(parts: Sequence[Part], nodes: Sequence[Node]) -> bool:
    """Return whether these fit the nodes together, each on one; the largest are placed first, where there is room."""
    free = [_Free(node.get("CPU", 0.0), [1.0] * int(node.get("GPU", 0.0))) for node in nodes]
    largest_first = sorted(parts, key=lambda part: (part.gpus, part.cpus), reverse=True)
    return all(any(node.take(part) for node in free) for part in largest_first)


@dataclass
class _Free:
    """Resources of a node that nothing has taken yet."""

    cpus: float
    gpus: list[float]
    """Share of each GPU; work that asks for one or more gets whole ones, other work a part of a single one."""

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
    """Return what a sweep waits for, in words: a node, or the sweeps that hold slots or come first."""
    (own,) = (share for share in shares if share.sweep_id == sweep_id)
    assert own.waits_for is not None
    if not fit([own.waits_for], nodes):
        needed = f"{own.waits_for.cpus:g} CPUs and {own.waits_for.gpus:g} GPUs"
        return f"waits for a node with {needed}; the Ray cluster has none at present"
    first = [
        share.name
        for share in sorted(shares, key=lambda share: share.order(nodes))
        if share is not own and (share.held or (share.waits_for and share.order(nodes) < own.order(nodes)))
    ]
    shown = ", ".join(first[:_NAMED]) + (f" and {len(first) - _NAMED} more" if len(first) > _NAMED else "")
    return f"waits for a slot behind {shown or 'other programs on the Ray cluster'}"
