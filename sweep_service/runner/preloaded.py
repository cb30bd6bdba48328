"""A process that has imported torch, transformers and trl, and forks a trainer for each request. On CPUs only.

`python -m sweep_service.runner.preloaded`: a request is a JSON line on standard input, {"arguments": […], "directory":
"…"}; the answers on standard output are {"pid": N} and, when that trainer has ended, {"exit_code": N} (above 128: the
signal). It serves one trainer at a time and ends at the end of its input, its trainer with it, or at SIGTERM and
SIGINT, which its trainer gets first. It is the upper half of its trainers' keepers, so that nothing that a trainer has
started is left behind, whichever of the three is killed.

The imports take seconds, a fork milliseconds. No thread of torch runs before the fork, and a trainer seeds every
generator itself, so a forked run equals a spawned one (there is a test).
"""

import importlib
import json
import os
import sys
import traceback
import warnings
from contextlib import suppress
from typing import Any, Final

from trainers.process.environment import ENVIRONMENT, EXIT_CODES
from trainers.process.imports import keep_imports, without_collections
from trainers.process.keeper import Keeper
from trainers.process.lifeline import ORPHANED_EXIT_CODE, die_with_parent
from trainers.process.machine_faults import machine_fault

_REQUESTS: Final = 0
_ANSWERS: Final = 1
_UNEXPECTED: Final = 1


def main() -> int:
    """Serve until the input ends or a signal comes; return the exit code."""
    die_with_parent()
    keeper = Keeper()
    with without_collections():
        _preload()
    keep_imports()
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    pending = b""
    while keeper.await_input(_REQUESTS) and (chunk := os.read(_REQUESTS, 1 << 16)):
        pending += chunk
        if pending.endswith(b"\n"):
            _serve(json.loads(pending), keeper)
            pending = b""
    return 128 + keeper.stopped_by if keeper.stopped_by else 0


def _preload() -> None:
    """Import what a trainer imports, under the variables that it sets before."""
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    for module in ("trainers.command_line", "trainers.training.train"):
        importlib.import_module(module)


def _serve(request: dict[str, Any], keeper: Keeper) -> None:
    """Fork the lower half of a trainer's keeper, and answer when it ends; if the input ends first, kill all and end."""
    reading, writing = os.pipe()
    lower = os.fork()
    if lower == 0:
        os.close(writing)
        os.setsid()
        half = Keeper()
        trainer = os.fork()
        if trainer == 0:
            _train(request, reading)
        _answer(pid=trainer)
        code = half.keep(trainer, reading)
        os._exit(ORPHANED_EXIT_CODE if code is None else code)
    os.close(reading)
    code = keeper.keep(lower, _REQUESTS)
    os.close(writing)
    if code is None:
        os._exit(ORPHANED_EXIT_CODE)
    _answer(exit_code=code)


def _train(request: dict[str, Any], lifeline: int) -> None:
    """Be the trainer, as if just started by `python -m trainers`. Does not return."""
    code = _UNEXPECTED
    try:
        os.setsid()
        os.chdir(request["directory"])
        log = os.open("stderr.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        from trainers.command_line import main as train

        code = train([*request["arguments"], "--parent-fd", str(lifeline)])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else _UNEXPECTED
    except BaseException as error:  # noqa: BLE001 (nothing may get out of the fork into the server's code)
        if machine_fault(error):
            code = EXIT_CODES["MACHINE_FAULT"]
        with suppress(OSError):
            traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _answer(**fields: int) -> None:
    os.write(_ANSWERS, json.dumps(fields).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
