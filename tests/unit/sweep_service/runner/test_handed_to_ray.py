"""The arguments that a runner hands to Ray and to Tune, written down and compared."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune import TuneConfig

from sweep_service.runner import cost_probe, driver
from sweep_service.runner.cost_probe import ProbeActor, ProbeStage
from sweep_service.runner.driver import actor_class
from sweep_service.runner.lease import Lease
from sweep_service.runner.searcher import StoreCallback, StoreSearcher, WishScheduler
from sweep_service.runner.trainer_process import Job
from sweep_service.runner.trial_actor import TrialActor
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Store
from tests.stored_sweeps import start
from tests.unit.sweep_service.runner.jobs import JOB


@pytest.mark.parametrize(
    ("gpus", "bundle"), [(0, {"CPU": 2.5}), (0.5, {"CPU": 2.5, "GPU": 0.5}), (2, {"CPU": 2.5, "GPU": 2.0})]
)
def test_an_actor_asks_for_the_cpus_and_gpus_of_its_job(gpus: float, bundle: dict[str, float]) -> None:
    job = JOB.model_copy(update={"cpus": 2.5, "gpus": gpus})
    asked = actor_class("trial-swp-1").default_resource_request({"job": job.model_dump_json()})
    assert asked is not None
    assert asked.bundles == [bundle]


@pytest.mark.parametrize("gpus", [0, 2])
def test_tune_gets_the_sweeps_hooks_and_keeps_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int
) -> None:
    given, fits = dict[str, Any](), list[bool]()

    def tuner(actor: type, **options: Any) -> Any:
        given.update(options, actor=actor)
        return SimpleNamespace(fit=lambda: fits.append((tmp_path / "storage" / sweep.id / "ray").exists()))

    sweep, fence = start(store, resources={"gpus": gpus, "cpus": 2}, training={"steps": 16, "device_batch": 32})
    ledger: Any = object()
    lease, wishes, settings = Lease(store, fence), Wishes(store, sweep.id), Settings(home=tmp_path)
    monkeypatch.setattr(driver.tune, "Tuner", tuner)
    driver._run_tune(sweep, fence, settings, ledger, lease, wishes)
    assert fits == [False]
    assert (given["actor"].__name__, given["actor"].__mro__[1]) == (f"trial-{sweep.id}-{fence.epoch}", TrialActor)
    tuned: TuneConfig = given["tune_config"]
    searcher, scheduler = tuned.search_alg, tuned.scheduler
    assert isinstance(searcher, StoreSearcher)
    assert isinstance(scheduler, WishScheduler)
    assert (searcher._ledger, searcher._beat) == (ledger, lease.beat)
    assert (scheduler._ledger, scheduler._wishes) == (ledger, wishes)
    assert (tuned.num_samples, tuned.reuse_actors) == (-1, gpus == 0)  # a GPU's memory is free only after its process
    named = SimpleNamespace(trial_id="a name")
    assert tuned.trial_name_creator is tuned.trial_dirname_creator
    assert tuned.trial_name_creator is not None
    assert tuned.trial_name_creator(named) == "a name"  # pyright: ignore[reportArgumentType]
    run = given["run_config"]
    (callback,) = run.callbacks
    assert isinstance(callback, StoreCallback)
    assert (callback._ledger, callback._beat) == (ledger, lease.beat)
    assert (run.name, run.storage_path) == (f"epoch-{fence.epoch}", str(tmp_path / "storage" / sweep.id / "ray"))
    assert (run.failure_config.max_failures, run.checkpoint_config.checkpoint_at_end, run.verbose) == (0, False, 0)


def test_a_probes_actor_asks_for_what_a_trial_gets(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Any]()

    class Refused(Exception):
        pass

    def remote(**resources: Any) -> Any:
        def start_actor(config: dict[str, Any]) -> Any:
            asked.append(Job.model_validate_json(config["job"]))
            raise Refused

        asked.append(resources)
        return lambda actor: asked.append(actor) or SimpleNamespace(remote=start_actor)

    training = {"steps": 16, "device_batch": 16}
    sweep, fence = start(store, resources={"gpus": 4, "cpus": 3}, training=training, probe="first")
    monkeypatch.setattr(cost_probe.ray, "remote", remote)
    wishes, lease, settings = Wishes(store, sweep.id), Lease(store, fence), Settings(home=tmp_path)
    stage = ProbeStage(store, settings, fence, lease, wishes, list)
    with pytest.raises(Refused):
        stage._measure(sweep, sweep.spec.base, "shape", "H100")
    resources, actor, job = asked
    assert (resources, actor) == ({"num_cpus": 3, "num_gpus": 4}, ProbeActor)
    assert (job.gpus, job.threads, job.processes, job.probe, job.resume_from) == (4, 3, 4, True, None)
    assert job.directory == str(settings.storage / sweep.id / "probe" / "1")
    kept = store.last_probe(sweep.id)
    assert kept is not None
    assert (kept.shape, kept.machines, kept.gpus) == ("shape", "H100", 4)
    assert kept.training == job.config == sweep.spec.base.model_dump(mode="json")
