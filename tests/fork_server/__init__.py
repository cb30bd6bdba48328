"""Processes of the tests without their imports of torch, TRL and Ray, which take most of a small sweep's time."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from trainers.process.environment import ENVIRONMENT

_HERE = Path(__file__).parent
_FORKED: Final = ("sweep_service.runner", "sweep_service.runner.preloaded", "trainers")
"""A sweep's runner, what an actor forks its trainers from, and a trainer that it starts alone or as one of several."""


@contextmanager
def fork_server() -> Iterator[dict[str, str]]:
    """Run the server; yield the variables with which the processes of sweeps are forked from it."""
    with tempfile.TemporaryDirectory(prefix="sweeps-forks-") as folder:
        path = Path(folder, "socket")
        listener = socket.create_server(str(path), family=socket.AF_UNIX)  # requests wait until the imports are done
        environment = os.environ | ENVIRONMENT | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "tests.fork_server.server", str(listener.fileno())]
        here = {"cwd": _HERE.parents[1], "stdin": subprocess.PIPE, "pass_fds": [listener.fileno()]}
        with listener, subprocess.Popen(command, env=environment, **here) as server:
            paths = os.pathsep.join([str(_HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
            yield {"TESTS_FORK_SERVER": str(path), "TESTS_FORKED": " ".join(_FORKED), "PYTHONPATH": paths}
            assert server.stdin is not None
            server.stdin.close()


def forked(forks: Mapping[str, str], *modules: str) -> dict[str, str]:
    """Return the environment in which `python -m` of these modules is forked; what they start themselves is not."""
    return {**os.environ, **forks, "TESTS_FORKED": " ".join(modules)}
