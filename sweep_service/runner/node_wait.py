"""Waits until the cluster has a node on which a sweep's trials and evaluations fit."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from sweep_service.runner.cluster import demanded
from sweep_service.runner.cost_probe import SweepEnd
from sweep_service.runner.lease import Lease
from sweep_service.runner.turns import GIVE_WAY_AFTER_S
from sweep_service.runner.wishes import Wishes
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import Sweep, SweepState
from sweep_service.sweep.shares import Node, Part, fit, placeable
from sweep_service.sweep.spec import Resources

_LOOK_EVERY_S: Final = 0.5


class _Need(NamedTuple):
    """Room on one node that a sweep needs before it begins."""

    work: str
    """The work that needs it, in words."""
    resources: Resources
    field: str
    """Place in the spec of these resources."""

    @property
    def asked(self) -> str:
        """The need in words, and that nothing meets it."""
        needed = f"{self.resources.cpus:g} CPUs and {self.resources.gpus:g} GPUs"
        return f"{self.work} asks for {needed}, which no node of the Ray cluster has"

    def unmet(self, sweep_id: str) -> str:
        """Return what to say of a sweep that has waited for as long as it may."""
        command = f"sweeps extend {sweep_id} --max-wait-hours none"
        return f"{self.asked}; lower {self.field}, or add such a node and have it go on: {command}"


def _needs(sweep: Sweep) -> Iterator[_Need]:
    spec = sweep.spec
    if not sweep.has_trained:
        yield _Need("a trial", spec.resources, "/resources")
    if sweep.benchmarks:
        field = "/benchmarks/resources" if spec.benchmarks else "/resources"
        yield _Need("an evaluation", spec.evaluation_resources, field)


class NodeWait:
    """The stage of a sweep in which it waits for nodes, as long as its spec says; an autoscaler sees it.

    Its runner gives way if a sweep that has none would fit the nodes that are there.

    Args:
        nodes: returns the nodes of the cluster that live now.
    """

    def __init__(
        self, store: Store, fence: Fence, lease: Lease, wishes: Wishes, nodes: Callable[[], Sequence[Node]]
    ) -> None:
        self._store, self._fence, self._lease, self._wishes, self._nodes = store, fence, lease, wishes, nodes

    def run(self) -> SweepEnd | None:
        """Wait until some node has room for each kind of the sweep's work, or the user interrupts the sweep.

        Returns: the sweep's end if it may wait no longer; None if it goes on.
        Raises: StaleEpoch.
        """
        for need in _needs(self._wishes.sweep):
            if not self._is_met(need) and not self._wait(need) and not self._wishes.interruption:
                return SweepEnd(SweepState.FAILED, need.unmet(self._fence.sweep_id), self._wishes.sweep.generation)
        return None

    def _is_met(self, need: _Need) -> bool:
        return fit([Part.of(need.resources)], self._nodes())

    def _wait(self, need: _Need) -> bool:
        """Wait for a node; return whether there is one."""
        began = time.monotonic()
        self._store.wait_in_turn(self._fence, None, slots=0)
        self._store.say_what_delays(self._fence, f"{need.asked}; the sweep begins as soon as one does")
        with demanded(need.resources):
            while not (met := self._is_met(need)) and not self._wishes.interruption:
                waited_s, hours = time.monotonic() - began, self._wishes.sweep.spec.budget.max_wait_hours
                if hours is not None and waited_s >= 3600 * hours:
                    break
                if waited_s >= GIVE_WAY_AFTER_S and placeable(self._store.unclaimed(), self._nodes()):
                    self._lease.give_way()
                self._lease.beat()
                time.sleep(_LOOK_EVERY_S)
        self._store.say_what_delays(self._fence, None)
        return met
