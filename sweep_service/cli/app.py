"""The command line: commands, help, and exit codes."""

import os
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from sweep_service.cli import (
    benchmark_commands,
    catalog_commands,
    delete_command,
    doctor,
    logs_command,
    mlflow_command,
    probe_command,
    process_commands,
    recipe_command,
    settings_command,
    steer_commands,
    sweep_commands,
)
from sweep_service.cli.exits import HELP, ExitCode, exit_code
from sweep_service.cli.output import print_data, print_error
from sweep_service.errors import ServiceError
from sweep_service.settings import SECRET_FIELDS, Settings
from trainers.process.environment import UMASK

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

app = typer.Typer(
    name="sweeps",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=HELP,
    help="""Find the best hyperparameters for RL post-training of language models, and how sure that is.

    \b
    [bold]sweeps serve[/bold]                                 start the service here
    [bold]sweeps submit examples/demo.yaml --watch[/bold]     run a sweep and follow it
    [bold]sweeps report[/bold]                                write its report
    [bold]sweeps best[/bold]                                  print the best config and its verdict""",
)


def _print_version(asked: bool) -> None:
    if asked:
        print_data(f"sweeps {metadata.version('sweep-service')}")
        raise typer.Exit


@app.callback()
def _of_all_commands(  # pyright: ignore[reportUnusedFunction]
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None: ...


for panel, commands in {
    "Sweeps": (
        recipe_command.recipe,
        settings_command.settings,
        sweep_commands.plan,
        probe_command.probe,
        *sweep_commands.OF_SUBMITTED_SWEEPS,
        *steer_commands.OF_RUNNING_SWEEPS,
        logs_command.logs,
        delete_command.delete,
    ),
    "Service": (process_commands.serve, process_commands.api, process_commands.worker, doctor.doctor),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.command("list", hidden=True)(sweep_commands.ls)
for group, name in (
    (catalog_commands.models, "models"),
    (catalog_commands.datasets, "datasets"),
    (catalog_commands.benchmarks, "benchmarks"),
):
    app.add_typer(group, name=name, rich_help_panel="Catalog")
catalog_commands.benchmarks.command("run")(benchmark_commands.run)
catalog_commands.benchmarks.command("scores")(benchmark_commands.scores)
app.add_typer(process_commands.db, name="db", rich_help_panel="Service")
app.add_typer(mlflow_command.mlflow, name="mlflow", rich_help_panel="Service")


def main() -> None:
    """Run the command that the arguments name."""
    os.umask(UMASK)
    try:
        app(prog_name="sweeps")
    except ServiceError as error:
        print_error(error)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:  # before the command had a way of its own to end
        sys.exit(ExitCode.INTERRUPTED)
    except ValidationError as error:
        if error.title != Settings.__name__:
            raise
        for item in error.errors():
            print_error(ServiceError(_wrong_setting(item)))
        sys.exit(ExitCode.USAGE)


def _wrong_setting(mistake: "ErrorDetails") -> str:
    """Say which variable is wrong, without a value that may hold a password."""
    words = mistake["msg"].removeprefix("Value error, ")
    if not mistake["loc"]:
        return words
    field = str(mistake["loc"][0])
    shown = "" if field in SECRET_FIELDS else f"={mistake['input']}"
    return f"SWEEPS_{field.upper()}{shown}: {words}"
