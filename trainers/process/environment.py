"""Environment variables, exit codes and default directories of every command of this package."""

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Final

EXIT_CODES: Final = {"SUCCEEDED": 0, "FAILED": 1, "BAD_CONFIG": 2, "DIVERGED": 3, "STOPPED": 4, "MACHINE_FAULT": 6}
"""Exit codes by outcome; 5 is that of a process whose parent has ended."""

UMASK: Final = 0o077
"""Rights that no file of any command gives to anybody but its owner."""
HOME: Final = "~/.sweeps"
"""Directory of all that `sweeps` keeps on one machine, unless SWEEPS_HOME names another."""
CACHE: Final = "cache"
"""Directory in it with models, datasets and benchmarks, unless SWEEPS_CACHE names another."""

HARDWARE: Final = "hardware"
"""Name under which a run notes its kind of hardware among the versions of its packages: a GPU's or a processor's."""

RENDEZVOUS: Final = "TRAINERS_RENDEZVOUS"
"""Variable with the path of the file through which the processes of one run find each other."""

# No run talks to the network, and mlflow, which TRL would import, has no part in it. Read when the libraries load.
ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",
    "TOKENIZERS_PARALLELISM": "false",
}


def default_cache() -> Path:
    """Return the directory of models and datasets: $SWEEPS_CACHE, else `CACHE` in $SWEEPS_HOME, else in `HOME`."""
    cache, home = os.environ.get("SWEEPS_CACHE"), os.environ.get("SWEEPS_HOME")
    return (Path(cache) if cache else Path(home or HOME) / CACHE).expanduser().absolute()


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of these libraries, by name."""
    return {"python": platform.python_version(), **{library: version(library) for library in libraries}}
