"""What a sweep may be given more of after it was submitted: its settings, and the spec that follows. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import Field

from sweep_service.errors import SpecError
from sweep_service.sweep.spec import Seed, SpecPart, SweepSpec

REFUSED: Final = "the sweep cannot be extended"
"""The head of all reasons why a request is refused."""
_Seeds = tuple[Seed, ...]


class MoreConfirm(SpecPart):
    """More to confirm."""

    seeds: _Seeds | None = Field(default=None, min_length=1, max_length=1000)
    top_k: int | None = Field(default=None, ge=1, le=100)


class MoreSeeds(SpecPart):
    """All seeds that the sweep shall have, those of before among them."""

    tune: _Seeds | None = Field(default=None, min_length=1, max_length=1000)
    confirm: MoreConfirm | None = None


class NewBudget(SpecPart):
    """New limits; null lifts one."""

    max_gpu_hours: float | None = Field(default=None, gt=0, le=1e9)
    max_trial_hours: float | None = Field(default=None, ge=0.001, le=100_000)
    max_wait_hours: float | None = Field(default=None, ge=0, le=100_000)


class NewParallel(SpecPart):
    """A new number of trials at a time; null for as many as fit. Trials that run go on."""

    max_parallel: int | None = Field(default=None, ge=1, le=10_000)


class NewRetries(SpecPart):
    """New numbers of crashes that are forgiven, and of failed trials after which a sweep without results ends."""

    max_crashes: int = Field(default=3, ge=0, le=100)
    max_failed_trials: int | None = Field(default=10, ge=1, le=100_000)


class Extension(SpecPart):
    """What a user gives a submitted sweep: values that its spec shall have. What is left out stays."""

    seeds: MoreSeeds | None = None
    budget: NewBudget | None = None
    resources: NewParallel | None = None
    retries: NewRetries | None = None


def extended(spec: SweepSpec, extension: Extension) -> dict[str, Any]:
    """Return the document of a spec with an extension; seeds of before stay first."""
    document = spec.model_dump(mode="json")
    _merge(document, extension.model_dump(mode="json", exclude_unset=True))
    seeds, before = document["seeds"], spec.seeds
    seeds["tune"] = _in_order(before.tune, seeds["tune"])
    if before.confirm and seeds["confirm"]:
        seeds["confirm"]["seeds"] = _in_order(before.confirm.seeds, seeds["confirm"]["seeds"])
    return document


def shrunk(spec: SweepSpec, extension: Extension) -> list[SpecError]:
    """Return what an extension would take from a sweep: seeds on which it has trained, and configs it has confirmed."""
    errors = list[SpecError]()
    seeds = extension.seeds or MoreSeeds()
    confirm, before = seeds.confirm or MoreConfirm(), spec.seeds.confirm
    lists = [("/seeds/tune", seeds.tune, spec.seeds.tune)]
    if before is not None:
        lists.append(("/seeds/confirm/seeds", confirm.seeds, before.seeds))
    for place, wanted, present in lists:
        if wanted is not None and (missing := [seed for seed in present if seed not in wanted]):
            errors.append(SpecError(place, f"{list(wanted)} lacks {missing} of before; give these, too"))
    if before is not None and confirm.top_k is not None and confirm.top_k < before.top_k:
        errors.append(SpecError("/seeds/confirm/top_k", f"{confirm.top_k} is less than {before.top_k}, as it was"))
    return errors


def _merge(document: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping):
            document[name] = document.get(name) or {}
            _merge(document[name], cast("Mapping[str, Any]", value))
        else:
            document[name] = value


def _in_order(before: Sequence[int], wanted: Sequence[int]) -> list[int]:
    return [*before, *(seed for seed in wanted if seed not in before)]
