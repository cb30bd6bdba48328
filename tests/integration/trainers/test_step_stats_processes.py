"""Two processes that each see a part of a step get the metrics that one process gets of all of it."""

import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fork_server import forked
from tests.integration.trainers.step_stats_process import LEARNING_RATE, SHARES, groups, step
from tests.unit.trainers.record.step_batches import rows_of
from tests.waiting import PATIENT_S
from trainers.record.rollout_stats import rollout_stats
from trainers.record.step_stats import StepStats

ONE_PROCESS = SimpleNamespace(num_processes=1)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


@pytest.fixture(scope="module")
def results(forks: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the processes says."""
    folder, size = tmp_path_factory.mktemp("processes"), len(SHARES)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}
    module = "tests.integration.trainers.step_stats_process"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(folder)],
            env={**forked(forks, module), **address, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        errors = [process.communicate(timeout=PATIENT_S)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * size, "\n".join(errors)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]


def assert_close(found: dict[str, float | None], expected: dict[str, float | None]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == (None if value is None else pytest.approx(value, rel=1e-12, abs=1e-15)), name


def test_both_processes_say_the_same(results: list[dict[str, Any]]) -> None:
    assert results[0] == results[1]


def test_a_step_is_that_of_one_process_with_all_tokens(results: list[dict[str, Any]]) -> None:
    stats = StepStats()
    step().add_to(stats)
    expected = stats.reduced(ONE_PROCESS, LEARNING_RATE)
    assert None not in expected.values()
    assert_close(results[0]["step"], expected)


def test_a_rollout_is_that_of_one_process_with_all_groups(results: list[dict[str, Any]]) -> None:
    assert_close(results[0]["rollout"], rollout_stats(groups(), 2 * len(groups()), ONE_PROCESS))


def test_a_process_alone_would_say_something_else(results: list[dict[str, Any]]) -> None:
    stats = StepStats()
    rows_of(step(), *SHARES[1][0]).add_to(stats)
    alone = stats.reduced(ONE_PROCESS, LEARNING_RATE)
    for name in ("entropy", "entropy/p90", "tokens/step", "weight_share/inside"):
        assert alone[name] != pytest.approx(results[0]["step"][name], rel=1e-3), name
