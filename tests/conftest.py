"""What every test stands on: no downloads, no usage reports, a data folder of its own, one thread of torch."""

import gc
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from hypothesis import settings

from tests.fork_server import fork_server

ACCEPTANCE: Final = Path(__file__).parent / "acceptance"
settings.register_profile("unhurried", deadline=None)  # a busy machine is no failure
settings.load_profile("unhurried")
os.environ.update(
    {
        "DO_NOT_TRACK": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TRANSFORMERS_OFFLINE": "1",
    }
)
for name in [name for name in os.environ if name.startswith("SWEEPS_") and name != "SWEEPS_TEST_POSTGRES_URL"]:
    del os.environ[name]  # a developer's own installation is not the one under test
# Run in the background of a script, we inherit an ignored SIGINT, and so would every process that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    """Give the whole run one data folder of its own, and refuse connections to other machines."""
    os.environ["SWEEPS_HOME"] = tempfile.mkdtemp(prefix="sweeps-test-")
    sys.addaudithook(_stay_on_this_machine)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files of whole installations, three others after each: they wait while the others compute."""
    files = dict[Path, list[pytest.Item]]()
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [file for file in files if ACCEPTANCE in file.parents]
    computing, order = [file for file in files if file not in waiting], list[Path]()
    for place, file in enumerate(waiting):
        order += [file, *computing[3 * place : 3 * place + 3]]
    order += computing[3 * len(waiting) :]
    items[:] = [item for file in order for item in files[file]]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spare collections what was imported: Accelerate forces one after each of hundreds of trainings."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Remove the run's data folder."""
    shutil.rmtree(os.environ.pop("SWEEPS_HOME", ""), ignore_errors=True)


def _stay_on_this_machine(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise when this process opens a stream to another machine. Children are told by the environment above."""
    if event != "socket.connect":
        return
    connection, address = arguments
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return  # Ray finds out its own address with a datagram socket that sends nothing
    host = str(address[0])
    if host != "localhost" and host not in _own_addresses() and not ipaddress.ip_address(host).is_loopback:
        raise PermissionError(f"a test tried to reach {host}:{address[1]}; tests use this machine only")


def _own_addresses() -> set[str]:
    return {entry.address for entries in psutil.net_if_addrs().values() for entry in entries}


@pytest.fixture(scope="session")
def forks() -> Iterator[Mapping[str, str]]:
    """The variables with which processes of ours are forked from one that has imported torch and TRL."""
    with fork_server() as variables:
        yield variables


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with 1,500 others in one another, deeper than a path can reach or Python goes, and a file in each."""
    folder = tmp_path / "deep"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.close(os.open("file", os.O_CREAT, dir_fd=here))
        os.mkdir("n" * 100, dir_fd=here)
        below = os.open("n" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)
