"""The command `logs`: prints what a trainer or a runner printed, and follows it."""

import codecs
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Final

import typer

from sweep_service.cli.arguments import connect, find_work_or_sweep
from sweep_service.cli.output import say
from sweep_service.schemas import LogPart
from trainers.printable import printable

_AWAY_S: Final = 120.0
"""Seconds to wait for a server that restarts, while following."""
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]{0,500}\x1b?)?\Z")
"""The beginning of an escape sequence at the end of a part; the next part may have the rest."""


class LogPrinter:
    """Writes parts of a log to standard output: to a terminal without escape sequences, else byte for byte."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest, self._line_ended = "", True

    def write(self, content: bytes) -> None:
        """Write the next part."""
        if not sys.stdout.isatty():
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
            return
        text = self._rest + self._decoder.decode(content)
        cut = _UNFINISHED.search(text)
        text, self._rest = (text[: cut.start()], text[cut.start() :]) if cut else (text, "")
        if text := printable(text):
            self._line_ended = text.endswith("\n")
            sys.stdout.write(text)
            sys.stdout.flush()

    def end(self) -> None:
        """Let what comes next begin on a new line."""
        if not self._line_ended:
            sys.stdout.write("\n")
            sys.stdout.flush()


def logs(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="A trial or an evaluation, by its id or the last letters of it; or a sweep, as everywhere, whose "
            "runner's log is printed. Default: the newest sweep.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the trial is over, through all its attempts.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Print this attempt's log. Default: the newest attempt's.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=1, max=100_000, help="Begin with so many last lines.")
    ] = None,
) -> None:
    """Print what a trainer printed: progress, warnings, and why it failed.

    `sweeps show` prints the ids of trials. A sweep's own log is that of its runner, and is empty if all went well. A
    terminal gets it without colours and other control characters, a file or a pipe byte for byte.

    [bold]sweeps logs trl_01jd… --tail 50[/bold]
    [bold]sweeps logs trl_01jd… --follow[/bold]
    [bold]sweeps logs demo[/bold]
    """
    reasons = set[str]()

    def say_once(reason: str) -> None:
        if reason not in reasons:
            reasons.add(reason)
            say(f"{reason}; waiting")

    with connect(_AWAY_S) if follow else connect() as client:
        work_id, sweep_id = find_work_or_sweep(client, which)
        if work_id is None and attempt is not None:
            raise typer.BadParameter("a runner has no attempts; name a trial", param_hint="--attempt")
        if follow and work_id:
            parts = client.follow_trial_log(work_id, attempt, tail, say_once)
        elif follow:
            parts = client.follow_runner_log(sweep_id, tail, say_once)
        elif work_id:
            parts = _present_parts(partial(client.trial_log, work_id), attempt, tail)
        else:
            parts = _present_parts(lambda _, *part: client.runner_log(sweep_id, *part), None, tail)
        _print(parts, is_runner=work_id is None)


def _present_parts(
    read: Callable[[int | None, int, int | None], LogPart], attempt: int | None, tail: int | None
) -> Iterator[LogPart]:
    """Yield the parts that a log has now; `read` takes an attempt, an offset and a number of last lines."""
    part = read(attempt, 0, tail)
    size = part.size
    yield part
    while part.content and part.next_offset < size:
        part = read(part.attempt, part.next_offset, None)
        yield part


def _print(parts: Iterator[LogPart], *, is_runner: bool) -> None:
    printer, attempt, empty = LogPrinter(), None, True
    for part in parts:
        if attempt is None and (part.attempts or 1) > 1:
            say(f"attempt {part.attempt} of {part.attempts}")
        elif attempt is not None and part.attempt != attempt:
            printer.end()
            printer = LogPrinter()
            say(f"attempt {part.attempt} begins")
        attempt = part.attempt
        empty = empty and not part.content
        printer.write(part.content)
    printer.end()
    if empty:
        say("the log is empty" + ("; trials have their own: sweeps logs TRIAL" if is_runner else ""))
