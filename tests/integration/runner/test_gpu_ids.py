"""Trials see the GPUs that Ray gave to them: whole ones are nobody else's, halves share."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from tests.slow_motion import caught
from tests.sweep_stack import SMALL_TRAINING, runner, small_sweep, submit_and_claim
from tests.waiting import wait_until


@pytest.mark.long
def test_trials_of_one_two_and_half_a_gpu(tmp_path: Path, ray: Mapping[str, str]) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    sweeps: dict[float, str] = {}
    with contextlib.closing(store), contextlib.ExitStack() as running:
        for gpus, parallel in ((1, 1), (2, 1), (0.5, 2)):
            resources = {"cpus": 0.25, "gpus": gpus, "max_parallel": parallel}
            training = SMALL_TRAINING | {"device_batch": 4}  # divides what each of two processes has
            raw = small_sweep("gpus", training=training, resources=resources, probe="off")
            fence = submit_and_claim(store, raw)
            sweeps[gpus] = fence.sweep_id
            running.enter_context(runner(settings, fence, ray))
        begun = [trial.id for gpus, id_ in sweeps.items() for trial in store.list_trials(id_)[: 2 if gpus < 1 else 1]]
        caught(store, begun, lambda folder: (folder / "events.jsonl").exists())
        wait_until("all four are known", lambda: sum(len(trainers(store, id_)) for id_ in sweeps.values()) == 4)
        seen = {gpus: [gpus_of(pid) for pid in trainers(store, sweep_id)] for gpus, sweep_id in sweeps.items()}
    (one,), (two,), halves = seen[1], seen[2], seen[0.5]
    assert (len(one), len(two), [len(half) for half in halves]) == (1, 2, [1, 1])
    assert not one & two
    assert not (one | two) & set().union(*halves)
    assert one | two | set().union(*halves) <= {str(number) for number in range(8)}


def trainers(store: Store, sweep_id: str) -> list[int]:
    return [attempt.pid for attempt in store.list_attempts(sweep_id, running_only=True) if attempt.pid]


def gpus_of(pid: int) -> set[str]:
    return set(psutil.Process(pid).environ()["CUDA_VISIBLE_DEVICES"].split(","))
