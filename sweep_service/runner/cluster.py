"""The Ray cluster as a runner sees it: connecting, and how many trials fit."""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ray
from ray._private.worker import global_worker

from sweep_service.auth import is_loopback
from sweep_service.processes.port_owners import StrangerListens, check_port
from sweep_service.runner.lease import process_behind
from sweep_service.settings import Settings
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
    """Number of trials that may run at a time: as many as fit the cluster's nodes, at most `max_parallel`."""

    def __init__(self, resources: Resources) -> None:
        self._resources, self._counted_at, self._fitting = resources, float("-inf"), 0

    def __call__(self) -> int:
        """Count again every few seconds, for nodes come and go. At least 1: Tune waits until it fits."""
        if time.monotonic() - self._counted_at > COUNT_EVERY_S:
            self._counted_at = time.monotonic()
            self._fitting = fitting(self._resources, [node["Resources"] for node in ray.nodes() if node["Alive"]])
        return max(1, min(self._fitting, self._resources.max_parallel or self._fitting))

    @property
    def fitting(self) -> int:
        """Number of trials that fit the cluster."""
        self()
        return self._fitting


def fitting(resources: Resources, nodes: Sequence[Mapping[str, Any]]) -> int:
    """Return how many trials with these resources fit the nodes, each trial on one node.

    Args:
        nodes: Ray's resources of each node, such as {"CPU": 8.0, "GPU": 2.0}.
    """
    return sum(_fitting_node(resources, node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes)


def _fitting_node(resources: Resources, cpus: float, gpus: float) -> int:
    by_cpu = int(cpus / resources.cpus + 1e-6)
    if not resources.gpus:
        return by_cpu
    by_gpu = int(gpus / resources.gpus) if resources.gpus >= 1 else int(gpus) * int(1 / resources.gpus + 1e-6)
    return min(by_cpu, by_gpu)
