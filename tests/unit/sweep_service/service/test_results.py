"""What is told of a sweep: the best config with the settings to train it again, the trials to come."""

from pathlib import Path
from typing import Any

from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.records import Stage
from sweep_service.sweep.spec import SweepSpec
from tests.stored_sweeps import run_trial, start

OWN: dict[str, Any] = {
    "trainer": {"command": ["/opt/trainer"], "steps": 16},
    "training": {},
    "space": {"beta": [0, 1]},
    "baselines": {},
    "seeds": {"tune": [3, 4], "confirm": {"top_k": 1, "seeds": [8]}},
}


def test_the_best_settings_of_a_program_have_a_seed_of_the_stage_that_they_were_measured_on(
    store: Store, tmp_path: Path
) -> None:
    sweep, fence = start(store, **OWN)
    for trial in store.list_trials(sweep.id):
        run_trial(store, fence, trial)
    best = SweepService(store, Settings(home=tmp_path)).best(sweep.id)
    assert (best.stage, best.of_program, best.training["seed"]) == (Stage.TUNE, True, 3)


def test_a_sweep_of_another_version_is_listed_without_trials_to_come(store: Store, tmp_path: Path) -> None:
    sweep, _ = start(store, seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": [10]}})
    service, spec = SweepService(store, Settings(home=tmp_path)), sweep.spec.model_dump(mode="json")
    other = SweepSpec.model_validate(spec | {"training": spec["training"] | {"of_another_version": 1}})
    sweeps = [sweep, sweep.model_copy(update={"spec": other, "spec_digest": "other"})]
    assert [one.trials_to_come > 0 for one in service.summaries(sweeps)] == [True, False]
