"""Checks a spec in all that can be known of it without reading data, so that every reason comes at once.

The catalog is asked about a spec that can be read; where that is refused, about the parts of it that are right.
`preview` reads the data of a spec that passes.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from sweep_service.errors import InvalidSpec, SpecError
from sweep_service.intake.catalog_check import Catalog, catalog_errors, check_catalog, missing_benchmarks
from sweep_service.intake.own_trainer_check import command_errors
from sweep_service.intake.spec_check import parse_spec, refused_training
from sweep_service.sweep.spec import SpecBenchmarks, SweepSpec
from trainers.config import TrainingConfig, WordProblemsTask
from trainers.errors import Faults
from trainers.rewards import REWARDS

_PARTS = ("task", "model")


def check_spec(raw: object, cache: Path, trainer_commands: str = "") -> SweepSpec:
    """Return the spec that `raw`, parsed JSON or YAML, describes, if this installation can run it.

    Args:
        cache: the catalog, which must have all that it names.
        trainer_commands: the setting of this name: the programs that it may name as its trainer.

    Raises: InvalidSpec, with every reason.
    """
    document = cast("Mapping[str, Any]", raw) if isinstance(raw, Mapping) else {}
    errors = command_errors(document.get("trainer"), trainer_commands)
    try:
        spec = parse_spec(raw)
        if spec.trainer is None:
            check_catalog(spec, cache)
        if not errors:
            return spec
    except InvalidSpec as error:
        errors += error.errors
    if document.get("trainer") is not None:
        raise InvalidSpec(errors)
    training = document.get("training")
    config, catalog = _right_parts(training), Catalog(cache)
    with suppress(ValidationError):
        errors += missing_benchmarks(TypeAdapter(SpecBenchmarks).validate_python(document.get("benchmarks")), catalog)
    if config is not None:
        errors += [*catalog_errors(config, training, catalog), *_unknown_rewards(config)]
    raise InvalidSpec(list(dict.fromkeys(errors)))


def _right_parts(training: object) -> TrainingConfig | None:
    """Return a configuration with the task and the model of `training`, as far as they are right in themselves.

    None, if it has neither.
    """
    if not isinstance(training, Mapping):
        return None
    parts = {name: part for name in _PARTS if (part := cast("Mapping[str, Any]", training).get(name)) is not None}
    right = {name: part for name, part in parts.items() if refused_training({name: part}) is None}
    return TrainingConfig.model_validate(right) if right and refused_training(right) is None else None


def missing_rewards(spec: SweepSpec) -> list[str]:
    """Return a warning for each reward of a spec that cannot be used here, where its settings cannot be checked."""
    if spec.trainer is not None:
        return []
    tasks = (spec.bind(point).task for point in spec.space.corners())
    names = {reward.name for task in tasks if isinstance(task, WordProblemsTask) for reward in task.rewards}
    faults = Faults()
    for name in sorted(names):
        with faults.noted():
            REWARDS.entry(name)
    rest = "trials run only where it is installed, its settings are checked there, and this plan reads no data"
    return [f"{problem}; {rest}" for problem in faults.problems]


def _unknown_rewards(config: TrainingConfig) -> list[SpecError]:
    """Return errors for rewards that are not installed here; elsewhere they may be, so this alone refuses no spec."""
    rewards = config.task.rewards if isinstance(config.task, WordProblemsTask) else ()
    places = ["reward", *(f"further_rewards/{reward.name}" for reward in rewards[1:])]
    unknown = zip(places, (REWARDS.unknown(reward.name) for reward in rewards), strict=False)
    return [
        SpecError(f"/training/task/{place}", complaint.removeprefix(f"{REWARDS.setting}: "))
        for place, complaint in unknown
        if complaint is not None
    ]
