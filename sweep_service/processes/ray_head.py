"""A Ray head for this machine alone: loopback, token, own ports, own folder, nothing reported."""

import os
import secrets
import sys
from pathlib import Path
from typing import Final

from sweep_service.processes.ray_node import NODE_FILE, watch_node

OBJECT_STORE_BYTES: Final = 100_000_000
"""Size of Ray's shared memory in bytes; results of trials are small."""
MAX_FOLDER_BYTES: Final = 42
"""Longest path of Ray's folder: the paths of its sockets may have 107 bytes, of which Ray takes 65."""


def head_command(port: int, temp_dir: Path, cpus: int, gpus: int) -> list[str]:
    """Return the command that runs a head until it is told to stop.

    Args:
        port: port to which drivers connect; the system picks all others.
        temp_dir: Ray's folder; its path has at most `MAX_FOLDER_BYTES`.
    """
    # `python -m ray.scripts.scripts` would import the module twice
    ray = [sys.executable, "-c", "import sys; from ray.scripts.scripts import main; sys.exit(main())"]
    return [
        *ray,
        *("start", "--head", "--block", "--disable-usage-stats", "--no-monitor"),
        *("--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={temp_dir}"),
        *(f"--num-cpus={cpus}", f"--num-gpus={gpus}", f"--object-store-memory={OBJECT_STORE_BYTES}"),
        *("--min-worker-port=0", "--max-worker-port=0"),
        *("--include-dashboard=false", "--include-log-monitor=false", "--dashboard-agent-listen-port=0"),
        *("--log-style=record", "--log-color=false"),
    ]


def head_environment(token_file: Path, free_port: int, node_file: Path) -> dict[str, str]:
    """Return the variables of a head. Everything that connects to it needs `client_environment`.

    Args:
        free_port: port for the one listener of Ray that has no option.
        node_file: sign of life of the head's node.
    """
    return client_environment(token_file) | {
        "DASHBOARD_METRIC_PORT": str(free_port),
        "RAY_START_HOOK": f"{watch_node.__module__}.{watch_node.__name__}",
        NODE_FILE: str(node_file),
        "RAY_enable_metrics_collection": "0",
        # it would kill actors, whoever uses the memory; Linux kills who does, and then a trial's message says so
        "RAY_memory_monitor_refresh_ms": "0",
    }


def client_environment(token_file: Path) -> dict[str, str]:
    """Return the variables of Ray's drivers: the token, and loopback addresses taken as they are."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_file),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def new_ray_token(path: Path) -> None:
    """Make a new token for Ray, readable by its owner only. Each head gets its own.

    A head that finds its port taken sends its token there; it has ended then, and opens nothing.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32))


def is_ready(log: Path) -> bool:
    """True if the head that writes this log has started all its parts."""
    return log.exists() and b"Ray runtime started" in log.read_bytes()
