"""Extensions of a submitted sweep: the request, and the spec that follows from it. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar, cast

from pydantic import BeforeValidator, Field

from search_spaces.distributions import Categorical, Distribution
from search_spaces.space import SearchSpace
from sweep_service.errors import SpecError, pointer
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.plan import most_points, tries_all_points
from sweep_service.sweep.records import Event, Stage, Sweep, SweepState
from sweep_service.sweep.spec import Budget, Seed, SweepSpec
from trainers.config import Frozen
from trainers.config.complaints import shortened

Value = TypeVar("Value")
_ELSE: Final = "submit a new sweep, and join both with `sweeps compare`"
_DRAWING: Final = ("space", "search", "seeds", "budget.max_gpu_hours", "budget.max_trial_hours")
"""Settings of a spec that decide which results are drawn."""
COMPARED: Final = "sweep.confirm_results_compared"
"""Type of the event that a report has compared confirm results."""
CHOICES: Final = ("sweep.extended", "sweep.trials_retried", "trial.stop_requested", "sweep.cancel_requested")
"""Types of the events after which results are others than those that were planned."""
LOOK_EVENTS: Final = (COMPARED, *CHOICES, "trials.added", "sweep.state_changed")
"""Types of the events that tell the number of looks."""


def _given(value: object) -> object:
    """Refuse null where it would take something from a sweep."""
    if value is None:
        raise ValueError("null is no value here; leave it out, and what the sweep has stays")
    return value


Given = Annotated[Value | None, BeforeValidator(_given)]
"""A value that may be left out, and is None then; but nobody may give null for it."""
_Seeds = Given[Annotated[tuple[Seed, ...], Field(min_length=1, max_length=1000)]]


class MoreConfigs(Frozen):
    """More configs of a search that draws its points."""

    num_configs: Given[Annotated[int, Field(ge=1, le=10_000)]] = Field(
        default=None, description="Number of configs to try, the earlier ones included."
    )


class MoreConfirm(Frozen):
    """More to confirm."""

    seeds: _Seeds = None
    top_k: Given[Annotated[int, Field(ge=1, le=100)]] = None


class MoreSeeds(Frozen):
    """All seeds that the sweep shall have, those of before among them."""

    tune: _Seeds = None
    confirm: Given[MoreConfirm] = None


class NewBudget(Budget):
    """New limits; null lifts one."""


class NewParallel(Frozen):
    """A new number of trials at a time; null for as many as fit. Trials that run go on."""

    max_parallel: int | None = Field(default=None, ge=1, le=10_000)


class NewRetries(Frozen):
    """New numbers of crashes that are forgiven, and of failed trials after which a sweep without results ends."""

    max_crashes: int = Field(default=3, ge=0, le=100)
    max_failed_trials: int | None = Field(default=10, ge=1, le=100_000)


class Extension(Frozen):
    """Values that the spec of a submitted sweep shall have, as its user asks. What is left out stays.

    Null lifts a limit, and is refused for all else.
    """

    space: Given[SearchSpace] = Field(
        default=None, description="For a grid: all values of a parameter of the space, those of before among them."
    )
    search: Given[MoreConfigs] = None
    seeds: Given[MoreSeeds] = None
    budget: Given[NewBudget] = None
    resources: Given[NewParallel] = None
    retries: Given[NewRetries] = None

    @property
    def document(self) -> dict[str, Any]:
        """The request as values of JSON; what is left out stays so, for null lifts a limit."""
        document = self.model_dump(mode="json", exclude_unset=True, exclude={"space"})
        return document | ({"space": self.space.model_dump(mode="json")} if self.space else {})


def extended(spec: SweepSpec, extension: Extension) -> dict[str, Any]:
    """Return the document of a spec with an extension that takes nothing from it; seeds of before stay first."""
    document = spec.model_dump(mode="json")
    _merge(document, {name: part for name, part in extension.document.items() if name != "space"})
    for name, wanted in _space_of(extension, spec).items():
        if wanted.size != spec.space.root[name].size:  # of as many values all are those of before, in whatever order
            document["space"][name] = wanted.model_dump(mode="json")
    seeds, before = document["seeds"], spec.seeds
    seeds["tune"] = _in_order(before.tune, seeds["tune"])
    if before.confirm and seeds["confirm"]:
        seeds["confirm"]["seeds"] = _in_order(before.confirm.seeds, seeds["confirm"]["seeds"])
    return document


def shrunk(spec: SweepSpec, extension: Extension) -> list[SpecError]:
    """Return the errors of an extension that would take configs, seeds or confirmed configs from a sweep."""
    errors = [*_lost_configs(spec, extension), *_lost_values(spec, extension)]
    seeds = extension.seeds or MoreSeeds()
    confirm, before = seeds.confirm or MoreConfirm(), spec.seeds.confirm
    lists = [("/seeds/tune", seeds.tune, spec.seeds.tune)]
    if before is not None:
        lists.append(("/seeds/confirm/seeds", confirm.seeds, before.seeds))
    for place, wanted, present in lists:
        if wanted is not None and (missing := [seed for seed in present if seed not in wanted]):
            errors.append(SpecError(place, f"{list(wanted)} lacks {missing} of before; give these, too"))
    if before is not None and confirm.top_k is not None:
        least = min(before.top_k, most_points(spec))  # a sweep may have been stored with more than it can confirm
        if confirm.top_k < least:
            errors.append(SpecError("/seeds/confirm/top_k", f"{confirm.top_k} is less than {least}, as it was"))
    return errors


def _lost_configs(spec: SweepSpec, extension: Extension) -> Iterator[SpecError]:
    """Yield why a search cannot have the number of configs that an extension wants."""
    wanted, before = extension.search and extension.search.num_configs, spec.search.num_configs
    if wanted is None:
        return
    if before is None:
        remedy = "give a parameter of the space more values, such as --values loss.beta1=0.75"
        yield SpecError("/search/num_configs", f"{wanted}: a grid tries every point of its space; {remedy}")
    elif wanted < before:
        yield SpecError("/search/num_configs", f"{wanted} is less than {before}, as it was")
    elif tries_all_points(spec) and wanted > before:
        why = f"the sweep tries all {spec.space.size} points of its space"
        yield SpecError("/search/num_configs", f"{wanted}: {why}; for a larger space {_ELSE}")


def _lost_values(spec: SweepSpec, extension: Extension) -> Iterator[SpecError]:
    """Yield why parameters cannot have the values that an extension wants, each with its place."""
    for name, wanted in _space_of(extension, spec).items():
        before, place = spec.space.root.get(name), pointer(("space", name))
        if before is None:
            names = ", ".join(spec.space.names)
            meant = next((full for full in spec.space.names if full.rpartition(".")[2] == name), None)
            why = f"it is not in the sweep's space ({names}), whose configs do not say which value of it they have"
            remedy = _ELSE if meant is None else f"did you mean {meant}?"
            yield SpecError(place, f"{why}; {remedy}")
        elif not spec.search.is_grid:
            if wanted != before:
                why = f"strategy {spec.search.strategy} has drawn its configs from the space of before, and would from"
                remedy = f"leave it out for more configs of the same space, or {_ELSE}"
                yield SpecError(place, f"{why} another one draw others; {remedy}")
        elif missing := [value for value in map(before.at, range(before.size or 0)) if not wanted.contains(value)]:
            written = wanted.model_dump(mode="json", exclude_unset=True)  # a list, or a range with its settings
            shown = written.get("choices", [written["value"]] if "value" in written else written)
            lacking, listed = (shortened(json.dumps(some), 200) for some in (missing, shown))
            yield SpecError(place, f"{listed} lacks {lacking} of before; give these, too")
        elif changed := _changed_values(before, wanted):
            yield SpecError(
                place, f"{', '.join(changed)} stood for another value before; give the new value a new name"
            )


def _space_of(extension: Extension, spec: SweepSpec) -> Mapping[str, Distribution]:
    """Return the wanted values; names of whole values that the sweep knows need not be explained again."""
    wanted = dict(extension.space.root if extension.space else {})
    for name, distribution in wanted.items():
        before = spec.space.root.get(name)
        if isinstance(before, Categorical) and isinstance(distribution, Categorical) and before.values:
            values = {choice: value for choice, value in before.values.items() if choice in distribution.choices}
            wanted[name] = distribution.model_copy(update={"values": values | distribution.values})
    return wanted


def _changed_values(before: Distribution, wanted: Distribution) -> list[str]:
    """Return the names that would stand for another value than before."""
    if not isinstance(before, Categorical) or not isinstance(wanted, Categorical):
        return []
    return [str(choice) for choice in before.choices if wanted.whole(choice) != before.whole(choice)]


def reopened_endings(sweep: Sweep, extended_spec: SweepSpec) -> set[Ending]:
    """Return the endings of trials and evaluations that wait again once a sweep has another spec.

    These are what the failure of the sweep has cancelled, and what did not fit a budget that is larger now.
    """
    before, after = sweep.spec.budget.max_gpu_hours, extended_spec.budget.max_gpu_hours
    is_larger = before is not None and (after is None or after > before)
    of_failure = {Ending.CANCELLED} if sweep.state is SweepState.FAILED else set[Ending]()
    return of_failure | ({Ending.OVER_BUDGET} if is_larger else set())


def draws_more(before: SweepSpec, after: SweepSpec) -> list[str]:
    """Return the settings by which an extension has other results drawn than the sweep would have had without it.

    These are the space, the number of configs, seeds of either stage, `top_k`, and hours of training. A limit of
    crashes, of waiting or of trials at a time only says how they are run.
    """
    return [name for name in _DRAWING if attrgetter(name)(before) != attrgetter(name)(after)]


def looks(events: Iterable[Event]) -> int:
    """Return the number of looks at a sweep's question, from its events of `LOOK_EVENTS` in order.

    It is one, and one more for each time that results were drawn, or left out, by somebody who could know how confirm
    results compare. Known is what a report has compared, interim or final; several such choices before the next
    comparison are one look. These choices count:

    - an extension by confirm or tune seeds, by values, configs or `top_k`: there are more results to choose from;
    - other GPU-hours or hours of a trial: they decide what still trains;
    - the going on of a sweep that has failed, with trials that had been given up;
    - trials that are tried again: their results are drawn once more;
    - a trial that is stopped, and a sweep that is cancelled: what they would have shown stays out.

    No look are an extension before the first comparison (also one by the confirm stage itself), other limits
    (`resources`, `retries`, `budget.max_wait_hours`), a pause, and more benchmarks or evaluations that are tried again,
    which choose nothing.
    """
    number, confirms, known = 1, False, False
    for event in events:
        confirms |= event.type == "trials.added" and Stage.CONFIRM in event.data["stages"]
        ended = event.type == "sweep.state_changed" and event.data["state"] == SweepState.SUCCEEDED
        if event.type == COMPARED or (ended and confirms):  # older sweeps have no event of their reports
            known = True
        elif known and _chooses(event):
            number, known = number + 1, False
    return number


def _chooses(event: Event) -> bool:
    """Return True if an event tells of a choice of which results a sweep gets."""
    if event.type == "sweep.extended":
        changed = event.data.get("draws_more")
        older = event.data.get("changes", {}).keys() & {"space", "search", "seeds", "budget"}
        return bool(older if changed is None else changed)
    if event.type == "sweep.trials_retried":
        return not all(id_.startswith("evl_") for id_ in event.data.get("trials", ()))
    return event.type in ("trial.stop_requested", "sweep.cancel_requested")


def _merge(document: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping):
            document[name] = document.get(name) or {}
            _merge(document[name], cast("Mapping[str, Any]", value))
        else:
            document[name] = value


def _in_order(before: Sequence[int], wanted: Sequence[int]) -> list[int]:
    return [*before, *(seed for seed in wanted if seed not in before)]
