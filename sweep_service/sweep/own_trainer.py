"""A trainer of one's own: its part of a spec, and one point of such a sweep. Pure.

A sweep trains with `python -m trainers`, or with a program that its user names. `Trained` is what both have in common:
a point of the space, bound to the base settings, which has a number of steps, a digest and settings by dotted name.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field, StringConstraints, field_validator

from trainers.config import Frozen, TrainingConfig
from trainers.losses.base import MAX_STEPS

Word = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
RESERVED: Final = ("seed", "steps")
"""Names that the service sets in the file of such a trainer: the trial's seed, and the sweep's `trainer.steps`."""
_SCRIPT: Final = re.compile(r"\.(py|sh)$")


def _words(value: object) -> object:
    """Refuse a command line in one text, which only a shell would take apart."""
    if isinstance(value, str):
        raise ValueError("give the program and its arguments as a list, [python3, /path/trainer.py]; no shell reads it")
    return value


def _point(value: object) -> object:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError("give dotted names with values, as in baseline: {beta: 0}")
    return cast("object", value)


class OwnTrainer(Frozen):
    """A program that trains in place of `python -m trainers`; docs/own_trainer.md says what it must read and write."""

    command: Annotated[tuple[Word, ...], BeforeValidator(_words)] = Field(
        min_length=1,
        max_length=100,
        description="The program and its first arguments; it starts in its attempt's folder, so paths are absolute.",
    )
    steps: int = Field(ge=1, le=MAX_STEPS, description="Steps of one trial; its last event of a step has this number.")
    baseline: Annotated[dict[str, Any] | None, BeforeValidator(_point)] = Field(
        default=None,
        description="What the config to compare with has in place of the base's values, by dotted name; {} for the "
        "base itself, null for none.",
    )

    @field_validator("command")
    @classmethod
    def _can_be_started(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if odd := [word for word in command if "\x00" in word]:
            raise ValueError(f"{odd[0]!r:.100} holds the character 0, which no argument of a program can")
        program, *arguments = command
        relative = [word for word in (program,) if "/" in word and not PurePath(word).is_absolute()]
        relative += [word for word in arguments if _SCRIPT.search(word) and not PurePath(word).is_absolute()]
        if relative:
            why = "the program starts in its attempt's folder, where this path leads nowhere; give it from / on"
            raise ValueError(f"{', '.join(relative)}: {why}")
        return command


class OwnConfig(Frozen):
    """One point of a sweep of a trainer of one's own, without a seed."""

    command: tuple[str, ...]
    """Two programs with the same settings are two configs."""
    steps: int
    settings: dict[str, Any]
    """The base settings with the point's values: what the program reads, but for `RESERVED`."""


Trained = TrainingConfig | OwnConfig
"""The training of one trial: a configuration of ours, or one for a program."""


def command_line(command: Sequence[str], config: str, output: str, resume_from: str | None = None) -> list[str]:
    """Return the words that start a program: its command, the file that it reads, and the folder that it writes to."""
    resumes = ["--resume-from", resume_from] if resume_from else []
    return [*command, "--config", config, "--output", output, *resumes]


def own_file(settings: Mapping[str, Any]) -> str:
    """Write a program's file: JSON, which readers of YAML take, too, so that it needs no comments."""
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def is_own(training: Mapping[str, Any]) -> bool:
    """Say whether a config's training, as JSON, is an `OwnConfig`: a `TrainingConfig` has no command."""
    return "command" in training


def settings_of_base(trained: Trained) -> dict[str, Any]:
    """Return a training's settings by the names that specs use: a program's command as `trainer.command`."""
    training = trained.model_dump(mode="json")
    return settings_in_file(training) | ({"trainer": {"command": training["command"]}} if is_own(training) else {})


def settings_in_file(training: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as the trainer's file has them, without the seed, from a config's training as JSON."""
    return {**training["settings"], "steps": training["steps"]} if is_own(training) else dict(training)
