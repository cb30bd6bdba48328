"""A further node of a Ray cluster on loopback, which `ray start` refuses to join; argument: HOST:PORT of the head."""

import sys
import time

from ray._private.node import Node
from ray._private.parameter import RayParams

if __name__ == "__main__":
    node = Node(
        RayParams(
            gcs_address=sys.argv[1],
            node_ip_address="127.0.0.1",
            num_cpus=2,
            num_gpus=0,
            object_store_memory=100_000_000,
            min_worker_port=0,
            max_worker_port=0,
            include_log_monitor=False,
            dashboard_agent_listen_port=0,
        ),
        head=False,
        shutdown_at_exit=True,
    )
    sys.stdout.write("joined\n")
    sys.stdout.flush()
    time.sleep(3600)
