from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayError

from sweep_service.runner.cost_probe import ProbeStage, SweepEnd
from sweep_service.runner.jobs import probe_job
from sweep_service.runner.lease import Lease
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.records import CostProbe, ProbeState, SweepState
from tests import stored_sweeps as sweeps


def test_a_probe_has_the_limits_of_a_trial_and_the_time_that_earlier_ones_left(store: Store) -> None:
    budget: dict[str, Any] = {"max_trial_hours": 2.0, "max_gpu_hours": 1000.0}
    sweep, fence = sweeps.start(
        store, resources={"cpus": 3, "gpus": 0.5}, budget=budget, retries={"hung_after_minutes": 7}
    )
    for held_s in (1800.0, 900.0):
        probe = store.start_probe(fence, "shape", "H100", {}, 0.5)
        store.mark_probe(fence, probe, held_s)
        store.lose_probe(fence, 0.0)
    used = store.spent(sweep.id).probe_gpu_hours
    job = probe_job(sweep, Settings(), probe, sweep.spec.base, used)
    assert job.limit_s == pytest.approx(7200 - 2700)
    assert (job.hung_after_s, job.threads, job.gpus, job.attempt, job.probe) == (420, 3, 0.5, probe.number, True)


def test_a_sweep_ends_by_what_its_probe_has_measured(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, fence = sweeps.start(store, probe="only")
    wishes, lease = Wishes(store, sweep.id), Lease(store, fence)
    stage = ProbeStage(store, Settings(home=tmp_path), fence, lease, wishes, lambda: [{"CPU": 2.0}])

    def failed(_sweep: object, _training: object, shape: str, machines: str) -> CostProbe:
        probe = store.start_probe(fence, shape, machines, {}, 0.0)
        return probe.model_copy(update={"state": ProbeState.FAILED, "message": "out of memory"})

    turns = iter([True])  # a second turn would end the test
    monkeypatch.setattr(stage, "_await_turn", lambda _sweep: next(turns))
    monkeypatch.setattr(stage, "_measure", failed)
    monkeypatch.setattr("sweep_service.runner.cost_probe._machines", lambda: "H100")
    assert stage.run() == SweepEnd(SweepState.FAILED, "the probe failed: out of memory")


def test_what_earlier_probes_took_counts_for_the_next_one_and_for_the_budget(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, fence = sweeps.start(
        store, probe="only", budget={"max_gpu_hours": 1000, "max_trial_hours": 1}, resources={"gpus": 1}
    )
    lost = store.start_probe(fence, "shape", "H100", {}, 1)
    store.mark_probe(fence, lost, 1800.0)
    store.lose_probe(fence, 0.0)
    counted = list[float]()

    def no_job(*given: Any) -> None:
        counted.append(given[-1])
        raise RayError("no head")

    stage = ProbeStage(store, Settings(home=tmp_path), fence, Lease(store, fence), Wishes(store, sweep.id), list)
    monkeypatch.setattr("sweep_service.runner.cost_probe.probe_job", no_job)
    probe = stage._measure(sweep, sweep.spec.base, "shape", "H100")
    assert (probe.state, probe.message) == (ProbeState.CRASHED, "its actor died: no head")
    monkeypatch.setattr("sweep_service.runner.cost_probe.measured", lambda _: "figures")
    monkeypatch.setattr("sweep_service.runner.cost_probe.make_plan", lambda *_: SimpleNamespace(cost="a cost"))
    monkeypatch.setattr(
        "sweep_service.runner.cost_probe.above_budget", lambda *given: counted.append(given[-1]) or "too much"
    )
    assert stage._judge(probe) == SweepEnd(SweepState.FAILED, "too much", sweep.generation)
    assert counted == [0.5, 0.5]


def test_a_probe_that_has_its_node_comes_last_no_more(store: Store, tmp_path: Path) -> None:
    sweep, fence = sweeps.start(store)
    store.wait_in_turn(fence, None, slots=0)  # it has waited for the node
    assert store.shares()[0].lacks_node
    wishes, lease = Wishes(store, sweep.id), Lease(store, fence)
    stage = ProbeStage(store, Settings(home=tmp_path), fence, lease, wishes, lambda: [{"CPU": 2.0}])
    assert stage._await_turn(sweep)
    assert not store.shares()[0].lacks_node
