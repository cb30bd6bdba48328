"""What is told of a sweep: the best config with the settings to train it again, the trials to come."""

from pathlib import Path
from typing import Any

from pydantic_core import to_json

from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.records import Stage
from sweep_service.sweep.spec import SweepSpec
from tests.stored_sweeps import finish, run_trial, start

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


def test_sweeps_are_compared_without_the_runs_that_their_reports_call_ruined(store: Store, tmp_path: Path) -> None:
    ids = list[str]()
    for ruins in (0, 1, None):
        sweep, fence = start(store, name=f"sweep-{len(ids)}", seeds={"tune": [0, 1, 2]})
        for trial in store.list_trials(sweep.id):
            run_trial(store, fence, trial)
        finish(store, fence)
        ruined = [trial.id for trial in store.list_trials(sweep.id)][:ruins]
        says = {} if ruins is None else {"ruined": ruined}
        store.put_report(sweep.id, "digest", {"verdict": to_json({"outcome": "UNDECIDED"} | says)})
        ids.append(sweep.id)
    found = SweepService(store, Settings(home=tmp_path)).compare(ids)
    assert found.notes == ["sweep-2 has no report that says which runs were ruined: its values count them."]
    counts = [[(values.n, values.ruined) for values in row.values] for row in found.shared]
    assert counts == [[(3, 0), (2, 1), (3, 0)], *[[(3, 0)] * 3] * (len(counts) - 1)]


def test_a_sweep_of_another_version_is_listed_without_trials_to_come(store: Store, tmp_path: Path) -> None:
    sweep, _ = start(store, seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": [10]}})
    service, spec = SweepService(store, Settings(home=tmp_path)), sweep.spec.model_dump(mode="json")
    other = SweepSpec.model_validate(spec | {"training": spec["training"] | {"of_another_version": 1}})
    sweeps = [sweep, sweep.model_copy(update={"spec": other, "spec_digest": "other"})]
    assert [one.trials_to_come > 0 for one in service.summaries(sweeps)] == [True, False]
