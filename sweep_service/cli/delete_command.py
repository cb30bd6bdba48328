"""The command `delete`: shows the space that it would free, asks, and has a worker delete or archive sweeps."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.text import Text

from sweep_service.cli.arguments import Json, connect, find_sweep_to_change
from sweep_service.cli.exits import ExitCode
from sweep_service.cli.failures import interruptible
from sweep_service.cli.output import plural, print_json, print_table, say
from sweep_service.client import Client, TooLate
from sweep_service.processes.disk_use import size_text
from sweep_service.schemas import DeletionView
from sweep_service.sweep.deletion import DeletionState

_POLL_S: Final = 0.5


def delete(
    sweeps: Annotated[
        list[str],
        typer.Argument(
            metavar="SWEEP...",
            help="Ids, parts of them, or names of sweeps that have ended; a name is that of the newest one.",
        ),
    ],
    keep_report: Annotated[
        bool,
        typer.Option(
            "--keep-report", help="Archive them: spec, trials and report stay; files, curves and checkpoints go."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be freed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until files and rows are gone.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="With --wait: wait for at most this many seconds.")
    ] = None,
    json: Json = False,
) -> None:
    """Delete sweeps that have ended: their rows, their files and their runs in MLflow.

    It says first what is freed, and asks. Catalog, exported models and cost probes stay.

    A worker carries it out, also after a crash. MLflow keeps the runs in its bin.

    [bold]sweeps delete demo --dry-run[/bold]
    [bold]sweeps delete demo --keep-report[/bold]
    """
    with connect() as client:
        ids = list(dict.fromkeys(find_sweep_to_change(client, sweep) for sweep in sweeps))
        before = [client.deletion(sweep_id) for sweep_id in ids]
        if not json:
            _print_freed(before, keep_report=keep_report)
        blocked = [view for view in before if view.blocked]
        for view in blocked:
            say(f"{view.name} {view.sweep_id}: {view.blocked}")
        if dry_run or blocked:
            print_json(before) if json else None
            raise typer.Exit(ExitCode.CONFLICT if blocked else ExitCode.OK)
        if any(view.state is not DeletionState.DELETED for view in before) and not yes:
            _ask(len(before), keep_report=keep_report)
        after = [client.delete(sweep_id, keep_report=keep_report) for sweep_id in ids]
        if wait:
            with interruptible("no longer waiting; it goes on. Look again: the same command with --dry-run"):
                after = _wait(client, after, timeout)
    for view in after:
        say(f"{view.name} {view.sweep_id} {_state_text(view)}")
    if json:
        print_json(after)


def _print_freed(views: Sequence[DeletionView], *, keep_report: bool) -> None:
    """Print what deleting or archiving each sweep frees."""
    rows: list[tuple[str | Text, ...]] = []
    for view in views:
        disk, num_rows, runs = "-", "-", "-"
        if (frees := view.frees) is not None:
            disk = "not visible to the API"
            if frees.bytes is not None:
                disk = f"{size_text(frees.bytes)} in {plural(frees.files or 0, 'file')}"
            num_rows = f"{frees.rows_if_archived if keep_report else frees.rows:,}"
            runs = str(frees.mlflow_runs)
        rows.append((view.sweep_id, view.name, disk, num_rows, runs, Text(_state_text(view) if view.state else "")))
    print_table(("SWEEP", "NAME", "DISK", "ROWS", "MLFLOW RUNS", ""), rows, right=("DISK", "ROWS", "MLFLOW RUNS"))
    if keep_report:
        say("these go; spec, configs, trials with their evaluations, events and report stay")


def _state_text(view: DeletionView) -> str:
    """Return the state of a sweep's deletion in words."""
    rest = "; its runs in MLflow go as soon as MLflow answers" if view.mlflow_pending else ""
    hindered = f", but {view.message}" if view.message else ""
    words = {
        DeletionState.ASKED: f"is being {'archived' if view.keep_report else 'deleted'}{hindered}",
        DeletionState.ARCHIVED: f"is archived{rest}",
        DeletionState.DELETED: f"is deleted{rest}",
    }
    return words[view.state] if view.state else "is kept"


def _ask(number: int, *, keep_report: bool) -> None:
    """Ask whether to go on.

    Raises: typer.BadParameter, if there is nobody to ask; typer.Abort, if the answer is no.
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask at; give --yes to delete without being asked")
    verb = "Archive" if keep_report else "Delete"
    all_of_it = "" if keep_report else ", with their reports" if number > 1 else ", with its report"
    typer.confirm(f"{verb} {plural(number, 'sweep')}{all_of_it}? This cannot be undone", abort=True, err=True)


def _wait(client: Client, views: Sequence[DeletionView], timeout_s: float | None) -> list[DeletionView]:
    """Wait until all of them are done.

    Raises: TooLate.
    """
    end, done = time.monotonic() + (float("inf") if timeout_s is None else timeout_s), list[DeletionView]()
    for view in views:
        latest = view
        while latest.state is DeletionState.ASKED:
            if time.monotonic() + _POLL_S > end:
                raise TooLate(
                    f"{latest.name} {latest.sweep_id} {_state_text(latest)} after {timeout_s:g} s; it goes on"
                )
            time.sleep(_POLL_S)
            latest = client.deletion(latest.sweep_id)
        done.append(latest)
    return done
