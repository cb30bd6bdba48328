"""Sweeps that fit no node keep no other from running, however many they are."""

import pytest

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState
from sweep_service.worker.work_loop import MAX_RUNNERS
from tests.sweep_stack import serving, small_sweep
from tests.waiting import PATIENT_S

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


def test_sweeps_that_wait_for_a_node_leave_their_runners_to_others(settings: Settings) -> None:
    with serving(settings), Client(settings.url, read_token(settings.token_file)) as client:
        many = [client.submit(small_sweep(f"large-{n}", resources={"cpus": 512})) for n in range(MAX_RUNNERS + 1)]
        small = client.submit(small_sweep("small"))
        assert client.wait(small.id, PATIENT_S).state is SweepState.SUCCEEDED
        waiting = [client.get(one.id) for one in many]
        assert {one.state for one in waiting} <= {SweepState.QUEUED, SweepState.RUNNING}
        assert any("512 CPUs" in (one.message or "") for one in waiting)
        for one in many:
            client.cancel(one.id)
        assert {client.wait(one.id, PATIENT_S).state for one in many} == {SweepState.CANCELLED}
