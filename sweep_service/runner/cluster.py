"""The Ray cluster as a runner sees it: connecting, and how many trials and evaluations fit."""

import logging
import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import ray
from ray._private.worker import global_worker
from ray.util import placement_group, remove_placement_group

from sweep_service.auth import is_loopback
from sweep_service.processes.port_owners import StrangerListens, check_port
from sweep_service.runner.lease import process_behind
from sweep_service.settings import Settings
from sweep_service.sweep.shares import Node, Part, fit
from sweep_service.sweep.spec import Resources

COUNT_EVERY_S: Final = 5.0


def connect(settings: Settings, sweep_id: str) -> int | None:
    """Connect to Ray as this sweep's own job; return the pid of this host's raylet if it can be told.

    Raises: ConnectionError, if nobody listens there, for whom Ray itself would try for minutes, then abort the process;
        or if a stranger does, who would be sent the token.
    """
    host, _, port = settings.ray_address.rpartition(":")
    if not host:
        raise ValueError(f"SWEEPS_RAY_ADDRESS must be host:port of a Ray head, not {settings.ray_address!r}")
    try:
        check_port(host, int(port), settings.trusted)
    except (OSError, StrangerListens) as error:
        raise ConnectionError(f"no Ray at {settings.ray_address}: {error}") from error
    if is_loopback(host):
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # or Ray replaces a loopback address by another
    ray.init(
        address=settings.ray_address,
        namespace=sweep_id,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    node = global_worker.node
    return process_behind(node.raylet_socket_name) if node else None


class Slots:
    """Tells how many trials and evaluations, with these resources each, fit the cluster's nodes at a time."""

    def __init__(self, trial: Resources, evaluation: Resources) -> None:
        self._trial, self._evaluation = Part.of(trial), Part.of(evaluation)
        self._nodes, self._counted_at = list[Node](), float("-inf")
        self._answers = dict[tuple[int, int], bool]()

    def nodes(self) -> Sequence[Node]:
        """Return the resources of the nodes that live now, or did a few seconds ago."""
        if time.monotonic() - self._counted_at > COUNT_EVERY_S:  # nodes come and go
            self._counted_at, self._answers = time.monotonic(), {}
            self._nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return self._nodes

    def __call__(self, trials: int, evaluations: int) -> bool:
        """True if so many may run at a time. One alone always may: Tune waits until it fits."""
        if trials + evaluations <= 1:
            return True
        nodes, number = self.nodes(), (trials, evaluations)  # about ten times a second
        if number not in self._answers:
            self._answers[number] = fit([self._trial] * trials + [self._evaluation] * evaluations, nodes)
        return self._answers[number]


@contextmanager
def demanded(part: Resources) -> Generator[None]:
    """Show an autoscaler, as a placement group that waits, that a node for this is wanted."""
    group = placement_group([{"CPU": part.cpus} | ({"GPU": part.gpus} if part.gpus else {})])
    try:
        yield
    finally:
        remove_placement_group(group)
