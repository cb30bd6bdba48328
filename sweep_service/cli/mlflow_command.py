"""The commands `sweeps mlflow …`, which work on the database directly, like the worker that feeds MLflow."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sweep_service.cli.arguments import Timeout
from sweep_service.cli.failures import interruptible
from sweep_service.cli.output import plural, say
from sweep_service.client import TooLate
from sweep_service.errors import NotFound
from sweep_service.settings import Settings

if TYPE_CHECKING:
    from sweep_service.store import Store

mlflow = typer.Typer(help="What MLflow shows.", no_args_is_help=True, rich_markup_mode="rich")
_LOOK_EVERY_S: Final = 1.0
_STILL_S: Final = 60.0
"""After so many seconds without progress the command names the likely causes."""


@mlflow.command()
def rebuild(
    sweeps: Annotated[
        list[str] | None, typer.Argument(metavar="[SWEEP]...", help="Ids or names of sweeps. Default: all.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show how many runs are left until MLflow has all.")] = False,
    timeout: Timeout = None,
) -> None:
    """Carry sweeps over to MLflow anew, such as after its database was lost or restored from an old copy.

    The worker does it, from the database: runs, params, tags, curves and files of reports. Runs that exist are kept and
    completed, and no point is doubled. A run that somebody deleted in MLflow stays deleted.

    [bold]sweeps mlflow rebuild --wait[/bold]
    """
    from sweep_service.store import open_store

    settings = Settings()
    store = open_store(settings.database_url)
    try:
        every = store.projectable()
        for which in sweeps or ():
            if not any(which in (sweep.id, sweep.name) for sweep in every):
                raise NotFound("sweep", which)
        ids = [sweep.id for sweep in every if not sweeps or not {sweep.id, sweep.name}.isdisjoint(sweeps)]
        newest = store.request_projection(ids)
        say(f"{plural(len(ids), 'sweep')} will be carried over anew to {settings.mlflow_url} by the worker")
        if wait:
            with interruptible("no longer waiting; the worker goes on with it"):
                _watch(store, ids, newest, timeout)
    finally:
        store.close()


@mlflow.callback()
def _group() -> None: ...  # pyright: ignore[reportUnusedFunction]


def _watch(store: "Store", ids: Sequence[str], newest: int, timeout: float | None) -> None:
    """Print the number of runs left whenever it changes, until it is zero.

    Raises: TooLate, after `timeout` seconds.
    """
    begun = moved = time.monotonic()
    left_before = None
    while left := store.projection_left(ids, newest):
        now = time.monotonic()
        if left != left_before:
            say(f"{plural(left, 'run')} left")
            left_before, moved = left, now
        elif now - moved > _STILL_S:
            say("nothing has moved for a minute: does a worker run, and does MLflow answer? sweeps doctor")
            moved = now
        if timeout is not None and now - begun > timeout:
            raise TooLate(f"{plural(left, 'run')} left after {timeout:g} s; the worker goes on")
        time.sleep(_LOOK_EVERY_S)
    say("MLflow has all of them")
