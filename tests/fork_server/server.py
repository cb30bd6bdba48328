"""Imports torch and TRL once for a test session, Ray when a runner asks, and forks what would each import them.

`python -m tests.fork_server.server FD`, with a listening socket. A fork runs a module as `python -m` does, with the
environment, folder, search path, files and umask of the interpreter that stands for it (`sitecustomize.py`). It is
killed when that one ends; all are when the lifeline on standard input ends.
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from sweep_service.runner import __main__ as runner
from sweep_service.runner import preloaded
from trainers.process.lifeline import die_with_parent

MOST_FILES: Final = 64
ABOVE_ALL: Final = 200
"""A file number that no process of ours gets to."""


def main() -> None:
    """Serve until the lifeline ends."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    preloaded._preload()
    freeze()
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    running = dict[socket.socket, tuple[int, int]]()
    """Pid and handle of each fork, by the connection to the interpreter that stands for it."""
    while True:
        handles = [handle for _, handle in running.values()]
        ready, _, _ = select.select([0, listener, *running, *handles], [], [])
        if 0 in ready:
            os._exit(0)
        for connection, (pid, handle) in list(running.items()):
            if connection in ready:  # whoever stands for it has ended
                os.kill(pid, signal.SIGKILL)
            if connection in ready or handle in ready:
                del running[connection]
                answer(connection, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                connection.close()
                os.close(handle)
        if listener in ready:
            connection, _ = listener.accept()
            pid = fork(connection, listener, running)
            running[connection] = pid, os.pidfd_open(pid)
            answer(connection, pid)


def preload_runner(environment: dict[str, str]) -> None:
    """Import what a runner imports after its start, under the variables of Ray that the first one has and sets."""
    ours = {name: value for name, value in environment.items() if name.startswith("RAY_")}
    os.environ.update(ours | runner._RAY_SETTINGS)
    importlib.import_module("sweep_service.runner.driver")
    freeze()


def freeze() -> None:
    """Have collections in a fork not touch, and thereby copy, what is shared."""
    gc.collect()
    gc.freeze()


def answer(connection: socket.socket, number: int) -> None:
    """Tell a number to the interpreter that stands for a fork."""
    with suppress(OSError):
        connection.sendall(f"{number}\n".encode())


def fork(connection: socket.socket, listener: socket.socket, running: Mapping[socket.socket, tuple[int, int]]) -> int:
    """Fork the process that a connection asks for; return its pid."""
    _, files, _, _ = socket.recv_fds(connection, 1, MOST_FILES)
    request = json.loads(connection.makefile().readline())
    if request["arguments"][0] == "sweep_service.runner" and "ray" not in sys.modules:
        preload_runner(request["environment"])
    pid = os.fork()
    if pid == 0:
        for one in (connection, listener, *running):
            one.close()
        for _, handle in running.values():
            os.close(handle)
        be(request, files)
    for file in files:
        os.close(file)
    return pid


def be(request: dict[str, Any], files: list[int]) -> None:
    """Be the process that was asked for. Does not return."""
    code = 1
    try:
        number_files(files, request["files"])
        die_with_parent()
        os.setsid()
        os.umask(request["umask"])
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[:] = [request["directory"], *request["path"]]
        sys.argv[1:] = request["arguments"][1:]
        runpy.run_module(request["arguments"][0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 (nothing may get out of the fork into the server's code)
        traceback.print_exc()
    finally:
        try:  # what an interpreter does at its end
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def number_files(files: list[int], numbers: list[int]) -> None:
    """Give open files the numbers that they had where they came from, whichever they have here."""
    above = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, ABOVE_ALL) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(above, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


if __name__ == "__main__":
    main()
