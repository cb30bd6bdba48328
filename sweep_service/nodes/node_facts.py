"""The facts about one machine of the cluster that its trials depend on. Runs in a Ray task, without Ray and torch."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import search_spaces
import sweep_service
import trainers
from sweep_service.processes.child_processes import this_host
from trainers.process.durable import move_whole, write_whole

PACKAGES: Final = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "ray", "vllm")
NONCE_FILE: Final = "nonce"
_KINDS: Final = ("models", "datasets", "benchmarks")
_GPU_TIMEOUT_S: Final = 60
_COUNT_GPUS: Final = (
    "import json, torch; n = torch.cuda.device_count(); "
    "print(json.dumps([torch.cuda.get_device_name(i) for i in range(n)]))"
)


def look(storage: str, cache: str, meeting: str, name: str, *, gpus: bool) -> dict[str, Any]:
    """Return the facts about this machine.

    Args:
        storage: folder to which trials write.
        meeting: name of a folder in `storage` in which the asker has put the file `NONCE_FILE`.
        name: name of the file to put there for the asker.
        gpus: whether to count the GPUs, which takes seconds.
    """
    return {
        "host": this_host(),
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in PACKAGES},
        "code": code_digest(),
        "storage": _answer(lambda: _storage(Path(storage), meeting, name)),
        "cache": _answer(lambda: _cache(Path(cache))),
        "gpus": _answer(_gpus) if gpus else None,
    }


def clock() -> float:
    """Return the time of this machine's clock, in seconds since the Unix epoch."""
    return time.time()


def code_digest() -> str:
    """Return the sha256 of this installation's Python files."""
    digest = hashlib.sha256()
    for package in (search_spaces, sweep_service, trainers):
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*.py")):
            digest.update(f"{root.name}/{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _answer(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return ask()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {"problem": str(error)}


def _storage(storage: Path, meeting: str, name: str) -> dict[str, Any]:
    """Read the asker's file, and leave one of our own, written as checkpoints are."""
    free = shutil.disk_usage(storage).free
    folder = storage / meeting
    if not folder.is_dir():
        return {"free": free, "nonce": None}
    nonce = (folder / NONCE_FILE).read_text(encoding="utf-8")
    unfinished = folder / f".{name}"
    unfinished.mkdir()
    write_whole(unfinished / NONCE_FILE, nonce)
    move_whole(unfinished, folder / name)
    return {"free": free, "nonce": nonce}


def _cache(cache: Path) -> dict[str, Any]:
    """Return the digests of the catalog's entries, by kind and name."""
    os.listdir(cache)
    digests: dict[str, str] = {}
    for kind in _KINDS:
        for record in sorted((cache / kind).glob("[!.]*/catalog.json")):
            digests[f"{kind}/{record.parent.name}"] = json.loads(record.read_text(encoding="utf-8"))["digest"]
    return {"entries": digests}


def _gpus() -> dict[str, Any]:
    """Return the names of the GPUs that torch sees. Ray hides them from a task that holds none, so a child looks."""
    visible = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    ran = subprocess.run(
        [sys.executable, "-c", _COUNT_GPUS],
        env=visible,
        capture_output=True,
        text=True,
        timeout=_GPU_TIMEOUT_S,
        check=False,
    )
    if ran.returncode:
        return {"problem": (ran.stderr.strip().splitlines() or ["torch said nothing"])[-1]}
    facts = {"names": json.loads(ran.stdout), "driver": None}
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with suppress(OSError):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_GPU_TIMEOUT_S, check=False)
        if ran.returncode == 0 and (words := ran.stdout.split()):
            facts["driver"] = words[0]
    return facts
