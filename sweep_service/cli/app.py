"""The command line `sweeps`: its help, and its way to end."""

import os
import sys
from importlib import metadata
from typing import Annotated

import typer

from sweep_service.cli.commands import Commands
from sweep_service.cli.exits import HELP, ExitCode
from trainers.process.environment import UMASK

app = typer.Typer(
    name="sweeps",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=HELP,
    help="""Find the best hyperparameters for RL post-training of language models, and how sure that is.

    \b
    [bold]sweeps serve[/bold]                              start the service here
    [bold]sweeps submit examples/demo.yaml --watch[/bold]  run a sweep and follow it
    [bold]sweeps report[/bold]                             write its report
    [bold]sweeps best[/bold]                               print the best config""",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sweeps {metadata.version('sweep-service')}")
        raise typer.Exit


@app.callback()
def _of_all_commands(  # pyright: ignore[reportUnusedFunction]
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command that the arguments name."""
    os.umask(UMASK)
    try:
        app(prog_name="sweeps")
    except KeyboardInterrupt:  # before the command had a way of its own to end
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:
        from sweep_service.cli.failures import print_failure  # brings what errors are made of

        if (code := print_failure(error)) is None:
            raise
        sys.exit(code)
