"""What every store keeps of cost probes."""

from typing import Any

import pytest

from sweep_service.store import Fence, Store
from sweep_service.sweep.records import CostProbe, ProbeState
from tests import stored_sweeps as sweeps
from tests.unit.sweep_service.sweep.test_cost import FIGURES


def begin(store: Store, fence: Fence, shape: str = "shape", machines: str = "H100") -> CostProbe:
    return store.start_probe(fence, shape, machines, {"steps": 3}, 2.0)


def kinds(store: Store, sweep_id: str) -> list[dict[str, Any]]:
    return [event.data | {"type": event.type} for event in store.list_events(sweep_id) if "probe" in event.type]


@pytest.mark.both_databases
def test_a_probe_is_told_from_its_start_to_its_figures(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    assert store.last_probe(sweep.id) is None
    probe = begin(store, fence)
    assert store.last_probe(sweep.id) == probe
    assert (probe.number, probe.state, probe.training) == (1, ProbeState.RUNNING, {"steps": 3})
    store.mark_probe(fence, probe, 5.0, ["sampling"])
    store.mark_probe(fence, probe, 6.0)
    ended = store.finish_probe(fence, probe, ProbeState.SUCCEEDED, 7.0, figures=FIGURES)
    assert store.last_probe(sweep.id) == ended
    assert (ended.held_s, ended.figures) == (7.0, FIGURES)
    assert kinds(store, sweep.id) == [
        {"type": "probe.started", "number": 1},
        {"type": "probe.progress", "number": 1, "phase": "sampling"},
        {"type": "probe.finished", "number": 1, "state": "SUCCEEDED", "message": None},
    ]


def test_only_probes_with_figures_of_the_same_shape_and_machines_are_found(store: Store) -> None:
    _, fence = sweeps.start(store)
    old = store.finish_probe(fence, begin(store, fence), ProbeState.SUCCEEDED, 1.0, figures=FIGURES)
    failed = store.finish_probe(fence, begin(store, fence), ProbeState.FAILED, 1.0, message="out of memory")
    begin(store, fence)
    assert store.find_probe("shape") == store.find_probe("shape", "H100") == old
    assert store.find_probe("shape", "A100") is None
    assert store.find_probe("another") is None
    newer = store.finish_probe(fence, begin(store, fence), ProbeState.SUCCEEDED, 1.0, figures=FIGURES)
    assert store.find_probe("shape") == newer
    assert (failed.number, newer.number) == (2, 4)


@pytest.mark.both_databases
def test_a_probe_whose_runner_ended_is_lost_and_what_it_held_is_spent(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    store.lose_probe(fence, 15.0)  # there is none
    store.mark_probe(fence, begin(store, fence), 1785.0, ["sampling"])
    store.lose_probe(fence, 15.0)
    store.lose_probe(fence, 15.0)
    assert kinds(store, sweep.id)[2:] == [
        {"type": "probe.finished", "number": 1, "state": "LOST", "message": "its runner ended"}
    ]
    probe = begin(store, fence)
    store.mark_probe(fence, probe, 3600.0)
    store.finish_probe(fence, probe, ProbeState.CRASHED, 5400.0, message="its actor died")
    assert store.crashed_probes(sweep.id) == 1
    assert store.spent(sweep.id).probe_gpu_hours == pytest.approx(0.5 * 2 + 1.5 * 2)
    assert store.last_probe(sweep.id).state is ProbeState.CRASHED  # pyright: ignore[reportOptionalMemberAccess]
