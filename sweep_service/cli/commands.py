"""The table of commands. A command's module is imported when the command is called, so that help costs little."""

from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from trainers.process.signals import interruptible_imports


class Row(NamedTuple):
    """A command, or a group of commands."""

    name: str
    panel: str
    place: str
    """The module in this folder, and the name of the function or of the group in it."""
    help: str
    """First sentence of its help, as it stands there."""
    hidden: bool = False


_LS: Final = "List sweeps, newest first: those that meet all conditions."
_ROWS: Final = (
    Row(
        "recipe",
        "Sweeps",
        "recipe_command:recipe",
        "Write a published recipe as a sweep that fits your GPUs and hours.",
    ),
    Row(
        "settings",
        "Sweeps",
        "settings_command:settings",
        "List the settings of a training, which specs name: defaults, allowed values and meanings.",
    ),
    Row("plan", "Sweeps", "sweep_commands:plan", "Check a spec, and show what it would run and cost."),
    Row(
        "probe",
        "Sweeps",
        "probe_command:probe",
        "Measure what a sweep will cost, and whether it fits into memory, without running its trials.",
    ),
    Row("submit", "Sweeps", "sweep_commands:submit", "Submit a sweep and print its id."),
    Row("ls", "Sweeps", "sweep_commands:ls", _LS),
    Row("show", "Sweeps", "sweep_commands:show", "Show a sweep: its state, configs, objectives and failures."),
    Row(
        "compare", "Sweeps", "sweep_commands:compare", "Compare the configs that several sweeps share, with intervals."
    ),
    Row("watch", "Sweeps", "sweep_commands:watch", "Follow a sweep with live progress until it has ended."),
    Row("report", "Sweeps", "sweep_commands:report", "Write a sweep's report, and print the file's path."),
    Row(
        "best",
        "Sweeps",
        "sweep_commands:best",
        "Print the best config as YAML, ready to run, with its verdict; or export its policy.",
    ),
    Row("pause", "Sweeps", "steer_commands:pause", "Stop a sweep until it is resumed."),
    Row("resume", "Sweeps", "steer_commands:resume", "Let a paused sweep go on from what its trials have saved."),
    Row("stop", "Sweeps", "steer_commands:stop", "Stop one trial while its sweep goes on."),
    Row(
        "extend",
        "Sweeps",
        "extend_command:extend",
        "Give a sweep more configs, more seeds, a larger top_k, or other limits; `none` lifts a limit.",
    ),
    Row(
        "retry",
        "Sweeps",
        "steer_commands:retry",
        "Try failed trials again: all of a sweep, or one, which may also have been stopped by hand.",
    ),
    Row("cancel", "Sweeps", "steer_commands:cancel", "Stop a sweep."),
    Row("logs", "Sweeps", "logs_command:logs", "Print what a trainer printed: progress, warnings, and why it failed."),
    Row(
        "delete",
        "Sweeps",
        "delete_command:delete",
        "Delete sweeps that have ended: their rows, their files and their runs in MLflow.",
    ),
    Row(
        "serve",
        "Service",
        "process_commands:serve",
        "Start the whole service on this machine: the API, a worker, MLflow and a local Ray.",
    ),
    Row("api", "Service", "process_commands:api", "Run the API alone, as in a cluster."),
    Row("worker", "Service", "process_commands:worker", "Run a worker alone, as in a cluster."),
    Row(
        "doctor",
        "Service",
        "doctor:doctor",
        "Check everything that the service needs, and say what to do where something is missing.",
    ),
    Row("list", "Sweeps", "sweep_commands:ls", _LS, hidden=True),
    Row("models", "Catalog", "catalog_commands:models", "Models on this machine."),
    Row("datasets", "Catalog", "catalog_commands:datasets", "Datasets on this machine."),
    Row(
        "benchmarks",
        "Catalog",
        "benchmark_commands:benchmarks",
        "Benchmarks on this machine, and scores on them.",
    ),
    Row("db", "Service", "process_commands:db", "The database."),
    Row("mlflow", "Service", "mlflow_command:mlflow", "What MLflow shows."),
)
COMMANDS: Final = {row.name: row for row in _ROWS}
"""All commands by name, in the order of the help."""


class Commands(TyperGroup):
    """The commands of the table; each is imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {row.name: _stub(row) for row in _ROWS}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command that the arguments name, the command itself, and the other arguments."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub and load(COMMANDS[args[0]]), rest


def _stub(row: Row) -> TyperCommand:
    """Return what the list of commands shows."""
    return TyperCommand(row.name, help=row.help, rich_help_panel=row.panel, hidden=row.hidden)


def load(row: Row) -> Any:
    """Import a command."""
    module, _, name = row.place.partition(":")
    with interruptible_imports():
        found = getattr(import_module(f"sweep_service.cli.{module}"), name)
    if isinstance(found, typer.Typer):
        command = typer.main.get_group(found)
    else:
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
        app.command(row.name)(found)
        command = typer.main.get_command(app)
    command.name = row.name
    return command
