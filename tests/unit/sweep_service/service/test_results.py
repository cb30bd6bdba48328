"""The best config of a sweep, with the settings to train it again."""

from pathlib import Path
from typing import Any

from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.records import Stage
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
