"""Progress of an addition to the catalog: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from types import TracebackType
from typing import Final, Self

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from sweep_service.cli.output import say, stderr
from trainers.catalog.new_entry import Reporter, size_text

_LINE_INTERVAL_S: Final = 10.0
_SHOWN_NAME: Final = 40


class Transfer(Reporter):
    """Shows on standard error how an addition goes on."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        shown = sys.stderr.isatty()
        self._bar = Progress(*columns, TimeRemainingColumn(), console=stderr(), transient=True) if shown else None
        self._task, self._done, self._total = None, 0, -1
        self._said_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a remark."""
        if self._bar:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            say(text)

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how many bytes are done; a smaller number, or another total, begins anew."""
        anew = total != self._total or done < self._done
        self._done, self._total = done, total
        if self._bar:
            name = what if len(what) <= _SHOWN_NAME else f"…{what[1 - _SHOWN_NAME :]}"
            if self._task is None or anew:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(name, total=total, completed=done)
            self._bar.update(self._task, completed=done, description=name)
        elif time.monotonic() - self._said_at > _LINE_INTERVAL_S:
            self._said_at = time.monotonic()
            say(f"{what}: {size_text(done)} of {size_text(total)}")
