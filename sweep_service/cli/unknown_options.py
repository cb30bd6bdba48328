"""Says what an option that a command lacks may stand for: an option of another name, or a setting of the spec."""

from collections.abc import Sequence
from typing import Any, Final

from typer.core import TyperCommand

from sweep_service.intake.spec_check import settings_of_specs
from sweep_service.sweep.extension import Extension
from trainers.config.complaints import settings_of, similar_names
from trainers.config.field_words import setting_meant

_REMEDIES: Final = {
    "extend": "a submitted sweep keeps its {}: submit a new sweep, and join both with `sweeps compare`",
    **dict.fromkeys(("plan", "probe", "submit"), "set {} in the spec's file"),
}
"""What to do about a setting, by the command that was given it as an option."""


def explain(error: Any, option: str, command: TyperCommand) -> None:
    """Add to the error about an option what it may stand for, if that is known.

    Args:
        error: with a message, and with the options that are written almost like that one.
    """
    similar = set(error.possibilities or ()) - {"--help"}
    names = _settings_meant(option, or_similar=not similar)
    if command.name not in _REMEDIES or not names:
        return
    inside = [name for name in settings_of_specs().owners for group in names if f"{name}.".startswith(f"{group}.")]
    options = [shown for one in command.params for shown in one.opts if shown.startswith("--")]
    own = [shown for shown in options if any(_sets(shown, name) for name in inside)]
    if own:
        remark = f"did you mean {' or '.join(own)}?"
    elif command.name == "extend" and set(inside) & settings_of(Extension).owners.keys():
        return  # the API alone can change it
    else:
        remark = _REMEDIES[command.name].format(" or ".join(names))
    error.message, error.possibilities = f"{error.message}; {remark}", None


def _settings_meant(option: str, *, or_similar: bool) -> Sequence[str]:
    """Return the dotted names, in a spec, that a word means; those written almost like it if that is wanted."""
    word, settings = _plain(option), settings_of_specs()
    if exact := [name for name in (word, f"training.{word}") if name in settings.owners]:
        return exact
    if (meant := setting_meant(word, settings.owners)) is not None:
        return [meant.partition("=")[0]]
    if alone := settings.by_last_part.get(word):
        return alone[:1]
    return similar_names((), word, settings) if or_similar else ()


def _sets(option: str, setting: str) -> bool:
    """Say whether an option sets a setting: `--configs` search.num_configs, and `--tune-seeds` seeds.tune."""
    group, _, last = setting.rpartition(".")
    beside = group.rpartition(".")[2]
    return _plain(option) in (last, last.removeprefix("num_"), f"{last}_{beside}", f"{beside}_{last}")


def _plain(option: str) -> str:
    return option.lstrip("-").replace("-", "_")
