"""A process that has imported torch, transformers and trl, and forks a trainer for each request. On CPUs only.

`python -m sweep_service.runner.preloaded`: a request is a JSON line on standard input, {"arguments": […], "directory":
"…"}; the answers on standard output are {"pid": N} and, when that trainer has ended, {"exit_code": N} (negative: the
signal). It serves one trainer at a time and ends at the end of its input, its trainer with it.

The imports take seconds, a fork milliseconds. No thread of torch runs before the fork, and a trainer seeds every
generator itself, so a forked run equals a spawned one (there is a test).
"""

import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from typing import Any, Final

from sweep_service.processes.child_processes import die_with_parent
from trainers.process.environment import ENVIRONMENT, EXIT_CODES
from trainers.process.imports import without_collections
from trainers.process.machine_faults import machine_fault

_REQUESTS: Final = 0
_ANSWERS: Final = 1
_UNEXPECTED: Final = 1


def main() -> None:
    """Serve until the input ends."""
    die_with_parent()
    with without_collections():
        _preload()
    gc.collect()
    gc.freeze()  # so that collections in a fork do not touch, and thereby copy, what is shared
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    pending = b""
    while chunk := os.read(_REQUESTS, 1 << 16):
        pending += chunk
        if pending.endswith(b"\n"):
            _serve(json.loads(pending))
            pending = b""


def _preload() -> None:
    """Import what a trainer imports, under the variables that it sets before."""
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    importlib.import_module("trainers.training.train")


def _serve(request: dict[str, Any]) -> None:
    """Fork a trainer and answer; if the input ends before the trainer does, kill it and end."""
    lifeline, held = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(held)
        _train(request, lifeline)
    os.close(lifeline)
    _answer(pid=pid)
    ended = os.pidfd_open(pid)
    ready, _, _ = select.select([_REQUESTS, ended], [], [])
    if ended not in ready:
        os.kill(pid, signal.SIGKILL)
        os._exit(_UNEXPECTED)
    _, status = os.waitpid(pid, 0)
    os.close(ended)
    os.close(held)
    _answer(exit_code=os.waitstatus_to_exitcode(status))


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
    main()
