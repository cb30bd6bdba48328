"""Checks a spec in all that can be known of it without reading data, so that every reason comes at once.

The catalog is asked about a spec that can be read; where that is refused, about the parts of it that are right.
`preview` reads the data of a spec that passes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from sweep_service.errors import InvalidSpec, SpecError
from sweep_service.intake.catalog_check import catalog_errors, check_catalog, missing_benchmarks
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.spec import SpecBenchmarks, SweepSpec
from trainers.config import TrainingConfig, WordProblemsTask
from trainers.rewards import unknown_reward

_PARTS = ("task", "model")


def check_spec(raw: object, cache: Path) -> SweepSpec:
    """Return the spec that `raw`, parsed JSON or YAML, describes, if the catalog in `cache` has all that it names.

    Raises: InvalidSpec, with every reason.
    """
    try:
        spec = parse_spec(raw)
        check_catalog(spec, cache)
        return spec
    except InvalidSpec as error:
        found = list(error.errors)
    document = cast("Mapping[str, Any]", raw) if isinstance(raw, Mapping) else {}
    training = document.get("training")
    config = _right_parts(training)
    found += _missing_benchmarks(document.get("benchmarks"), cache)
    if config is not None:
        found += [*catalog_errors(config, training, cache), *_missing_reward(config)]
    raise InvalidSpec(list(dict.fromkeys(found)))


def _right_parts(training: object) -> TrainingConfig | None:
    """Return a configuration with the task and the model of `training`, as far as they are right in themselves.

    None, if it has neither.
    """
    if not isinstance(training, Mapping):
        return None
    parts = {name: part for name in _PARTS if (part := cast("Mapping[str, Any]", training).get(name)) is not None}
    right = {name: part for name, part in parts.items() if _is_right({name: part})}
    return TrainingConfig.model_validate(right) if right and _is_right(right) else None


def _missing_benchmarks(benchmarks: object, cache: Path) -> list[SpecError]:
    try:
        return missing_benchmarks(TypeAdapter(SpecBenchmarks).validate_python(benchmarks), cache)
    except ValidationError:
        return []


def _is_right(training: Mapping[str, Any]) -> bool:
    try:
        TrainingConfig.model_validate(training)
    except ValidationError:
        return False
    return True


def _missing_reward(config: TrainingConfig) -> list[SpecError]:
    """Return that a reward is not installed here; elsewhere it may be, so this alone refuses no spec."""
    if isinstance(config.task, WordProblemsTask) and (complaint := unknown_reward(config.task.reward)):
        return [SpecError("/training/task/reward", complaint)]
    return []
