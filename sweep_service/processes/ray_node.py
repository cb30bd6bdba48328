"""Watches a Ray head from inside: `ray start` takes the end of its raylet for somebody's wish, and lives on without it.

A raylet ends like that within a second of any of its agents, for instance.
"""

import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from sweep_service.processes.heartbeat import Heartbeat

NODE_FILE: Final = "SWEEPS_RAY_NODE_FILE"
"""Environment variable with the path of the node's sign of life; without it there is none."""
_LOOK_EVERY_S: Final = 1.0
_ANSWER_WITHIN_S: Final = 10.0


def watch_node(ray_params: Any, head: bool) -> None:
    """Have a thread of `ray start` end it once its head's node is no longer alive; Ray calls this before it starts."""
    ray_params.ray_client_server_port = None  # unused here, it would run anything for who has the token
    if head:
        threading.Thread(target=_watch, args=(ray_params,), name="node-watch", daemon=True).start()


def _watch(ray_params: Any) -> None:
    """Touch the sign of life while Ray lists this head's node as alive, and end the process once it no longer does.

    While Ray's control service (GCS) does not answer nothing is known: there is no sign of life either.
    """
    make_client: Any = import_module("ray._raylet").GcsClient
    is_alive: int = import_module("ray.core.generated.gcs_pb2").GcsNodeInfo.ALIVE
    file = os.environ.get(NODE_FILE)
    heartbeat, client, lived = Heartbeat(Path(file)) if file else None, None, False
    while True:
        time.sleep(_LOOK_EVERY_S)
        try:
            if client is None:
                client = make_client(address=f"{ray_params.node_ip_address}:{ray_params.gcs_server_port}")
            nodes = client.get_all_node_info(timeout=_ANSWER_WITHIN_S).values()
        except Exception:  # noqa: BLE001 (Ray's own errors of any kind: it starts, hangs or ends)
            continue
        alive = any(node.is_head_node and node.state == is_alive for node in nodes)
        if alive:
            lived = True
            if heartbeat is not None:
                heartbeat.beat()
        elif lived:
            sys.stderr.write("Ray's node is no longer alive; this head ends, so that it is started again\n")
            sys.stderr.flush()
            os._exit(1)
