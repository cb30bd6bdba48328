"""Commands that run the service: serve, api, worker, db upgrade."""

from typing import Annotated

import typer

from sweep_service.settings import Settings

Host = Annotated[str | None, typer.Option("--host", help="Address to listen on. Default: SWEEPS_HOST, or 127.0.0.1.")]
Port = Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Default: SWEEPS_PORT, or 8080.")]
Lifeline = Annotated[
    bool, typer.Option("--lifeline", hidden=True, help="End when standard input does: the owner holds its other end.")
]
db = typer.Typer(help="The database.", no_args_is_help=True)


def serve(host: Host = None, port: Port = None) -> None:
    """Start the whole service on this machine.

    That is the API, a worker, MLflow and a local Ray. Ctrl-C stops all of it.

    [bold]sweeps serve --port 9000[/bold]
    """
    from sweep_service.serve import main

    main(_settings(host, port))


def api(host: Host = None, port: Port = None, lifeline: Lifeline = False) -> None:
    """Run the API alone, as in a cluster.

    Settings come from SWEEPS_* variables.
    """
    from sweep_service.api import run_api

    _hold(lifeline)
    run_api(_settings(host, port))


def worker(lifeline: Lifeline = False) -> None:
    """Run a worker alone, as in a cluster.

    It keeps a runner per sweep alive, builds reports and feeds MLflow. Settings come from SWEEPS_* variables.
    """
    from sweep_service.worker import run_worker

    _hold(lifeline)
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


def _settings(host: str | None, port: int | None) -> Settings:
    given = {"host": host, "port": port}
    return Settings.model_validate({name: value for name, value in given.items() if value is not None})


def _hold(lifeline: bool) -> None:
    from trainers.lifeline import follow_parent

    if lifeline:
        follow_parent(0)
