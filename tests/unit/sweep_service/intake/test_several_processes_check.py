"""A sweep whose trials cannot share what they get among processes, or run vLLM on it, is refused, with pointers."""

from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.runner.trainer_process import trainer_environment
from sweep_service.sweep.spec import Resources
from tests.refusals import refusals
from tests.sweep_stack import SMALL_TRAINING, small_sweep
from tests.unit.sweep_service.runner.jobs import JOB
from trainers.config import TrainingConfig


def spec(resources: dict[str, Any], training: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return small_sweep("x", resources=resources, training=SMALL_TRAINING | (training or {}), **changes)


def vllm(**engine: Any) -> dict[str, Any]:
    """Return the training of a policy whose rollouts vLLM samples."""
    return {"rollout": {"engine": {"name": "vllm"} | engine}, "model": {"name": "pretrained", "model": "m"}}


SERVED = vllm(mode="server", server_gpus=2)


@pytest.mark.parametrize(
    ("resources", "training", "processes"),
    [
        ({}, {}, 1),
        ({"gpus": 0.5}, {}, 1),
        ({"gpus": 1}, {}, 1),
        ({"gpus": 4}, {}, 4),
        ({"gpus": 4, "processes": 4}, {}, 4),
        ({"cpus": 2, "processes": 2}, {}, 2),  # on CPUs they are asked for
        ({"gpus": 4}, vllm(tensor_parallel=2), 4),
        ({"gpus": 8}, SERVED, 6),  # vLLM's server has its GPUs for itself
    ],
)
def test_a_process_for_each_whole_gpu_that_trains(
    resources: dict[str, Any], training: dict[str, Any], processes: int
) -> None:
    assert Resources(**resources).processes_for(TrainingConfig.model_validate(training)) == processes


@pytest.mark.parametrize(
    ("gpus", "training"), [(1, vllm()), (4, vllm(tensor_parallel=2)), (4, SERVED)], ids=["one", "groups", "server"]
)
def test_vllm_runs_with_whole_gpus(gpus: int, training: dict[str, Any]) -> None:
    assert parse_spec(spec({"gpus": gpus}, training))


@pytest.mark.parametrize(
    ("resources", "training", "pointer", "says"),
    [
        ({"gpus": 0.5, "processes": 2}, {}, "/resources/processes", "set gpus to 2"),
        ({"gpus": 2, "processes": 1}, {"device_batch": 4}, "/resources/processes", "set gpus to 1"),
        ({"processes": 2}, {}, "/training/device_batch", "set device_batch to 4"),
        ({"gpus": 8}, {"device_batch": 2}, "/training/device_batch", "set device_batch to 1"),
        ({"gpus": 2}, SERVED, "/resources/gpus", "gpus 2: vLLM's server takes 2; training needs one and more"),
        ({"gpus": 1}, {"compute": {"sharding": "fsdp"}}, "/training/compute/sharding", "one process"),
        ({}, vllm(), "/resources/gpus", "gpus 0: rollouts by vLLM need whole GPUs; give 1 or more"),
        ({"gpus": 0.5}, vllm(), "/resources/gpus", "gpus 0.5: rollouts by vLLM need whole GPUs"),
        (
            {"gpus": 2},
            vllm(tensor_parallel=4),
            "/training/rollout/engine/tensor_parallel",
            "2 processes cannot form groups",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused(
    resources: dict[str, Any], training: dict[str, Any], pointer: str, says: str
) -> None:
    found = refusals(spec(resources, training))
    assert list(found) == [pointer]
    assert says in found[pointer]


def test_every_reason_is_told_at_once() -> None:
    sizes = {f"/training/rollout/prompts_per_{what}" for what in ("minibatch", "rollout")}
    assert refusals(spec({"processes": 3})).keys() == sizes


def test_a_point_of_the_space_that_cannot_be_shared_is_named() -> None:
    space = {"device_batch": [4, 8]}
    found = refusals(spec({"processes": 2}, {"device_batch": 4}, space=space))
    assert '{"device_batch": 8}' in found["/space"]
    assert parse_spec(spec({"processes": 1}, space=space))


@pytest.mark.parametrize(("threads", "processes", "each"), [(4, 2, "2"), (5, 2, "2"), (1, 8, "1")])
def test_a_trial_s_threads_are_shared_out(threads: int, processes: int, each: str) -> None:
    job = JOB.model_copy(update={"threads": threads, "processes": processes})
    assert trainer_environment(job, {})["OMP_NUM_THREADS"] == each
