"""A run that waits for another one says so, and so shows whoever watches it that it has not hung."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.integration.trainers.trainer_runs import run, small_config
from tests.waiting import wait_until
from trainers.process.events import read_events
from trainers.process.locks import locked

WAITING = "waiting for another run's initial evaluation"


def phases(output: Path) -> list[str]:
    path = output / "events.jsonl"
    return [event["phase"] for event in read_events(path) if event["type"] == "progress"] if path.exists() else []


def test_a_run_that_waits_for_the_initial_evaluation_of_another_one_says_so(cache: Path, tmp_path: Path) -> None:
    config = small_config(steps=8, evaluation__samples_per_problem=3)  # as no other test has it
    before = set(cache.glob("evaluations/*.json"))
    first = run(config, tmp_path / "first", cache)
    (stored,) = set(cache.glob("evaluations/*.json")) - before
    stored.unlink()
    with ThreadPoolExecutor() as pool:
        with locked(stored.with_suffix(".lock")):  # as a process that evaluates the same
            waiting = pool.submit(run, config, tmp_path / "second", cache)
            wait_until("it waits", lambda: WAITING in phases(tmp_path / "second") or waiting.done())
            assert not waiting.done(), waiting.result()
        second = waiting.result()
    assert WAITING not in phases(tmp_path / "first")
    assert second.metrics() == first.metrics()
