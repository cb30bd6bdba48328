"""Two trainer processes of one policy: whatever is killed, nothing is left, and the outcome is the right one."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from sweep_service.runner.trainer_launch import Running, spawned
from sweep_service.runner.trainer_process import Job, Start, Trainer
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.worker.reports.contents import build_report
from tests.integration.trainers.trainer_runs import SMALL, run_so_far
from tests.sweep_stack import SMALL_TRAINING, alive, program_below, ray_head, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S, wait_until
from trainers.config import TrainingConfig, with_params

pytestmark = pytest.mark.long

Trained = tuple[Trainer, list[psutil.Process]]
Trains = Callable[[Job], AbstractContextManager[Trained]]

TWO = TrainingConfig.model_validate(with_params(SMALL, {"device_batch": 8, "model.warm_start_steps": 20}))


def job(folder: Path, cache: Path, **changes: Any) -> Job:
    return Job(
        trial_id="t",
        attempt=1,
        directory=str(folder),
        config=TWO.model_dump(mode="json") | changes,
        threads=2,
        gpus=0,
        processes=2,
        resume_from=None,
        cache=str(cache),
    )


@pytest.fixture
def trained(forks: Mapping[str, str]) -> Trains:
    """Trains a job in two processes that are forked, below a real one."""

    def start(arguments: Any, directory: Path) -> Running:
        return spawned(arguments, directory, os.environ | forks, 2)

    return partial(begun, start)


@contextmanager
def begun(start: Start, job: Job) -> Iterator[Trained]:
    """A trainer whose updates have begun, and its two processes."""
    trainer = Trainer(job, start)
    try:
        wait_until("it trains", lambda: run_so_far(Path(job.directory)).steps_done > 0 or trainer.wait(0))
        assert trainer.pid is not None
        ranks = program_below(trainer.pid).children()
        assert len(ranks) == 2, (Path(job.directory) / "stderr.log").read_text()
        yield trainer, sorted(ranks, key=lambda rank: rank.environ()["RANK"])
    finally:
        trainer.stop()


def gone(processes: list[psutil.Process]) -> bool:
    return not any(map(alive, processes))


def test_a_killed_process_is_a_crash_and_takes_the_other_with_it(trained: Trains, cache: Path, tmp_path: Path) -> None:
    with trained(job(tmp_path, cache, steps=96000)) as (trainer, ranks):
        ranks[1].kill()
        assert trainer.wait(PATIENT_S)
        assert gone(ranks)
        assert trainer.end.ending is Ending.KILLED
        assert "signal 9" in (trainer.end.message or "")
        assert not run_so_far(tmp_path).of("failed")


def test_the_recorded_process_ends_all(trained: Trains, cache: Path, tmp_path: Path) -> None:
    with trained(job(tmp_path, cache, steps=96000)) as (trainer, ranks):
        assert trainer.pid is not None
        os.kill(trainer.pid, signal.SIGKILL)
        assert trainer.wait(PATIENT_S)
        wait_until("its processes end", lambda: gone(ranks))
        assert trainer.end.ending is Ending.KILLED


def test_sigterm_saves_once_for_all(trained: Trains, cache: Path, tmp_path: Path) -> None:
    with trained(job(tmp_path, cache, steps=96000)) as (trainer, ranks):
        assert trainer.pid is not None
        os.kill(trainer.pid, signal.SIGTERM)
        assert trainer.wait(PATIENT_S)
        assert gone(ranks)
        assert trainer.end.ending is Ending.LOST
        record = run_so_far(tmp_path)
        assert record.events[-1]["outcome"] == "STOPPED"
        assert Path(record.of("checkpoint")[-1]["path"], "model.safetensors").exists()


def test_the_model_that_runs_start_from_is_evaluated_once_for_all_of_them(trained: Trains, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with trained(job(tmp_path / "first", cache, steps=96000)):
        evaluated = run_so_far(tmp_path / "first").of("evaluation")[0]["metrics"]
    (kept,) = cache.glob("evaluations/*.json")
    content = json.loads(kept.read_text())
    assert content["metrics"] == evaluated
    kept.write_text(json.dumps(content | {"metrics": evaluated | {"eval/avg_at_k": 0.123}}))
    with trained(job(tmp_path / "second", cache, steps=96000)):
        assert run_so_far(tmp_path / "second").of("evaluation")[0]["metrics"]["eval/avg_at_k"] == 0.123


RESOURCES = {"cpus": 2, "processes": 2}
TRAINING = SMALL_TRAINING | {"device_batch": 4}


def test_a_sweep_of_trials_of_two_processes_is_what_torchrun_makes_by_hand(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with (
        contextlib.closing(open_store(settings.database_url)) as store,
        ray_head(tmp_path, cpus=2, gpus=0) as ray,  # nothing of it is forked
    ):
        space = {"loss.beta1": 0, "loss.beta2": 0}
        fence = submit_and_claim(store, small_sweep("two", training=TRAINING, space=space, resources=RESOURCES))
        with runner(settings, fence, ray) as process:
            wait_until("its trainer runs", lambda: bool(running(store, fence.sweep_id)))
            (keeper,) = running(store, fence.sweep_id)
            wait_until("two processes train", lambda: len(keeper.children(recursive=True)) >= 4)
            launcher = program_below(keeper.pid)
            assert {rank.environ()["OMP_NUM_THREADS"] for rank in launcher.children()} == {"1"}
            assert process.wait(PATIENT_S) == 0, (settings.storage / fence.sweep_id / "runner.log").read_text()
        (trial,), (config,) = store.list_trials(fence.sweep_id), store.list_configs(fence.sweep_id)
        assert trial.state is TrialState.SUCCEEDED
        attempts = store.list_attempts(fence.sweep_id)
        assert len(attempts) == 1, attempts
        (attempt,) = attempts
        _, contents, _ = build_report(store, fence.sweep_id, settings)
        assert [row["state"] for row in json.loads(contents["json"])["trials"]] == ["SUCCEEDED"]
    written = tmp_path / "by-hand.yaml"
    written.write_text(json.dumps(config.training | {"seed": trial.seed}))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trainers"]
    command += [str(written), "--output", str(tmp_path / "by-hand"), "--cache", str(settings.cache)]
    done = subprocess.run(command, capture_output=True, timeout=PATIENT_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    by_hand = run_so_far(tmp_path / "by-hand")
    assert len(by_hand.metrics()) == 16
    assert by_hand.metrics() == run_so_far(Path(attempt.directory)).metrics()
    evaluations = [event["metrics"] for event in by_hand.of("evaluation")]
    assert evaluations == [event["metrics"] for event in run_so_far(Path(attempt.directory)).of("evaluation")]


def running(store: Store, sweep_id: str) -> list[psutil.Process]:
    """The recorded processes of a sweep's running trials."""
    pids = [attempt.pid for attempt in store.list_attempts(sweep_id, running_only=True)]
    return [psutil.Process(pid) for pid in pids if pid is not None and psutil.pid_exists(pid)]


def test_processes_end_with_their_actor_their_runner_and_their_raylet(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    raw = small_sweep("kills", training=TRAINING | {"steps": 96000}, resources={"cpus": 1, "processes": 2})
    alone = raw | {"space": {"loss.beta1": 0, "loss.beta2": 0}}

    def started(sweep_id: str, trials: int) -> list[list[psutil.Process]]:
        """Each trial's keeper, launcher and ranks."""

        def families() -> list[list[psutil.Process]]:
            return [[launcher, *launcher.children(recursive=True)] for launcher in running(store, sweep_id)]

        wait_until("they run", lambda: [len(family) >= 5 for family in families()] == [True] * trials)
        return families()

    with contextlib.closing(open_store(settings.database_url)) as store, contextlib.ExitStack() as stack:
        ray = stack.enter_context(ray_head(tmp_path, cpus=3, gpus=0))
        two, one = submit_and_claim(store, raw), submit_and_claim(store, alone)
        driver = stack.enter_context(runner(settings, two, ray))
        stack.enter_context(runner(settings, one, ray))
        (first, second), (third,) = started(two.sweep_id, 2), started(one.sweep_id, 1)
        actors = [family[0].parent() for family in (first, second, third)]
        assert None not in actors
        actors[0].kill()
        wait_until("an actor's processes end", lambda: gone(first))
        assert not gone(second)
        driver.kill()
        wait_until("a runner's processes end", lambda: gone(second))
        assert not gone(third)
        actors[2].parent().kill()
        wait_until("a raylet's processes end", lambda: gone(third))


def test_a_critic_is_shared_and_goes_on_from_a_checkpoint(cache: Path, tmp_path: Path) -> None:
    changes = {"critic.learning_rate": 0.01, "checkpoint_every_rollouts": 1, "model.warm_start_steps": 100}
    config = with_params(TWO.model_dump(mode="json"), changes)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "trainers", str(tmp_path / "run.yaml"), "--processes", "2", "--cache", str(cache)]
    for name, more in (("whole", []), ("half", ["--resume-from", str(tmp_path / "whole" / "step-12")])):
        subprocess.run([*command, "steps=16", "--output", str(tmp_path / name), *more], check=True, timeout=PATIENT_S)
    whole, half = run_so_far(tmp_path / "whole"), run_so_far(tmp_path / "half")
    assert whole.steps_done == 16
    assert whole.metrics()[-1]["critic/value_mean"] != 0
    assert half.metrics() == whole.metrics(after=12)
