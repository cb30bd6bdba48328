"""Checks that a sweep can run, before anything is stored.

`parse_spec` reports everything that is wrong at once: the spec's own fields, the base training configuration, names of
the space that training does not have, and points of the space that training refuses, or reads as other values. Corner
points are always tried, and all points if there are not too many.
"""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from search_spaces.space import SearchSpace
from sweep_service.errors import InvalidSpec, SpecError
from sweep_service.intake.sharing_check import sharing_errors
from sweep_service.sweep.baselines import BOUND_TOKEN_RATIOS
from sweep_service.sweep.budget import StageCounts, budget_complaints
from sweep_service.sweep.plan import stage_counts
from sweep_service.sweep.spec import SweepSpec, preset_or_space, setting
from trainers.config import TrainingConfig, with_params
from trainers.config.complaints import complaints, settings_of
from trainers.losses import LOSSES

MAX_CONFIGS = 10_000
"""Largest number of grid points that is accepted; nobody means a larger grid."""


def parse_spec(raw: object) -> SweepSpec:
    """Return the spec that `raw`, parsed JSON or YAML, describes.

    Raises: InvalidSpec, with every reason why it cannot run.
    """
    if not isinstance(raw, Mapping):
        raise InvalidSpec([SpecError("", f"a sweep is a mapping with name, training, space, …; this is {raw!r:.100}")])
    document = cast("Mapping[str, Any]", raw)
    errors: list[SpecError] = []
    spec = None
    try:
        spec = SweepSpec.model_validate(document)
    except ValidationError as error:
        errors += _spec_errors(error, (), SweepSpec, document)
    training = document.get("training", {})
    base_errors = _training_errors(training, ("training",))
    space = _space(document.get("space"))
    if space is not None and isinstance(training, Mapping):
        errors += _space_errors(space, training, {error.detail for error in base_errors})
    if spec is not None and spec.search.strategy == "grid":
        errors += _grid_errors(spec.space)
    if spec is not None and not errors and not base_errors:
        errors += _inner_errors(spec.space, spec.training) or sharing_errors(spec)
    if spec is not None and spec.budget.max_gpu_hours is not None:
        counts = stage_counts(spec) if not errors and not base_errors else None
        errors += _budget_errors(spec, counts)
    if errors or base_errors:
        raise InvalidSpec(errors + base_errors)
    assert spec is not None
    return spec


def _space(raw: object) -> SearchSpace | None:
    """Read the space alone, so that its bindings are checked even where the rest of the spec is wrong."""
    try:
        return SearchSpace.model_validate(preset_or_space(raw))
    except ValueError:  # SweepSpec has reported it
        return None


def _grid_errors(space: SearchSpace) -> list[SpecError]:
    continua = [name for name in space.names if space.root[name].size is None]
    if continua:
        remedy = "a grid needs a step or a list of values here; or set search.strategy to random or tpe"
        return [SpecError(_pointer(("space", name)), remedy) for name in continua]
    if (size := space.grid_size()) > MAX_CONFIGS:
        remedy = f"the grid has {size} points, more than {MAX_CONFIGS}; vary fewer values, or use random or tpe"
        return [SpecError("/space", remedy)]
    return []


def _budget_errors(spec: SweepSpec, counts: StageCounts | None) -> list[SpecError]:
    first = 1 + spec.baselines.ppo_clip + spec.baselines.dapo
    if spec.search.strategy != "grid":  # a proposal, and a baseline before it, runs on all seeds
        first *= len(spec.seeds.tune)
    return budget_complaints(spec, counts, first)


def _space_errors(space: SearchSpace, training: Mapping[str, Any], reported: Set[str]) -> list[SpecError]:
    """Try the space's corner points. A value that fails in all of its points is named, otherwise the points are.

    Args:
        reported: errors of `training` itself, which are not reported again.
    """
    if "seed" in space.names:
        return [SpecError("/space/seed", "the seed is not a parameter to choose; list the seeds under /seeds")]
    if mixed := _mixed_losses(space, training):
        return mixed
    corners = list(space.corners())
    failing = [(point, reasons) for point in corners if (reasons := _refusals(training, point, reported))]
    errors: dict[SpecError, None] = {}
    explained: list[tuple[str, Any]] = []
    for name in space.names:
        for value in _distinct(point[name] for point, _ in failing):
            alone = _refusals(training, {name: value}, reported)
            if alone and sum(point[name] == value for point, _ in failing) == sum(p[name] == value for p in corners):
                errors |= {SpecError(_pointer(("space", name)), f"{value!r}: {reason}"): None for reason in alone}
                explained.append((name, value))
    for point, reasons in failing:
        if any(point[name] == value for name, value in explained):
            continue
        errors[SpecError("/space", f"the point {json.dumps(point)} cannot run: {'; '.join(reasons)}")] = None
    return list(errors)


def _mixed_losses(space: SearchSpace, training: Mapping[str, Any]) -> list[SpecError]:
    """Refuse settings that several losses would share, if one of them lacks the setting or reads it differently."""
    if "loss.name" not in space.names:
        return []
    base = training.get("loss")
    settings = cast("Mapping[str, Any]", base) if isinstance(base, Mapping) else {}
    names = [settings.get("name", TrainingConfig().loss.name), *space.root["loss.name"].edges]
    losses = {name: LOSSES[name].params.model_json_schema()["properties"] for name in LOSSES if name in names}
    shared = [*settings, *(name.split(".")[1] for name in space.names if name.startswith("loss."))]
    reasons: list[str] = []
    for name in dict.fromkeys(shared):
        lacking = [loss for loss in losses if name not in losses[loss]]
        if lacking and len(lacking) < len(losses):
            reasons.append(f"{name} is not a setting of {' and '.join(lacking)}")
        elif name.startswith("epsilon") and len(losses) > 1 and not BOUND_TOKEN_RATIOS.issuperset(losses):
            reasons.append(f"{name} does not mean the same in {' and '.join(losses)}")
    remedy = "leave it out, so that each loss has its own, or give each loss a sweep of its own"
    return [SpecError("/space/loss.name", f"{reason}; {remedy}") for reason in reasons]


def _inner_errors(space: SearchSpace, training: Mapping[str, Any]) -> list[SpecError]:
    """Try the points between the corners too, where they can be counted: training may take 4 and 8 and refuse 5."""
    if space.size is None or space.size > MAX_CONFIGS or space.size == sum(1 for _ in space.corners()):
        return []
    for point in space.grid():
        if reasons := _refusals(training, point, set()):
            return [SpecError("/space", f"the point {json.dumps(point)} cannot run: {'; '.join(reasons)}")]
    return []


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({json.dumps(value): value for value in values}.values())


def _refusals(training: Mapping[str, Any], params: Mapping[str, Any], reported: Set[str]) -> list[str]:
    """Return why training refuses the base configuration with these parameters, but for reported reasons."""
    try:
        raw = with_params(training, params)
    except ValueError as error:
        return [str(error)]
    errors = _training_errors(raw, ())
    if errors:
        return [error.detail for error in errors if error.detail not in reported]
    return _misread(TrainingConfig.model_validate(raw), params)


def _misread(config: TrainingConfig, params: Mapping[str, Any]) -> list[str]:
    """Return the values that training converts, such as text to a number: the sampler would not find its point."""
    read = {name: setting(config, name) for name in params}
    same = {
        name: (isinstance(value, bool), value) == (isinstance(read[name], bool), read[name])
        for name, value in params.items()
    }
    return [f"{name} {params[name]!r} is read as {read[name]!r}; write that" for name in params if not same[name]]


def _training_errors(raw: object, prefix: tuple[str, ...]) -> list[SpecError]:
    try:
        TrainingConfig.model_validate(raw)
    except ValidationError as error:
        return _spec_errors(error, prefix, TrainingConfig, raw)
    return []


def _spec_errors(
    error: ValidationError, prefix: tuple[str, ...], model: type[BaseModel], raw: object
) -> list[SpecError]:
    """Turn pydantic's errors into JSON pointers and sentences."""
    settings = _settings_of_specs() if model is SweepSpec else settings_of(model)
    return [SpecError(_pointer((*prefix, *path)), detail) for path, detail in complaints(error, raw, settings)]


@cache
def _settings_of_specs() -> Mapping[str, Sequence[str]]:
    """Return the settings of a spec, of which its own schema leaves those of training open."""
    inner = {f"training.{name}": owners for name, owners in settings_of(TrainingConfig).items()}
    return {**settings_of(SweepSpec), **inner}


def _pointer(path: Iterable[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)
