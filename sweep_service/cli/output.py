"""Prints for people and programs: data on standard output, everything else on standard error."""

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sweep_service.errors import InvalidSpec, ServiceError
from sweep_service.schemas import SweepView
from sweep_service.sweep.deletion import DeletionState
from sweep_service.sweep.records import DesiredState, SweepState, TrialState
from trainers.printable import printable

STYLES: dict[str, str] = {
    "QUEUED": "yellow",
    "PAUSED": "yellow",
    "PENDING": "yellow",
    "SUCCEEDED": "green",
    "DIVERGED": "magenta",
    "FAILED": "red",
    "CANCELLED": "bright_black",
    "STOPPED": "bright_black",
    "DISCARDED": "bright_black",
    "EARLY_STOPPED": "bright_black",
}
"""Colour of a state; every other state is cyan."""
_PIPED_WIDTH = 1000
_GAP = 2
"""Spaces between columns."""
_C1 = re.compile(r"[\x7f-\x9f]")
"""Control characters that JSON leaves as they are."""
_LEAST_WRAPPED = 24
"""Smallest width of a column whose texts take several lines."""


class _Inert(Console):
    """Prints no escape sequence and no control character but those that rich makes itself."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


def stdout() -> Console:
    """Return the console for data; piped output is neither coloured nor cut."""
    return _Inert(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def stderr() -> Console:
    """Return the console for progress and remarks."""
    return _Inert(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def say(text: str) -> None:
    """Print a remark on standard error."""
    stderr().print(Text(text))


def print_data(text: str) -> None:
    """Print a line of data as it is, but on a terminal nothing that it would act on."""
    text = printable(text) if sys.stdout.isatty() else text
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def write_output(content: bytes, output: str) -> None:
    """Write a file and print its path; `-` is standard output.

    Raises: ServiceError, if the file cannot be written.
    """
    if output == "-":
        if sys.stdout.isatty():
            sys.stdout.write(printable(content.decode(errors="replace")))
        else:
            sys.stdout.buffer.write(content)
        return
    path = Path(output).expanduser().absolute()
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ServiceError(f"cannot write {path}: {error.strerror or error}") from error
    print_data(str(path))


def print_json(value: Any) -> None:
    """Print models, or containers of them, as one JSON document."""
    text = json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=False)
    print_data(_C1.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def print_error(error: ServiceError) -> None:
    """Print an error; an invalid spec as one line for each reason."""
    console = stderr()
    if not isinstance(error, InvalidSpec):
        console.print(Text.assemble(("error: ", "bold red"), str(error)))
        return
    console.print(Text.assemble(("error: ", "bold red"), error.summary))
    for item in error.errors:
        console.print(Text.assemble("  ", (item.pointer or "/", "bold"), "  ", item.detail))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    right: Sequence[str] = (),
    loose: Sequence[str] = (),
) -> None:
    """Print rows under their headings.

    Args:
        right: columns to be aligned right, for numbers.
        loose: columns that give way where the terminal is too narrow for all: the last one takes several lines, or
            stands below its row, or if that is not enough, all of them do.
    """
    console = stdout()
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    lengths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)] or [0] * len(columns)
    widths = {name: max(len(name), length) for name, length in zip(columns, lengths, strict=True)}
    room = console.width - sum(widths.values()) - _GAP * len(columns)
    if loose and room + widths[loose[-1]] < min(_LEAST_WRAPPED, widths[loose[-1]]):
        below = loose[-1:] if room + widths[loose[-1]] >= -_GAP else loose
        _print_in_two_lines(columns, cells, widths, right, below)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for name in columns:
        justify, whole = "right" if name in right else "left", name not in loose[-1:]
        table.add_column(Text(name), justify=justify, no_wrap=whole, overflow="ellipsis" if whole else "fold")
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _print_in_two_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[Text]],
    widths: Mapping[str, int],
    right: Sequence[str],
    below: Sequence[str],
) -> None:
    """Print rows under their headings without some columns, and these below each row."""
    console = stdout()

    def print_line(cells: Mapping[str, Text]) -> None:
        line = Text()
        for name in columns:
            if name not in below:
                cell = cells[name].copy()
                cell.align("right" if name in right else "left", widths[name])
                line.append_text(cell).append(" " * _GAP)
        console.print(line, no_wrap=True, overflow="ellipsis")

    print_line({name: Text(name, "bold") for name in columns})
    for row in rows:
        cells = dict(zip(columns, row, strict=True))
        print_line(cells)
        if texts := [cells[name] for name in below if cells[name].plain]:
            console.print(Padding(Text("  ").join(texts), (0, 0, 0, 4)))


def state_text(state: SweepState | TrialState, wish: DesiredState = DesiredState.RUN) -> Text:
    """Return a state in its colour; a sweep's state includes the one that somebody has asked for."""
    shown = wish.shown(state) if isinstance(state, SweepState) else state.value
    return Text(shown, STYLES.get(shown, "cyan"))


def deletion_note(deletion: DeletionState | None) -> str:
    """Return the words behind the state of a sweep that is archived, or is being archived or deleted."""
    words = {None: "", DeletionState.ASKED: ", files and curves go"}
    return words.get(deletion, ", archived")


def sweep_line(sweep: SweepView, note: str = "") -> Text:
    """Return a sweep's name, id, state and duration in one line, and a note after them."""
    took = span((sweep.ended_at or time.time()) - (sweep.started_at or sweep.created_at))
    return Text.assemble(
        (sweep.name, "bold"),
        f"  {sweep.id}  ",
        state_text(sweep.state, sweep.desired_state),
        f"{deletion_note(sweep.deletion)}  {took}{note}",
    )


def print_facts(facts: Mapping[str, str | Text | None], width: int, indent: str = "  ") -> None:
    """Print each fact that there is, its name in a column of this width."""
    console = stdout()
    for name, text in facts.items():
        if text:
            console.print(fact_line(indent + name.ljust(width), text, console), soft_wrap=True)


def fact_line(name: str, text: str | Text, console: Console, style: str = "bright_black") -> Text | Table:
    """Return a fact beside its name: one line, which on a narrow terminal goes on below its own beginning.

    An address stays in one piece, so that it can be copied.
    """
    line = Text.assemble((name, style), text)
    if not console.is_terminal or " " not in str(text) or line.cell_len <= console.width:
        return line
    table = Table.grid()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(name, style), text)
    return table


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 trial` or `4 trials`."""
    return f"{count} {noun}{'s' * (count != 1)}"


def span(seconds: float) -> str:
    """Return a length of time, such as `3 min`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"


def number(value: float | None) -> str:
    """Return a number short enough for a table; `-` for none."""
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as they are filtered by, such as `team=rl`."""
    return " ".join(f"{name}={text}" for name, text in labels.items())


def counts_text(counts: Mapping[TrialState, int], to_come: int) -> str:
    """Return the number of trials in each state, such as `12 of 30 ended, 1 failed, 2 running, 6 yet to be chosen`."""
    done = sum(count for state, count in counts.items() if state.is_over)
    ended = (TrialState.FAILED, TrialState.DIVERGED, TrialState.CANCELLED, TrialState.STOPPED, TrialState.DISCARDED)
    shown = (*ended, TrialState.EARLY_STOPPED, TrialState.RUNNING)
    parts = [f"{counts[state]} {state.value.lower().replace('_', ' ')}" for state in shown if counts.get(state)]
    later = [f"{to_come} yet to be chosen"] if to_come else []
    return ", ".join([f"{done} of {sum(counts.values()) + to_come} ended", *parts, *later])
