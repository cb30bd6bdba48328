"""Checks what a user adds to a submitted sweep: trials, or benchmarks, which must be measurable and mean something."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from sweep_service.errors import InvalidSpec, SpecError, pointer
from sweep_service.intake.catalog_check import check_catalog, named_benchmark_errors
from sweep_service.intake.early_stopping_check import extension_errors
from sweep_service.intake.own_trainer_check import NO_BENCHMARKS
from sweep_service.intake.preview import check_data
from sweep_service.intake.spec_check import parse_spec, settings_of_specs
from sweep_service.sweep.added_benchmarks import BEST, EVERY, AddedBenchmarks, BenchmarksRequest
from sweep_service.sweep.evaluations import benchmarks_of
from sweep_service.sweep.extension import Extension, extended, shrunk
from sweep_service.sweep.plan import too_many_confirmed
from sweep_service.sweep.records import Config, Sweep, Trial
from sweep_service.sweep.spec import Benchmarks, SweepSpec
from sweep_service.verbs import VERBS
from trainers.config import TrainingConfig
from trainers.config.complaints import Settings, complaints, settings_of
from trainers.errors import ConfigError
from trainers.tasks.shared_problems import shared_problems

_NOT_EXTENDED: Final = VERBS["extend"].refused
_NOT_ADDED: Final = VERBS["add_benchmarks"].refused

AnyRequest = TypeVar("AnyRequest", bound=BaseModel)


def _read(request_type: type[AnyRequest], raw: object, refused: str) -> AnyRequest:
    """Read a request, parsed JSON. Raises: InvalidSpec, with every reason; `refused` is their head."""
    try:
        return request_type.model_validate(raw)
    except ValidationError as error:
        settings = Settings(settings_of(request_type).owners, around=settings_of_specs(), around_stays=True)
        reasons = complaints(error, raw if isinstance(raw, Mapping) else {}, settings)
        raise InvalidSpec([SpecError(pointer(one.path), one.sentence) for one in reasons], refused) from error


def check_extension(raw: object, spec: SweepSpec, cache: Path) -> SweepSpec:
    """Return the spec of a sweep with what a request, parsed JSON, adds to it.

    Values that are new to the space may name models and data, which the catalog in `cache` must have; a trainer reads
    them.

    Raises: InvalidSpec, with every reason why it cannot be; its pointers lead into the request. StillReading, if
        reading takes longer than a request waits.
    """
    request = _read(Extension, raw, _NOT_EXTENDED)
    if errors := shrunk(spec, request):
        raise InvalidSpec(errors, _NOT_EXTENDED)
    try:
        more = parse_spec(extended(spec, request), of_before=True)
        if errors := extension_errors(spec, more):
            raise InvalidSpec(errors)
        confirm = request.seeds and request.seeds.confirm
        if confirm and confirm.top_k is not None and (errors := too_many_confirmed(more)):
            raise InvalidSpec(errors)
        if more.space != spec.space and more.trainer is None:
            check_catalog(more, cache)
            _check_new_data(more, spec, cache)
        return more
    except InvalidSpec as error:
        raise InvalidSpec(error.errors, _NOT_EXTENDED) from error


def _check_new_data(more: SweepSpec, before: SweepSpec, cache: Path) -> None:
    try:
        check_data(more, cache, before=before)
    except InvalidSpec as error:
        new = [name for name in more.space.names if more.space.root[name] != before.space.root[name]]
        place = pointer(("space", *new)) if len(new) == 1 else "/space"
        raise InvalidSpec(
            [one if one.pointer.startswith("/space/") else SpecError(place, one.detail) for one in error.errors]
        ) from error


class MeasuredSweep(NamedTuple):
    """A sweep's rows, as far as they say what it could be measured on and what it has been."""

    sweep: Sweep
    configs: Sequence[Config]
    trials: Sequence[Trial]
    best: str | None
    """Id of the best config; None if there is none."""


def check_added(raw: object, measured: MeasuredSweep, cache: Path) -> AddedBenchmarks:
    """Return the benchmarks and trials that a request, parsed JSON, asks for.

    Raises: InvalidSpec, with every reason why they cannot be measured; its pointers lead into the request.
    """
    request = _read(BenchmarksRequest, raw, _NOT_ADDED)
    if measured.sweep.spec.trainer is not None:
        raise InvalidSpec([SpecError("", NO_BENCHMARKS)], _NOT_ADDED)
    trials, errors = _models_to_measure(request.of, measured)
    if not errors and not trials:
        errors = [
            SpecError("/of", f"no trial of {', '.join(request.of)} has SUCCEEDED, so there is no model to measure")
        ]
    benchmarks = request.model_dump(exclude={"of"})
    in_spec = Benchmarks(**benchmarks, of="all")  # as if the spec had named them
    in_spec_errors = named_benchmark_errors(measured.sweep.spec.model_copy(update={"benchmarks": in_spec}), cache)
    errors += [SpecError(error.pointer.removeprefix("/benchmarks"), error.detail) for error in in_spec_errors]
    errors += _measured_otherwise(request, measured.sweep)
    if not errors:
        chosen = {trial.config_id for trial in trials}
        errors = [*_learned(request, [one for one in measured.configs if one.id in chosen], cache)]
    if errors:
        raise InvalidSpec(list(dict.fromkeys(errors)), _NOT_ADDED)
    return AddedBenchmarks(**benchmarks, trials=tuple(trial.id for trial in trials))


def _measured_otherwise(request: BenchmarksRequest, sweep: Sweep) -> Iterator[SpecError]:
    """Yield errors for benchmarks that the sweep measures with other samples: its table has one column for each.

    A request that leaves all settings open takes them as they are.
    """
    if all(value is None for value in request.sampling.values()):
        return
    present = benchmarks_of(sweep, None, 0)
    for name in request.names:
        if name in present and present[name].sampling != request.sampling:
            settings = present[name].sampling.items()
            how = ", ".join(f"{key} {'of the benchmark' if value is None else f'{value:g}'}" for key, value in settings)
            yield SpecError("/names", f"this sweep measures {name} with {how}; ask with the same, or with none")


def _learned(request: BenchmarksRequest, configs: Sequence[Config], cache: Path) -> Iterator[SpecError]:
    """Yield errors for benchmarks with problems that the models were trained or chosen on."""
    tasks: dict[str, Any] = {}
    for config in configs:
        task = TrainingConfig.model_validate(config.training).task
        tasks[task.model_dump_json()] = task
    for name in request.names:
        try:
            shared = max(shared_problems(task, name, cache) for task in tasks.values())
        except ConfigError as error:
            yield SpecError("/names", f"{name} cannot be compared with the data of the training: {error}")
            continue
        if shared:
            yield SpecError(
                "/names",
                f"{name} has {shared} problems of the data that these models were trained or validated on, because the "
                "spec did not name it; a score would measure memory. Name it under benchmarks in a new sweep",
            )


def _models_to_measure(of: Sequence[str], measured: MeasuredSweep) -> tuple[list[Trial], list[SpecError]]:
    """Return the trials whose last models are meant, and an error for each word that names none.

    Args:
        of: words and ids of configs. A config stands for its confirm trials; one that has none, for its tune trials.
    """
    meant, errors = dict[str, None](), list[SpecError]()
    for word in of:
        ids = [config.id for config in measured.configs if word in (EVERY, config.id, *config.roles)]
        if word == BEST and measured.best is not None:
            ids = [measured.best]
        elif word == BEST:
            errors.append(SpecError("/of", "no config of this sweep has a result, so none is best; name other configs"))
        elif not ids:
            roles = dict.fromkeys(role.value for config in measured.configs for role in config.roles)
            words = ", ".join([BEST, *roles, EVERY])
            errors.append(SpecError("/of", f"{word} is no config of this sweep; name {words}, or a config's id"))
        meant |= dict.fromkeys(ids)
    return [trial for config_id in meant for trial in _last_models(config_id, measured.trials)], errors


def _last_models(config_id: str, trials: Sequence[Trial]) -> Iterator[Trial]:
    """Yield a config's trials with a last model, of the confirm stage where it has any."""
    own = [trial for trial in trials if trial.config_id == config_id]
    confirmed = [trial for trial in own if trial.stage == "confirm"]
    yield from (trial for trial in confirmed or own if trial.state == "SUCCEEDED")
