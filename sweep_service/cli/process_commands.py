"""Commands that run the service, whole or in parts: serve, api, worker, db upgrade."""

import os
from typing import Annotated

import typer

from sweep_service.cli.output import say
from sweep_service.errors import ServiceError
from sweep_service.settings import Settings, misspelt

Host = Annotated[
    str | None, typer.Option("--host", help="The address to listen on. Default: SWEEPS_HOST, or 127.0.0.1.")
]
Port = Annotated[
    int | None, typer.Option("--port", min=1, max=65535, help="The port to listen on. Default: SWEEPS_PORT, or 8080.")
]
db = typer.Typer(help="The database.", no_args_is_help=True, rich_markup_mode="rich")


def serve(
    host: Host = None,
    port: Port = None,
    cpus: Annotated[int | None, typer.Option("--cpus", min=1, help="CPU cores for trials. Default: all.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", min=0, help="GPUs for trials. Default: all.")] = None,
) -> None:
    """Start the whole service on this machine: the API, a worker, MLflow and a local Ray.

    Ctrl-C stops all of it.

    [bold]sweeps serve --port 9000[/bold]
    """
    from sweep_service.serve import main

    raise typer.Exit(main(_settings(host, port), cpus, gpus))


def api(host: Host = None, port: Port = None) -> None:
    """Run the API alone, as in a cluster.

    Settings come from SWEEPS_* variables.

    [bold]SWEEPS_DATABASE_URL=postgresql+psycopg://sweeps@db/sweeps sweeps api[/bold]
    """
    from sweep_service.api import run_api

    run_api(_settings(host, port))


def worker(
    check: Annotated[
        bool, typer.Option("--check", help="Run nothing; exit with 0 if this machine's worker is alive, else with 1.")
    ] = False,
) -> None:
    """Run a worker alone, as in a cluster.

    It keeps a runner per sweep alive, has reports built and feeds MLflow. Settings come from SWEEPS_* variables.

    [bold]SWEEPS_RAY_ADDRESS=ray-head:6379 sweeps worker[/bold]
    [bold]sweeps worker --check[/bold]
    """
    if check:
        from sweep_service.processes.heartbeat import missing_worker

        if (wrong := missing_worker(Settings().home)) is not None:
            raise ServiceError(wrong)
        return
    from sweep_service.worker.work_loop import run_worker

    run_worker(_settings())


@db.command()
def upgrade() -> None:
    """Bring the database's schema to this version of the service.

    [bold]sweeps db upgrade[/bold]
    """
    from sweep_service.store import open_store

    settings = _settings()
    open_store(settings.database_url).close()
    say("the database has the schema of this version")


@db.callback()
def _group() -> None: ...  # pyright: ignore[reportUnusedFunction]


def _settings(host: str | None = None, port: int | None = None) -> Settings:
    for remark in misspelt(os.environ):
        say(remark)
    options = {"host": host, "port": port}
    return Settings.model_validate({name: value for name, value in options.items() if value is not None})
