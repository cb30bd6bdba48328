"""Checks a sweep that a program of its user's trains: for parts that it cannot have, and for the operator's leave.

Of the program's settings nothing is known, so they are only checked for what no file could hold.
"""

import difflib
import math
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from sweep_service.errors import SpecError, pointer
from sweep_service.intake.space_check import choices_beside_whole_values, one_value_errors
from sweep_service.settings import may_run
from sweep_service.sweep.own_trainer import RESERVED
from sweep_service.sweep.spec import SweepSpec

NO_BENCHMARKS: Final = (
    "a trainer of one's own writes checkpoints that only it can read, so benchmarks cannot measure them; let the "
    "program evaluate on such problems itself"
)


def own_trainer_errors(spec: SweepSpec) -> list[SpecError]:
    """Return the errors of a spec with `trainer`."""
    baseline = (spec.trainer and spec.trainer.baseline) or {}
    return [
        *_refused_parts(spec),
        *_settings_errors(spec, baseline),
        *_unknown_names(spec, baseline),
        *_point_errors(spec, baseline),
    ]


def command_errors(trainer: object, allowed: str) -> list[SpecError]:
    """Return an error if the operator does not allow the command of a spec, which may be wrong otherwise.

    Args:
        allowed: the setting `trainer_commands`.
    """
    command = cast("Mapping[str, Any]", trainer).get("command") if isinstance(trainer, Mapping) else None
    if not isinstance(command, list | tuple) or not command or may_run([str(word) for word in command], allowed):
        return []
    line = shlex.join(str(word) for word in command)[:200]
    if not allowed:
        why = "this installation runs no programs of its users' as trainers"
    else:
        why = f"this installation runs only commands that begin with {allowed}"
    remedy = (
        "its operator allows one by starting the service with SWEEPS_TRAINER_COMMANDS, the beginnings of allowed "
        "commands with commas between them, or any (docs/access.md)"
    )
    return [SpecError("/trainer/command", f"{line}: {why}; {remedy}")]


def _refused_parts(spec: SweepSpec) -> Iterator[SpecError]:
    """Yield the parts of a spec that only our own trainer has."""
    for name, wanted in spec.baselines:
        if wanted:
            detail = "it changes the loss, which is known of our trainer only; leave it out, and give trainer.baseline"
            yield SpecError(f"/baselines/{name}", f"true: {detail}")
    if spec.benchmarks is not None:
        yield SpecError("/benchmarks", f"{NO_BENCHMARKS}; leave it out")
    if spec.probe not in (None, "off"):
        yield SpecError("/probe", f"{spec.probe}: a trainer of one's own has no cost probe; leave it out")
    if spec.resources.processes is not None:
        detail = "the program starts its own processes; leave it out"
        yield SpecError("/resources/processes", f"{spec.resources.processes}: {detail}")


def _settings_errors(spec: SweepSpec, baseline: Mapping[str, Any]) -> Iterator[SpecError]:
    where = {"seed": "list the seeds under /seeds", "steps": "give it as /trainer/steps"}
    for place, names in (("training", spec.training), ("space", spec.space.names), ("trainer/baseline", baseline)):
        for name in names:
            if (first := name.partition(".")[0]) in RESERVED:
                detail = f"the service sets {first} in the program's file; {where[first]}"
                yield SpecError(f"/{place}/{name}", detail)
    yield from _unwritable(spec.training, ("training",))
    yield from _unwritable(baseline, ("trainer", "baseline"), dotted=True)


def _unwritable(value: object, place: tuple[str | int, ...], *, dotted: bool = False) -> Iterator[SpecError]:
    """Yield errors of settings that the program's file cannot hold: it is JSON, with names that dots can lead to."""
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            if "." in name and not dotted:
                detail = f"{name!r} has a dot, which stands between names; nest it, as in {{{name.replace('.', ': {')}"
                yield SpecError(pointer((*place, name)), f"{detail}: …")
            yield from _unwritable(inner, (*place, name))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from _unwritable(inner, (*place, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield SpecError(pointer(place), f"{value} is no number of JSON; give a finite one, or a text")
    elif not isinstance(value, str | int | float | bool | None):
        yield SpecError(pointer(place), f"{value!r:.100} cannot be written as JSON; give a text or a number")


def _unknown_names(spec: SweepSpec, baseline: Mapping[str, Any]) -> Iterator[SpecError]:
    """Yield names of the baseline that neither training nor space has, as a mistyped one; the program has no others."""
    known = [*_dotted_names(spec.training), *spec.space.names]
    groups = [
        name
        for name, values in spec.space.root.items()
        if any(isinstance(values.whole(choice), Mapping) for choice in choices_beside_whole_values(values))
    ]
    for name in baseline:
        inside = any(name.startswith(f"{group}.") for group in groups)
        above = any(one.startswith(f"{name}.") for one in spec.space.names)
        if (all(name.split(".")) and (inside or above or name in known)) or name.partition(".")[0] in RESERVED:
            continue
        close = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {close[0]}?" if close else "give what the sweep's other configs have under training"
        yield SpecError(pointer(("trainer", "baseline", name)), f"neither training nor space has this name; {meant}")


def _dotted_names(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted name of every setting and of every group of them."""
    for name, value in settings.items():
        yield prefix + name
        if isinstance(value, Mapping):
            yield from _dotted_names(cast("Mapping[str, Any]", value), f"{prefix}{name}.")


def _point_errors(spec: SweepSpec, baseline: Mapping[str, Any]) -> Iterator[SpecError]:
    """Yield names of one whole value, as a point would have two, and names through a value: `a.b` of a number `a`."""
    for name, values in spec.space.root.items():
        choices = choices_beside_whole_values(values)
        yield from one_value_errors(name, [(choice, values.whole(choice)) for choice in choices])
    for place, point in (("/space", next(spec.space.corners())), ("/trainer/baseline", baseline)):
        try:
            spec.bound.bind(point)
        except ValueError as error:
            yield SpecError(place, str(error))
