"""Run first by every Python process that has this folder on its path: it has some of them forked, not started anew.

A module that is to import torch and TRL is asked of the server of `server.py`, which has imported them. This
interpreter then only stands for it: either dies with the other, and SIGTERM and SIGINT are passed on.
"""

import os
import sys

_FORKED = os.environ.get("TESTS_FORKED", "").split() if os.environ.get("OMP_NUM_THREADS") == "1" else []

_WORDS = sys.orig_argv
_LAUNCHES = "--processes" in _WORDS and _WORDS[-_WORDS[::-1].index("--processes")] != "1"  # imports nothing itself

if _WORDS[1:2] == ["-m"] and _WORDS[2] in _FORKED and not _LAUNCHES:
    import json
    import signal
    import socket
    from contextlib import suppress

    umask = os.umask(0)
    os.umask(umask)
    files = []
    for number in sorted(map(int, os.listdir("/proc/self/fd"))):
        with suppress(OSError):  # of the folder that has just been read
            files += [number] * os.get_inheritable(number)
    request = {"arguments": _WORDS[2:], "environment": dict(os.environ), "path": sys.path}
    request |= {"directory": os.getcwd(), "files": files, "umask": umask}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["TESTS_FORK_SERVER"])
        socket.send_fds(connection, [b"!"], files)
        connection.sendall(json.dumps(request).encode() + b"\n")
        answers = connection.makefile()
        pid = int(answers.readline() or 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: os.kill(pid, number))
        status = int(answers.readline() or -signal.SIGKILL)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
