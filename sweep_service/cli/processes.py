"""Commands that run the service: serve, api, worker, db upgrade."""

import typer

from sweep_service.settings import Settings

db = typer.Typer(help="The database.", no_args_is_help=True)


def serve() -> None:
    """Start the whole service on this machine.

    That is the API, a worker, MLflow and a local Ray. Ctrl-C stops all of it.

    [bold]SWEEPS_PORT=9000 sweeps serve[/bold]
    """
    from sweep_service.serve import main

    main(Settings())


def api() -> None:
    """Run the API alone, as in a cluster.

    Settings come from SWEEPS_* variables.
    """
    from sweep_service.api import run_api

    run_api(Settings())


def worker() -> None:
    """Run a worker alone, as in a cluster.

    It keeps a runner per sweep alive, builds reports and feeds MLflow. Settings come from SWEEPS_* variables.
    """
    from sweep_service.worker import run_worker

    run_worker(Settings())


@db.command()
def upgrade() -> None:
    """Bring the database's schema to this version."""
    from sweep_service.cli.output import say
    from sweep_service.store import open_store

    settings = Settings()
    open_store(settings.database_url).close()
    say("the database has the newest schema")


@db.callback()
def _group() -> None: ...  # pyright: ignore[reportUnusedFunction]
