"""The table of commands. A command's module is imported when the command is called, so that help costs little."""

from importlib import import_module
from inspect import cleandoc
from typing import Any, Final, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from sweep_service.verbs import VERBS
from trainers.process.signals import interruptible_imports


class Row(NamedTuple):
    """A command, or a group of commands."""

    name: str
    module: str
    """The module in this folder that has it under its name."""
    help: str
    """First sentence of its help, as it stands there."""


_PANELS: Final = {
    "Sweeps": """
        recipe      recipe_command      Write a published recipe as a sweep that fits your GPUs and hours.
        settings    settings_command    List the settings of a training, which specs name: defaults, allowed values and meanings.
        plan        sweep_commands      Check a spec, and show what it would run and cost.
        probe       probe_command       Measure what a sweep will cost, and whether it fits into memory, without running its trials.
        submit      sweep_commands      Submit a sweep and print its id.
        ls          sweep_commands      List sweeps, newest first: those that meet all conditions.
        show        sweep_commands      Show a sweep: its state, configs, objectives and failures.
        compare     sweep_commands      Compare the configs that several sweeps share, with intervals.
        watch       sweep_commands      Follow a sweep with live progress until it has ended.
        report      report_command      Write a sweep's report, and print the file's path.
        best        best_command        Print the best config as YAML, ready to run, with its verdict; or export its policy.
        (verbs)
        stop        steer_commands      Stop one trial while its sweep goes on.
        extend      extend_command      Give a sweep more configs, more seeds, a larger top_k, or other limits; `none` lifts a limit.
        retry       steer_commands      Try failed trials again: all of a sweep, or one, which may also have been stopped by hand.
        logs        logs_command        Print what a trainer printed: progress, warnings, and why it failed.
        delete      delete_command      Delete sweeps that have ended: their rows, their files and their runs in MLflow.
    """,
    "Service": """
        serve       process_commands    Start the whole service on this machine: the API, a worker, MLflow and a local Ray.
        api         process_commands    Run the API alone, as in a cluster.
        worker      process_commands    Run a worker alone, as in a cluster.
        doctor      doctor              Check everything that the service needs, and say what to do where something is missing.
        db          process_commands    The database.
        mlflow      mlflow_command      What MLflow shows.
    """,
    "Catalog": """
        models      catalog_commands    Models on this machine.
        datasets    catalog_commands    Datasets on this machine.
        benchmarks  benchmark_commands  Benchmarks on this machine, and scores on them.
    """,
}  # fmt: skip


def _rows(line: str) -> list[Row]:
    """Return the commands of a line: (verbs) stands for those that the table of verbs has."""
    if line.strip() == "(verbs)":
        return [Row(verb.name, "steer_commands", verb.does) for verb in VERBS.values() if verb.command]
    return [Row(*line.split(maxsplit=2))]


_ROWS: Final = {
    panel: [row for line in table.strip().splitlines() for row in _rows(line)] for panel, table in _PANELS.items()
}
_LISTED: Final = {row.name: row for rows in _ROWS.values() for row in rows}
_UsageError: Final = cast("type[Exception]", typer.BadParameter.__mro__[1])
"""Base of errors about arguments, which typer does not export."""
COMMANDS: Final = _LISTED | {"list": _LISTED["ls"]}
"""All commands by name; help lists none twice."""


class Commands(TyperGroup):
    """The commands of the table; each is imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {row.name: _stub(row, panel) for panel, rows in _ROWS.items() for row in rows}
        self.commands |= {name: _stub(COMMANDS[name], hidden=True) for name in COMMANDS.keys() - _LISTED}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command that the arguments name, the command itself, and the other arguments."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub and load(COMMANDS[args[0]]), rest


class _Command(TyperCommand):
    """A command that says what an option which it lacks may stand for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            if isinstance(lacking := getattr(error, "option_name", None), str) and hasattr(error, "possibilities"):
                from sweep_service.cli.unknown_options import explain  # brings what specs are made of

                explain(error, lacking, self)
            raise


def _stub(row: Row, panel: str | None = None, *, hidden: bool = False) -> TyperCommand:
    """Return a command as the list of commands shows it."""
    return TyperCommand(row.name, help=row.help, rich_help_panel=panel, hidden=hidden)


def load(row: Row) -> Any:
    """Import a command."""
    with interruptible_imports():
        entry = getattr(import_module(f"sweep_service.cli.{row.module}"), row.name)
    if isinstance(entry, typer.Typer):
        command = typer.main.get_group(entry)
    else:
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
        app.command(row.name, cls=_Command)(entry)
        command = typer.main.get_command(app)
    command.name = row.name
    _let_flow(command)
    return command


def _let_flow(command: Any) -> None:
    """Join the lines of each paragraph of the help of a command and of its members, for the terminal to wrap them.

    Lines of examples stay; they begin with [bold].
    """
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(text if text.startswith("[bold]") else text.replace("\n", " ") for text in paragraphs)
    for inner in getattr(command, "commands", {}).values():
        _let_flow(inner)
