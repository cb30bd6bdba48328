"""Checks that a sweep can run, before anything is stored.

`parse_spec` reports everything that is wrong at once: the spec's own fields, the base training configuration, names of
the space that training does not have, and points of the space that training refuses, or reads as other values. Corner
points are always tried, and all points if there are not too many. What is too large is refused before it is looked at,
so that no document costs more than a second.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, cast

from pydantic import ValidationError

from search_spaces.space import SearchSpace
from sweep_service.errors import InvalidSpec, SpecError, pointer
from sweep_service.intake.benchmark_check import benchmark_errors
from sweep_service.intake.document_size import size_errors
from sweep_service.intake.early_stopping_check import early_stopping_errors
from sweep_service.intake.own_trainer_check import own_trainer_errors
from sweep_service.intake.several_processes_check import fraction_errors, process_errors
from sweep_service.intake.space_check import grid_errors, point_errors, settings_of_training, space_errors
from sweep_service.sweep.budget import budget_complaints
from sweep_service.sweep.plan import stage_counts, too_many_confirmed, too_many_trials
from sweep_service.sweep.points import BoundSpace
from sweep_service.sweep.spec import SweepSpec, preset_or_space
from trainers.config import TrainingConfig
from trainers.config.complaints import Complaint, Settings, complaints, settings_of
from trainers.config.package_settings import with_package_loss

_TOO_MUCH_WRONG: Final = 50
"""Mistakes of the base configuration beyond which its space is not looked at: each point would repeat all of them."""
_SOME_TRAINER: Final = {"command": ["true"], "steps": 1}


def parse_spec(raw: object, *, of_before: bool = False) -> SweepSpec:
    """Return the spec that `raw`, parsed JSON or YAML, describes.

    Args:
        of_before: true for the document of a stored sweep, which may confirm more configs than it can have.
    Raises: InvalidSpec, with every reason why it cannot run.
    """
    if not isinstance(raw, Mapping):
        raise InvalidSpec([SpecError("", f"a sweep is a mapping with name, training, space, …; this is {raw!r:.100}")])
    document = cast("Mapping[str, Any]", raw)
    if errors := size_errors(document):
        raise InvalidSpec(errors)
    if document.get("trainer") is not None:
        return _parse_own(document, of_before=of_before)
    training = document.get("training", {})
    refused = refused_training(training)
    settings = with_package_loss(settings_of_training(), training)
    base = [] if refused is None else complaints(refused, training, settings)
    errors, spec = list[SpecError](), None
    try:
        spec = SweepSpec.model_validate(document)
    except ValidationError as error:
        errors += [_error(complaint) for complaint in complaints(error, document, settings_of_specs())]
    bound = spec.bound if spec is not None else _bound_space(document.get("space"), training)
    if bound is not None and (refused is None or refused.error_count() <= _TOO_MUCH_WRONG):
        errors += space_errors(bound, base, of_before=of_before)
    if spec is not None:
        errors += _errors_of_whole(spec, sound=not errors and not base, of_before=of_before)
    if errors or base:
        raise InvalidSpec(list(dict.fromkeys([*errors, *(_error(complaint, "training") for complaint in base)])))
    assert spec is not None
    return spec


def _parse_own(document: Mapping[str, Any], *, of_before: bool) -> SweepSpec:
    """Return the spec of a sweep that another program trains, whose settings are the program's own affair.

    Raises: InvalidSpec.
    """
    try:
        spec = SweepSpec.model_validate(document)
    except ValidationError as error:
        errors = [_error(one) for one in complaints(error, document, settings_of(SweepSpec))]
        with suppress(ValidationError):  # the other parts, if they can be read
            errors += own_trainer_errors(SweepSpec.model_validate({**document, "trainer": _SOME_TRAINER}))
        raise InvalidSpec(errors) from error
    errors = own_trainer_errors(spec)
    errors += (grid_errors(spec.space) if spec.search.is_grid else []) or too_many_trials(spec)
    errors += fraction_errors(spec)
    if errors := errors or _amount_errors(spec, sound=True, of_before=of_before):
        raise InvalidSpec(errors)
    return spec


def _errors_of_whole(spec: SweepSpec, *, sound: bool, of_before: bool) -> list[SpecError]:
    """Return the errors of a spec whose parts are right, but which cannot run as a whole.

    Args:
        sound: true if training takes the corner points of the space, too.
    """
    errors = (grid_errors(spec.space) if spec.search.is_grid else []) or too_many_trials(spec)
    if sound and not errors:
        has_drawn = of_before and not spec.search.is_grid  # from a space that an extension cannot change
        errors += process_errors(spec) or ([] if has_drawn else point_errors(spec))
    errors += [*_reward_errors(spec), *(_pass_k_errors(spec) if sound else ()), *benchmark_errors(spec, sound=sound)]
    return errors + _amount_errors(spec, sound=sound and not errors, of_before=of_before)


def _reward_errors(spec: SweepSpec) -> list[SpecError]:
    """Refuse to compare mean rewards that are measured in different rewards."""
    of_rewards = ("task.reward", "task.further_rewards")
    varied = [name for name in spec.space.names if name in ("task", "task.name") or name.startswith(of_rewards)]
    if spec.objective.metric != "eval/reward_mean" or not varied:
        return []
    remedy = "set it to eval/avg_at_k, which counts right answers"
    return [
        SpecError(
            "/objective/metric", f"eval/reward_mean cannot compare different rewards ({', '.join(varied)}); {remedy}"
        )
    ]


def _pass_k_errors(spec: SweepSpec) -> list[SpecError]:
    """Refuse to compare pass@k of different k, as it follows evaluation.samples_per_problem where nobody sets it."""
    if spec.objective.metric != "eval/pass_at_k":
        return []
    pass_k = sorted({spec.bind(point).evaluation.pass_k for point in spec.space.corners()})
    if len(pass_k) == 1:
        return []
    remedy = f"set training.evaluation.pass_k to {pass_k[0]} for all"
    return [SpecError("/objective/metric", f"eval/pass_at_k cannot compare pass@k of {pass_k}; {remedy}")]


def _amount_errors(spec: SweepSpec, *, sound: bool, of_before: bool) -> list[SpecError]:
    """Return the errors of a sweep that has more trials than its budget allows, or fewer configs than it confirms.

    Args:
        sound: true if nothing else is wrong, so that its trials can be counted.
    """
    counts = stage_counts(spec) if sound and spec.budget.max_gpu_hours is not None else None
    first = 1 + spec.comparators
    if not spec.search.is_grid:  # a proposal, and a baseline before it, runs on all seeds
        first *= len(spec.seeds.tune)
    errors, confirm = budget_complaints(spec, counts, first), spec.seeds.confirm
    errors += early_stopping_errors(spec) if sound and not of_before else []
    if errors or not sound or of_before or confirm is None or "top_k" not in confirm.model_fields_set:
        return errors  # a top_k that nobody has written may be more than a small sweep can confirm
    return too_many_confirmed(spec)


def _bound_space(space: object, training: object) -> BoundSpace | None:
    """Read the space alone, so that its points are checked even where the rest of the spec is wrong."""
    if not isinstance(training, Mapping):
        return None
    try:
        return BoundSpace(SearchSpace.model_validate(preset_or_space(space)), cast("Mapping[str, Any]", training))
    except ValueError:  # SweepSpec has reported it
        return None


def refused_training(training: object) -> ValidationError | None:
    """Return the error with which training refuses these settings; None if it takes them."""
    try:
        TrainingConfig.model_validate(training)
    except ValidationError as error:
        return error
    return None


def _error(complaint: Complaint, *above: str) -> SpecError:
    return SpecError(pointer((*above, *complaint.path)), complaint.sentence)


@cache
def settings_of_specs() -> Settings:
    """Return the settings of a spec with those of its training, which the spec's own schema leaves open."""
    inner = {f"training.{name}": owners for name, owners in settings_of(TrainingConfig).owners.items()}
    return Settings({**inner, **settings_of(SweepSpec).owners})
