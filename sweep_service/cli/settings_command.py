"""The command `settings`, which lists the settings of a training."""

from typing import Annotated

import typer

from sweep_service.cli.exits import ExitCode
from sweep_service.cli.output import print_error, print_table
from sweep_service.errors import ServiceError


def settings(
    text: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="List those with this text in their dotted names. Default: all.")
    ] = "",
) -> None:
    """List the settings of a training, which specs name: defaults, allowed values and meanings.

    OF names the variants that have a setting, such as losses. Losses and rewards of installed packages have settings of
    their own besides.

    [bold]sweeps settings rollout.[/bold]         of a group
    [bold]sweeps settings temperature[/bold]      wherever they are
    """
    from trainers.config import TrainingConfig
    from trainers.config.complaints import settings_of, similar_names
    from trainers.config.field_words import setting_meant
    from trainers.config.setting_schemas import setting_facts

    facts, text = setting_facts(TrainingConfig), text.strip().lower()
    if not (matches := [fact for fact in facts if text in fact.name]):
        *groups, last = text.split(".")
        similar = similar_names(groups, last, settings_of(TrainingConfig))
        meant = setting_meant(text, {fact.name for fact in facts}) or " or ".join(similar)
        remedy = f"did you mean {meant}?" if meant else "list all: sweeps settings"
        print_error(ServiceError(f"no setting has {text!r} in its name; {remedy}"))
        raise typer.Exit(ExitCode.USAGE)
    print_table(("SETTING", "DEFAULT", "ALLOWED", "OF", "MEANING"), matches, loose=("ALLOWED", "OF", "MEANING"))
