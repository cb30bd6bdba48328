"""The command that writes sweeps of published recipes: recipe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep_service.cli.exits import ExitCode
from sweep_service.cli.output import print_data, print_error, print_table, say
from sweep_service.errors import ServiceError
from sweep_service.settings import Settings

if TYPE_CHECKING:
    from sweep_service.recipes import ModelShape, Problems


def recipe(
    name: Annotated[str | None, typer.Argument(metavar="[RECIPE]", help="Default: list the recipes.")] = None,
    gpus: Annotated[
        str | None, typer.Option("--gpus", metavar="NxCARD", help="What there is, such as 8xH100 or 1xRTX4090.")
    ] = None,
    hours: Annotated[float | None, typer.Option("--hours", help="On the clock, for the whole sweep.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="A model of the catalog. Default: the recipe's.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="NAME", help="A dataset of the catalog. Default: the recipe's.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Default: standard output.")] = "-",
) -> None:
    """Write a published recipe as a sweep that fits your GPUs and hours.

    It says what it can show, what it costs, and where it departs from what was published. Time and memory are
    computed from data sheets; the sweep begins with a probe that measures them. If nothing fits, no file is written
    and the exit code is 2.

    [bold]sweeps recipe paper_1_5b --gpus 8xH100 --hours 40 -o sweep.yaml[/bold]
    """
    from sweep_service.recipes import RECIPES, RecipeError, Request, parse_machine, write_recipe

    try:
        if name is None:
            _list()
            return
        if name not in RECIPES:
            raise RecipeError(f"there is no recipe {name!r}; there are {', '.join(RECIPES)}")
        if gpus is None or hours is None:
            raise RecipeError(f"say what there is: sweeps recipe {name} --gpus 8xH100 --hours 40")
        shape, problems = _model(model or RECIPES[name].model), _problems(data)
        text = write_recipe(Request(name, parse_machine(gpus), hours, shape, problems))
    except ServiceError as error:
        print_error(error)
        raise typer.Exit(ExitCode.USAGE) from error
    _write(text, output)


def _list() -> None:
    from sweep_service.recipes import CARDS, RECIPES

    print_table(
        ("RECIPE", "MODEL", "WHAT", "PUBLISHED VALUES"),
        [(name, recipe.model, recipe.title, f"examples/{recipe.source}.yaml") for name, recipe in RECIPES.items()],
    )
    say(f"cards: {', '.join(CARDS)}")


def _model(name: str) -> "ModelShape":
    """The catalog's model of that name, or one that the recipes know.

    Raises: RecipeError, if it is neither.
    """
    from sweep_service.recipes import KNOWN, RecipeError, shape_of
    from trainers.catalog.entries import ModelEntry, read_entry
    from trainers.errors import ConfigError

    try:
        return shape_of(read_entry(Settings().cache, ModelEntry, name))
    except ConfigError as error:
        if name in KNOWN:
            return KNOWN[name]
        raise RecipeError(f"--model: {error}") from error


def _problems(name: str | None) -> "Problems":
    """The catalog's dataset of that name; None: the recipes' own.

    Raises: RecipeError, if there is none, or if its columns have other names than usual.
    """
    from sweep_service.recipes import MATH_SUB, RecipeError, problems_of
    from trainers.catalog.entries import DatasetEntry, read_entry
    from trainers.errors import ConfigError

    if name in (None, MATH_SUB.name):
        return MATH_SUB
    try:
        return problems_of(read_entry(Settings().cache, DatasetEntry, name))
    except ConfigError as error:
        raise RecipeError(f"--data: {error}") from error


def _write(text: str, output: str) -> None:
    if output == "-":
        print_data(text)
        return
    path = Path(output).expanduser().absolute()
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ServiceError(f"cannot write {path}: {error.strerror or error}") from error
    say(f"next: sweeps plan -f {output}")
    print_data(str(path))
