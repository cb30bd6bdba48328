"""Shows the progress of an addition to the catalog: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from typing import Final, Self

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from sweep_service.cli.output import say, stderr
from trainers.catalog.new_entry import Reporter, size_text

_LINE_INTERVAL_S: Final = 10.0
_MAX_NAME: Final = 40


class Transfer(Reporter):
    """A reporter that writes to standard error."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bar = None
        if sys.stderr.isatty():
            self._bar = Progress(*columns, TimeRemainingColumn(), console=stderr(), transient=True)
        self._task, self._done, self._total = None, 0, -1
        self._printed_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a remark."""
        if self._bar:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            say(text)

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how many bytes are done; a smaller number, or another total, restarts the bar."""
        restarted = total != self._total or done < self._done
        self._done, self._total = done, total
        if self._bar:
            name = what if len(what) <= _MAX_NAME else f"…{what[1 - _MAX_NAME :]}"
            if self._task is None or restarted:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(name, total=total, completed=done)
            self._bar.update(self._task, completed=done, description=name)
        elif time.monotonic() - self._printed_at > _LINE_INTERVAL_S:
            self._printed_at = time.monotonic()
            say(f"{what}: {size_text(done)} of {size_text(total)}")
