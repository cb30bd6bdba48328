"""Waits until the cluster has a node on which a sweep's trials and evaluations fit."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from sweep_service.runner.cluster import demanded
from sweep_service.runner.cost_probe import SweepEnd
from sweep_service.runner.lease import Lease
from sweep_service.runner.turns import GIVE_WAY_AFTER_S
from sweep_service.runner.wishes import Wishes
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import SweepState
from sweep_service.sweep.shares import Node, Part, fit, placeable
from sweep_service.sweep.spec import Resources

_LOOK_EVERY_S: Final = 0.5


def wait_for_nodes(
    store: Store, fence: Fence, lease: Lease, wishes: Wishes, nodes: Callable[[], Sequence[Node]]
) -> SweepEnd | None:
    """Wait until some node has room for each kind of the sweep's work, or the user interrupts the sweep.

    An autoscaler sees that it waits. The runner gives way if a sweep that has none would fit the nodes that are there.

    Args:
        nodes: returns the nodes of the cluster that live now.
    Returns: the sweep's end if it has waited for as long as its spec says; None if it goes on.
    Raises: StaleEpoch.
    """
    spec, needs = wishes.sweep.spec, list[tuple[str, Resources, str]]()
    if not wishes.sweep.has_trained:
        needs.append(("a trial", spec.resources, "/resources"))
    if wishes.sweep.benchmarks:
        field = "/benchmarks/resources" if spec.benchmarks else "/resources"
        needs.append(("an evaluation", spec.evaluation_resources, field))
    for work, resources, field in needs:
        part = Part.of(resources)
        if fit([part], nodes()):
            continue
        needed = f"{resources.cpus:g} CPUs and {resources.gpus:g} GPUs"
        lack = f"{work} asks for {needed}, which no node of the Ray cluster has"
        began = time.monotonic()
        store.wait_in_turn(fence, None, slots=0)
        store.say_what_delays(fence, f"{lack}; the sweep begins as soon as one does")
        with demanded(resources):
            while not (met := fit([part], nodes())) and not wishes.interruption:
                waited_s, hours = time.monotonic() - began, wishes.sweep.spec.budget.max_wait_hours
                if hours is not None and waited_s >= 3600 * hours:
                    break
                if waited_s >= GIVE_WAY_AFTER_S and placeable(store.unclaimed(), nodes()):
                    lease.give_way()
                lease.beat()
                time.sleep(_LOOK_EVERY_S)
        store.say_what_delays(fence, None)
        if not met and not wishes.interruption:
            command = f"sweeps extend {fence.sweep_id} --max-wait-hours none"
            remedy = f"lower {field}, or add such a node and have it go on: {command}"
            return SweepEnd(SweepState.FAILED, f"{lack}; {remedy}", wishes.sweep.generation)
    return None
