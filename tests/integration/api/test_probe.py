"""A probe as people see it: over REST, on the command line, on the sweep's page."""

import threading
import time
from collections.abc import Callable

import pytest

from sweep_service.pages.live_sweeps import LiveSweep
from sweep_service.store import Fence, Store
from sweep_service.sweep.cost import costliest, probe_shape
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import CostProbe, ProbeState, SweepState
from sweep_service.sweep.sweep_filter import SweepFilter
from tests.integration.api.conftest import Ran, Served, Sweeps
from tests.integration.api.played_sweep import SPEC, claim, finish
from tests.unit.sweep_service.sweep.test_cost import FIGURES
from tests.waiting import PATIENT_S
from trainers.config import TrainingConfig
from trainers.training.out_of_memory import message


def begin(store: Store, fence: Fence) -> CostProbe:
    spec = store.get_sweep(fence.sweep_id).spec
    training = costliest(spec)
    probe = store.start_probe(fence, probe_shape(training, spec.resources), "CPU", training.model_dump(mode="json"), 0)
    store.mark_probe(fence, probe, 1.0, ["sampling"])
    return probe


def measured(store: Store, fence: Fence) -> None:
    """Do what a runner and a worker do where it goes well."""
    store.finish_probe(fence, begin(store, fence), ProbeState.SUCCEEDED, 2.0, figures=FIGURES)
    store.end_waiting(fence, Ending.CANCELLED)
    finish(store, fence)


def out_of_memory(store: Store, fence: Fence) -> None:
    told = message("update", TrainingConfig(), "CUDA out of memory")
    store.finish_probe(fence, begin(store, fence), ProbeState.FAILED, 2.0, message=told)
    finish(store, fence, SweepState.FAILED)


def probed(served: Served, sweeps: Sweeps, play: Callable[[Store, Fence], None], *arguments: str) -> Ran:
    """Run the command line while another thread plays the runner of the sweep that it submits."""

    def runner() -> None:
        while not (waiting := served.store.list_sweeps(1, only=SweepFilter(states=(SweepState.QUEUED,)))):
            time.sleep(0.05)
        play(served.store, claim(served.store, waiting[0].id))

    thread = threading.Thread(target=runner, daemon=True)
    thread.start()
    ran = sweeps(*arguments)
    thread.join(PATIENT_S)
    return ran


def test_the_command_prints_what_was_measured_and_the_plan_goes_by_it(
    served: Served, sweeps: Sweeps, spec: str
) -> None:
    code, out, err = probed(served, sweeps, measured, "probe", "--timeout", "60", spec)
    assert (code, "probing played" in err) == (0, True)
    assert "on NVIDIA H100: 3 updates at full length" in out
    sampling = next(line for line in out.splitlines() if line.startswith("sampling"))
    assert sampling.split()[-3:] == ["960", "29.3", "GiB"]  # tokens a second, memory
    assert "58.6 GiB of 79.6 GiB at most (update), NVIDIA H100" in out
    (sweep,) = served.store.list_sweeps(9)
    assert (sweep.spec.probe, sweep.state) == ("only", SweepState.SUCCEEDED)
    plan = served.service.plan(SPEC)
    assert plan.basis.startswith("probe of ")
    assert plan.cost is not None
    answer = served.http.get(f"/v1/sweeps/{sweep.id}/probe")
    assert (answer.status_code, answer.json()["state"]) == (200, "SUCCEEDED")
    assert answer.json()["cost"]["trial_hours"] == pytest.approx(plan.cost.trial_hours)


def test_memory_that_ends_is_told_with_what_helps(served: Served, sweeps: Sweeps, spec: str) -> None:
    code, out, err = probed(served, sweeps, out_of_memory, "probe", spec)
    assert (code, out) == (1, "")
    assert "OUT OF MEMORY in an update; what helps:" in err
    assert "  - a smaller device_batch (now 64)\n" in err


def test_a_sweep_without_a_probe_says_so(served: Served) -> None:
    sweep_id = served.submit()
    answer = served.http.get(f"/v1/sweeps/{sweep_id}/probe")
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_READY")
    assert "asks for none (probe: off)" in answer.json()["detail"]


def test_a_page_and_its_watchers_see_what_the_probe_does(served: Served) -> None:
    sweep_id = served.submit(probe="first")
    fence = claim(served.store, sweep_id)
    probe = begin(served.store, fence)
    assert "the probe of the cost: sampling" in LiveSweep(served.service, sweep_id).page()
    served.store.finish_probe(fence, probe, ProbeState.SUCCEEDED, 2.0, figures=FIGURES)
    assert "no trial runs at this moment" in LiveSweep(served.service, sweep_id).page()
