"""The command line: commands, help, and exit codes."""

import sys

import typer
from pydantic import ValidationError

from sweep_service.cli import catalog, doctor, probe, processes, recipe, sweeps
from sweep_service.cli.exits import HELP, ExitCode, exit_code
from sweep_service.cli.output import print_error
from sweep_service.errors import ServiceError
from sweep_service.settings import Settings

app = typer.Typer(
    name="sweeps",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=HELP,
    help="""Find the best hyperparameters for RL post-training of language models, and how sure that is.

    \b
    [bold]sweeps serve[/bold]                                 start the service here
    [bold]sweeps submit -f examples/demo.yaml --watch[/bold]  run a sweep and follow it
    [bold]sweeps report[/bold]                                write its report
    [bold]sweeps best[/bold]                                  print the winner, ready to run""",
)
for panel, commands in {
    "Sweeps": (
        recipe.recipe,
        sweeps.plan,
        probe.probe,
        sweeps.submit,
        sweeps.ls,
        sweeps.show,
        sweeps.compare,
        sweeps.watch,
        sweeps.report,
        sweeps.best,
        sweeps.cancel,
    ),
    "Service": (processes.serve, processes.api, processes.worker, doctor.doctor),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
for group, name in ((catalog.models, "models"), (catalog.datasets, "datasets"), (catalog.benchmarks, "benchmarks")):
    app.add_typer(group, name=name, rich_help_panel="Catalog")
app.add_typer(processes.db, name="db", rich_help_panel="Service")


def main() -> None:
    """Run the command that the arguments name."""
    try:
        app(prog_name="sweeps")
    except ServiceError as error:
        print_error(error)
        sys.exit(exit_code(error))
    except ValidationError as error:
        if error.title != Settings.__name__:
            raise
        for item in error.errors():
            name = f"SWEEPS_{'_'.join(map(str, item['loc'])).upper()}"
            print_error(ServiceError(f"{name}={item['input']}: {item['msg']}"))
        sys.exit(ExitCode.USAGE)
