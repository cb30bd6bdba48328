"""For tests that have this very process listen to signals: everything is as before afterwards."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_signals() -> Iterator[None]:
    """Put the handlers of signals back at the end, and the pipe to which the interpreter writes them."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)}
    pipe = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(pipe)
