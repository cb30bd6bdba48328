"""A sweep that has ended and is given more: exactly that is trained, and nothing else changes."""

from collections.abc import Mapping
from typing import Any

import pytest

from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.objective import objective_metrics, trial_objectives
from sweep_service.sweep.records import Role, Stage, SweepState, TrialState
from tests.sweep_stack import runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S


def run(store: Store, settings: Settings, fence: Fence, ray: Mapping[str, str]) -> None:
    """Run a sweep to its end."""
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0
    assert store.get_sweep(fence.sweep_id).state is SweepState.FINALIZING
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)


def extend_and_run(
    store: Store, settings: Settings, fence: Fence, ray: Mapping[str, str], extension: dict[str, Any]
) -> None:
    """Extend a sweep that has ended, and run it to its end."""
    assert SweepService(store, settings).extend(fence.sweep_id, extension).state is SweepState.QUEUED
    claimed = store.claim("test", 60)
    assert claimed is not None
    run(store, settings, Fence(claimed.id, claimed.epoch), ray)


def curves(store: Store, fence: Fence) -> list[tuple[str, int, str, str, list[int], list[float | None]]]:
    found = store.curves(fence.sweep_id, ["loss", "entropy/mean", "eval/avg_at_k"])
    return sorted((one.config_id, one.seed, one.stage.value, one.key, one.steps, one.values) for one in found)


def objectives(store: Store, fence: Fence) -> dict[tuple[str, int, Stage], float | None]:
    """Return what each trial counts, by config, seed and stage."""
    sweep, trials = store.get_sweep(fence.sweep_id), store.list_trials(fence.sweep_id)
    values = trial_objectives(trials, store.curves(sweep.id, objective_metrics(sweep.spec)), sweep.spec)
    return {(trial.config_id, trial.seed, trial.stage): values[trial.id] for trial in trials}


def points(store: Store, fence: Fence) -> set[tuple[str, frozenset[Role]]]:
    """Return the configs that are tuned, with their roles before any is confirmed."""
    configs = store.list_configs(fence.sweep_id)
    return {(config.id, frozenset(config.roles) - {Role.MATCHED}) for config in configs if config.roles != ("matched",)}


@pytest.mark.long
def test_a_confirm_stage_that_is_added_and_then_has_more_seeds_gives_what_a_sweep_with_all_from_the_start_has(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    space = {"loss.beta1": [0.5], "optimizer.learning_rate": [1e-5, 2e-5]}  # so that baselines are matched
    whole_seeds = {"tune": [0], "confirm": {"top_k": 1, "seeds": [5, 6]}}
    whole = submit_and_claim(store, small_sweep("more", space=space, seeds=whole_seeds))
    run(store, settings, whole, ray)
    fence = submit_and_claim(store, small_sweep("more", space=space, seeds={"tune": [0]}))
    run(store, settings, fence, ray)
    for seeds in ([5], [5, 6]):
        before = {trial.id: trial for trial in store.list_trials(fence.sweep_id)}
        extend_and_run(store, settings, fence, ray, {"seeds": {"confirm": {"top_k": 1, "seeds": seeds}}})
        trials = store.list_trials(fence.sweep_id)
        new = [trial for trial in trials if trial.id not in before]
        assert {(trial.stage, trial.seed, trial.state) for trial in new} == {
            (Stage.CONFIRM, seeds[-1], TrialState.SUCCEEDED)
        }
        assert [trial for trial in trials if trial.id in before] == list(before.values())
    assert curves(store, fence) == curves(store, whole)
    assert objectives(store, fence) == objectives(store, whole)
    assert any("matched" in config.roles for config in store.list_configs(fence.sweep_id))


_DRAWN: dict[str, Any] = {"space": {"loss.beta1": {"type": "float", "low": 0, "high": 1}, "loss.beta2": 0}}
_RANDOM: dict[str, Any] = {"strategy": "random", "num_configs": 1, "seed": 4}
MORE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a grid": (
        {"space": {"loss.beta1": [0.5], "loss.beta2": 0}},
        {"space": {"loss.beta1": [0, 0.5], "loss.beta2": [0, 1]}},
    ),
    "random": (_DRAWN | {"search": _RANDOM}, _DRAWN | {"search": _RANDOM | {"num_configs": 3}}),
}
"""What a sweep has at first, and what the larger one has."""


@pytest.mark.long
@pytest.mark.parametrize("changes", MORE.values(), ids=MORE)
def test_more_configs_give_what_a_sweep_with_them_from_the_start_has(
    settings: Settings, store: Store, ray: Mapping[str, str], changes: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    stages = {"seeds": {"tune": [0], "confirm": {"top_k": 1, "seeds": [5]}}}
    small, large = (small_sweep("more", **stages, **one) for one in changes)
    whole = submit_and_claim(store, large)
    run(store, settings, whole, ray)
    fence = submit_and_claim(store, small)
    run(store, settings, fence, ray)
    before = store.list_trials(fence.sweep_id)
    more = {"search": {"num_configs": 3}} if "search" in small else {"space": large["space"]}
    extend_and_run(store, settings, fence, ray, more)
    trials = store.list_trials(fence.sweep_id)
    assert trials[: len(before)] == before
    assert {trial.state for trial in trials} == {TrialState.SUCCEEDED}
    assert points(store, fence) == points(store, whole)
    extended, at_once = objectives(store, fence), objectives(store, whole)
    assert len(extended) == len(trials)
    tuned, tuned_at_once = ({key: one[key] for key in one if key[2] is Stage.TUNE} for one in (extended, at_once))
    assert tuned == tuned_at_once
    shared = extended.keys() & at_once.keys()  # of equally good configs the first one is confirmed
    assert {key: extended[key] for key in shared} == {key: at_once[key] for key in shared}
    confirmed = [
        {tuned[config_id, 0, Stage.TUNE] for config_id, _, stage in one if stage is Stage.CONFIRM}
        for one in (extended, at_once)
    ]
    assert confirmed[0] >= confirmed[1]
