"""Checks a search space's points on training: names that it lacks, values that it refuses or reads as other values."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any, Final, cast

from pydantic import ValidationError

from search_spaces.distributions import Categorical, Distribution, Fixed, Float, Scalar
from search_spaces.space import Point, SearchSpace
from search_spaces.strategies import drawing_strategies
from sweep_service.errors import SpecError, pointer
from sweep_service.intake.range_check import WrongRange, wrong_ranges
from sweep_service.intake.several_processes_check import process_refusals
from sweep_service.sweep.baselines import bound_token_ratios
from sweep_service.sweep.points import BoundSpace, setting
from sweep_service.sweep.spec import SweepSpec
from trainers.config import TrainingConfig
from trainers.config.complaints import Complaint, Settings, complaints, settings_of, shortened
from trainers.config.package_settings import params_of, with_package_loss
from trainers.losses import LOSSES

MAX_POINTS: Final = 500
"""Largest number of points that are tried one by one, and so of a grid; each takes a tenth of a millisecond."""
MAX_LISTED: Final = 500
"""Largest number of values that the lists of a space have together; each is tried by itself, too."""
_SPREAD: Final = (math.sqrt(5) - 1) / 2
"""Share of a space between two points that are tried, so that no dimension always has the same value in them."""
_TOLD: Final = 5
"""Values, reasons and points that are named; the others are counted."""


def space_errors(bound: BoundSpace, base: Sequence[Complaint], *, of_before: bool) -> list[SpecError]:
    """Try the space's corner points. A value that fails in all of its points is named, otherwise the points are.

    Args:
        base: complaints about the base settings alone, which are not repeated.
        of_before: true for a stored sweep, which may have been accepted with two names of one value, or with a range of
            which training takes only some values.
    """
    space = bound.space
    if "seed" in space.names:
        return [SpecError("/space/seed", "the seed is not a parameter to choose; list the seeds under /seeds")]
    if mixed := _mixed_losses(space, bound.training):
        return mixed
    told = {(complaint.path, complaint.sentence) for complaint in base}  # two misspelt names may mean one setting

    def refused(params: Point) -> list[Complaint]:
        tried = _tried(bound, params)
        return (
            []
            if isinstance(tried, TrainingConfig)
            else [item for item in tried if (item.path, item.sentence) not in told]
        )

    listed = sum(len(values.choices) for values in space.root.values() if isinstance(values, Categorical))
    if listed > MAX_LISTED:
        remedy = "give ranges ({type: float, low: …, high: …}), or try fewer"
        too_long = SpecError("/space", f"its lists have {listed} values together, more than {MAX_LISTED}; {remedy}")
        return [too_long, *_unknown_names(space, refused(next(space.corners())))]
    if not of_before and (same := _same_values(bound)):
        return same
    points = list(space.corners())
    failing = [(point, reasons) for point in points if (reasons := refused(point))]
    ranges = dict[str, WrongRange]()
    if not base and not of_before:  # what is wrong with the base would be said of each value again
        fixed = {name: values.value for name, values in space.root.items() if isinstance(values, Fixed)}
        anchor = next(at for at in (*points, fixed, {}) if not refused(at))
        ranges = wrong_ranges(space, refused, anchor, points[-1] if anchor in points else anchor)
    with_value = Counter(item for point in points for item in point.items())
    failing_with_value = Counter(item for point, _ in failing for item in point.items())
    always = [item for item, number in failing_with_value.items() if number == with_value[item]]
    alone = {item: reasons for item in always if (reasons := refused(dict([item])))}
    errors = list[SpecError]()
    for name, values in space.root.items():
        if name in ranges:
            errors.append(ranges[name].error)
        else:
            errors += _value_errors(name, values.edges, alone)
    told_alone = {*alone, *((name, value) for name, found in ranges.items() for value in found.refused)}
    together = [_refused_point(point, reasons) for point, reasons in failing if told_alone.isdisjoint(point.items())]
    rest = len(together) - _TOLD
    more = [SpecError("/space", f"and {rest} more of the points at its edges cannot run")] if rest > 0 else []
    return [*errors, *together[:_TOLD], *more]


def point_errors(spec: SweepSpec) -> list[SpecError]:
    """Return the error of the first point that cannot run: of all, or if those are too many, of some, and of corners.

    Values that are right alone may be wrong together. A continuum takes part with its low.
    """
    space = spec.space
    floats = {name: values for name, values in space.root.items() if isinstance(values, Float)}
    lows = {name: Fixed(value=values.low) for name, values in floats.items() if values.size is None}
    finite = SearchSpace({**space.root, **lows})
    size = finite.grid_size()
    number = min(size, MAX_POINTS)
    stride = next(step for step in range(max(1, round(_SPREAD * size)), 2 * size + 2) if math.gcd(step, size) == 1)
    spread = (finite.point(index * stride % size) for index in range(number))
    for point in chain(spread, space.corners() if lows or number < size else ()):
        if error := point_error(spec, point):
            return [error]
    return []


def point_error(spec: SweepSpec, point: Point) -> SpecError | None:
    """Return the error of a point that cannot run; None if it can, or if another program reads its settings."""
    if spec.trainer is not None:
        return None
    tried = _tried(spec.bound, point)
    reasons = process_refusals(spec, tried) if isinstance(tried, TrainingConfig) else tried
    return _refused_point(point, reasons) if reasons else None


def grid_errors(space: SearchSpace) -> list[SpecError]:
    """Return the errors of a space that has no grid, or a larger one than anybody means."""
    continua = [name for name in space.names if space.root[name].size is None]
    if continua:
        remedy = f"a grid needs a step or a list of values here; or set search.strategy to {drawing_strategies('or')}"
        return [SpecError(pointer(("space", name)), remedy) for name in continua]
    if (size := space.grid_size()) > MAX_POINTS:
        number = size if size < 10**12 else "more than a trillion"
        remedy = f"vary fewer values, or use {drawing_strategies('or')}"
        return [SpecError("/space", f"the grid has {number} points, more than {MAX_POINTS}; {remedy}")]
    return []


def _refused_point(point: Point, reasons: Iterable[Complaint | str]) -> SpecError:
    """Return the error of one point."""
    sentences = [reason if isinstance(reason, str) else reason.sentence for reason in islice(reasons, _TOLD)]
    return SpecError("/space", f"the point {shortened(json.dumps(point), 400)} cannot run: {'; '.join(sentences)}")


def _same_values(bound: BoundSpace) -> list[SpecError]:
    """Refuse names of whole values that training reads as one value: a point would have two names."""
    first, errors = next(bound.space.corners()), list[SpecError]()
    for name, distribution in bound.space.root.items():
        read = list[tuple[Scalar, Any]]()
        for choice in choices_beside_whole_values(distribution):
            config = _tried(bound, {**first, name: choice})
            if isinstance(config, TrainingConfig):
                read.append((choice, setting(config, name)))
        errors += one_value_errors(name, read)
    return errors


def choices_beside_whole_values(distribution: Distribution) -> Sequence[Scalar]:
    """Return all choices of a list that has names of whole values among them; none of another distribution."""
    return distribution.choices if isinstance(distribution, Categorical) and distribution.values else ()


def one_value_errors(name: str, read: Iterable[tuple[Scalar, Any]]) -> list[SpecError]:
    """Refuse choices of a parameter that are read as one value."""
    choices_by_value = dict[str, list[str]]()
    for choice, value in read:
        choices_by_value.setdefault(json.dumps(value, sort_keys=True), []).append(str(choice))
    return [
        SpecError(pointer(("space", name)), f"{' and '.join(choices)} are the same value; leave one out")
        for choices in choices_by_value.values()
        if len(choices) > 1
    ]


def _unknown_names(space: SearchSpace, reasons: Sequence[Complaint]) -> list[SpecError]:
    """Return the errors of names that training lacks, from what it says of one point."""
    unknown = [(".".join(map(str, reason.path)), reason.detail) for reason in reasons if reason.unknown]
    return [
        SpecError(pointer(("space", name)), detail)
        for name in space.names
        for path, detail in unknown
        if f"{name}.".startswith(f"{path}.")
    ]


def _value_errors(
    name: str, edges: Iterable[Scalar], alone: Mapping[tuple[str, Scalar], Sequence[Complaint]]
) -> list[SpecError]:
    """Return the errors of one name, each with the values that it is about."""
    values: dict[tuple[str, bool], list[Scalar]] = {}
    for value in edges:
        for reason in alone.get((name, value), ()):
            inside = _beyond(name, reason.path)
            detail = f"{inside}: {reason.detail}" if inside else reason.detail
            values.setdefault((detail, reason.unknown and not inside), []).append(value)
    place = pointer(("space", name))
    errors = [
        SpecError(place, detail if unknown else f"{_listed(refused)}: {detail}")
        for (detail, unknown), refused in values.items()
    ]
    rest = len(errors) - _TOLD
    return [*errors[:_TOLD], *([SpecError(place, f"and {rest} more of its values cannot be used")] if rest > 0 else [])]


def _beyond(name: str, path: Sequence[str | int]) -> str:
    """Return the setting of a complaint, if it is not the name itself but lies inside a whole value, or beside it."""
    place = ".".join(map(str, path))
    return place.removeprefix(f"{name}.") if not f"{name}.".startswith(f"{place}.") and place else ""


def _listed(values: Sequence[Scalar]) -> str:
    text = ", ".join(shortened(repr(value), 60) for value in values[:_TOLD])
    return text + (f" and {len(values) - _TOLD} more" if len(values) > _TOLD else "")


def _mixed_losses(space: SearchSpace, training: Mapping[str, Any]) -> list[SpecError]:
    """Refuse settings that several losses would share, if one of them lacks the setting or reads it differently."""
    if "loss.name" not in space.names:
        return []
    base = training.get("loss")
    settings = cast("Mapping[str, Any]", base) if isinstance(base, Mapping) else {}
    names = [settings.get("name", TrainingConfig().loss.name), *space.root["loss.name"].edges]
    in_order = [name for name in (*LOSSES, *map(str, names)) if name in names]
    losses = {name: settings_of(params).owners for name in in_order if (params := params_of(name)) is not None}
    shared = [*settings, *(name.split(".")[1] for name in space.names if name.startswith("loss."))]
    reasons: list[str] = []
    for name in dict.fromkeys(shared):
        lacking = [loss for loss in losses if name not in losses[loss]]
        if lacking and len(lacking) < len(losses):
            reasons.append(f"{name} is not a setting of {' and '.join(lacking)}")
        elif name.startswith("epsilon") and len(losses) > 1 and not all(map(bound_token_ratios, losses)):
            reasons.append(f"{name} does not mean the same in {' and '.join(losses)}")
    remedy = "leave it out, so that each loss has its own, or give each loss a sweep of its own"
    return [SpecError("/space/loss.name", f"{reason}; {remedy}") for reason in reasons]


def _tried(bound: BoundSpace, params: Point) -> TrainingConfig | list[Complaint]:
    """Return the base configuration with these parameters, or the complaints if training refuses or misreads them."""
    try:
        config = bound.bind(params)
    except ValidationError as error:
        raw = bound.document(params)
        return complaints(error, raw, with_package_loss(settings_of_training(), raw))
    except ValueError as error:
        return [Complaint((), str(error))]
    assert isinstance(config, TrainingConfig), "the values of a program of one's own are its own affair"
    plain = {name: value for name, value in params.items() if bound.space.root[name].whole(value) is value}
    return _misread(config, plain) or config


@cache
def settings_of_training() -> Settings:
    """Return the settings of a spec's training, and those of the spec around it, which somebody may mean."""
    return Settings(settings_of(TrainingConfig).owners, around=settings_of(SweepSpec))


def _misread(config: TrainingConfig, params: Point) -> list[Complaint]:
    """Return the values that training converts, such as text to a number: the sampler would not find its point."""
    misread: list[Complaint] = []
    for name, value in params.items():
        read, group = setting(config, name), name.rpartition(".")[0]
        if (isinstance(value, bool), value) == (isinstance(read, bool), read):
            continue
        has_short_form = group and isinstance(setting(config, group), str)
        remedy = f"vary {group} as a whole" if has_short_form else "write that"
        misread.append(Complaint((), f"{name} {value!r} is read as {read!r}; {remedy}"))
    return misread
