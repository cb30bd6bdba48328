"""The command `recipe`, which writes sweeps of published recipes."""

from typing import Annotated

import typer

from sweep_service.cli.exits import ExitCode
from sweep_service.cli.output import print_error, print_table, say, write_output
from sweep_service.errors import ServiceError
from sweep_service.settings import Settings


def recipe(
    name: Annotated[
        str | None, typer.Argument(metavar="[RECIPE]", help="The recipe to write. Default: list the recipes.")
    ] = None,
    gpus: Annotated[
        str | None, typer.Option("--gpus", metavar="NxCARD", help="The GPUs you have, such as 8xH100 or 1xRTX4090.")
    ] = None,
    hours: Annotated[float | None, typer.Option("--hours", help="The hours on the clock for the whole sweep.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="A model of the catalog to train. Default: the recipe's."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="NAME", help="A dataset of the catalog to train on. Default: the recipe's."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The file to write. Default: standard output.")
    ] = "-",
) -> None:
    """Write a published recipe as a sweep that fits your GPUs and hours.

    The file says what the sweep can show, what it costs, and where it departs from what was published. The cost is
    computed from data sheets; the sweep begins with a probe that measures it. If nothing fits, no file is written and
    the exit code is 2.

    [bold]sweeps recipe paper_1_5b --gpus 8xH100 --hours 40 -o sweep.yaml[/bold]
    """
    from sweep_service import recipes

    if name is None:
        print_table(
            ("RECIPE", "MODEL", "WHAT", "PUBLISHED VALUES"),
            [
                (name, recipe.model, recipe.title, f"examples/{recipe.source}.yaml")
                for name, recipe in recipes.RECIPES.items()
            ],
        )
        say(f"cards: {', '.join(recipes.CARDS)}")
        return
    try:
        if name not in recipes.RECIPES:
            raise recipes.RecipeError(f"the recipe {name!r} is unknown; choose one of {', '.join(recipes.RECIPES)}")
        if gpus is None or hours is None:
            raise recipes.RecipeError(
                f"--gpus and --hours are needed, as in: sweeps recipe {name} --gpus 8xH100 --hours 40"
            )
        cache = Settings().cache
        shape = recipes.find_model(cache, model or recipes.RECIPES[name].model)
        problems = recipes.find_problems(cache, data)
        text = recipes.write_recipe(recipes.Request(name, recipes.parse_machine(gpus), hours, shape, problems))
    except ServiceError as error:
        print_error(error)
        raise typer.Exit(ExitCode.USAGE) from error
    write_output(text.encode(), output)
    if output != "-":
        say(f"next: sweeps plan {output}")
