"""A sweep that has ended and gets another confirm seed: exactly that is trained, and nothing else changes."""

from collections.abc import Mapping

import pytest

from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import Stage, SweepState, TrialState
from tests.sweep_stack import runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S


def curves(store: Store, fence: Fence) -> list[tuple[str, int, str, str, list[int], list[float | None]]]:
    found = store.curves(fence.sweep_id, ["loss", "entropy/mean", "eval/avg_at_k"])
    return sorted((one.config_id, one.seed, one.stage.value, one.key, one.steps, one.values) for one in found)


@pytest.mark.long
def test_two_more_confirm_seeds_give_what_a_sweep_with_them_from_the_start_has(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    def raw(*seeds: int) -> dict[str, object]:
        return small_sweep("more", seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": list(seeds)}})

    whole = submit_and_claim(store, raw(5, 6, 7))
    with runner(settings, whole, ray) as process:
        assert process.wait(PATIENT_S) == 0
    store.release_lease(whole)
    store.set_sweep_state(whole, SweepState.SUCCEEDED)
    fence = submit_and_claim(store, raw(5))
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)
    before = {trial.id: trial for trial in store.list_trials(fence.sweep_id)}

    more = {"seeds": {"confirm": {"seeds": [5, 6, 7]}}}
    assert SweepService(store, settings).extend(fence.sweep_id, more).state is SweepState.QUEUED
    claimed = store.claim("test", 60)
    assert claimed is not None
    fence = Fence(claimed.id, claimed.epoch)
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0
    assert store.get_sweep(fence.sweep_id).state is SweepState.FINALIZING
    trials = store.list_trials(fence.sweep_id)
    new = [trial for trial in trials if trial.id not in before]
    assert {(trial.stage, trial.seed, trial.state) for trial in new} == {
        (Stage.CONFIRM, seed, TrialState.SUCCEEDED) for seed in (6, 7)
    }
    assert [trial for trial in trials if trial.id in before] == list(before.values())
    assert curves(store, fence) == curves(store, whole)
