"""A sweep whose trials cannot be shared by their processes is refused, with pointers."""

from typing import Any

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.intake.spec_check import parse_spec
from sweep_service.runner.trainer_process import Job, trainer_environment
from sweep_service.sweep.spec import Resources, SweepSpec
from tests.sweep_stack import SMALL_TRAINING, small_sweep
from trainers.config import TrainingConfig


def parsed(resources: dict[str, Any], training: dict[str, Any] | None = None, **changes: Any) -> SweepSpec:
    return parse_spec(small_sweep("x", resources=resources, training=SMALL_TRAINING | (training or {}), **changes))


def pointers(*given: Any, **changes: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        parsed(*given, **changes)
    return {error.pointer: error.detail for error in caught.value.errors}


@pytest.mark.parametrize(
    ("resources", "processes"),
    [({}, 1), ({"gpus": 0.5}, 1), ({"gpus": 1}, 1), ({"gpus": 4}, 4), ({"gpus": 4, "processes": 4}, 4)],
)
def test_a_process_for_each_whole_gpu(resources: dict[str, Any], processes: int) -> None:
    assert Resources(**resources).processes_for(TrainingConfig()) == processes


def test_processes_on_cpus_are_asked_for() -> None:
    assert Resources(cpus=2, processes=2).processes_for(TrainingConfig()) == 2


def test_vllm_s_server_has_its_gpus_for_itself() -> None:
    assert Resources(gpus=8).processes_for(TrainingConfig.model_validate(SERVED)) == 6


SERVED = {
    "rollout": {"engine": {"name": "vllm", "mode": "server", "server_gpus": 2}},
    "model": {"name": "pretrained", "model": "m"},
}


@pytest.mark.parametrize(
    ("resources", "training", "pointer", "says"),
    [
        ({"gpus": 0.5, "processes": 2}, {}, "/resources/processes", "set gpus to 2"),
        ({"gpus": 2, "processes": 1}, {"device_batch": 4}, "/resources/processes", "set gpus to 1"),
        ({"processes": 2}, {}, "/training/device_batch", "set device_batch to 4"),
        ({"gpus": 8}, {"device_batch": 2}, "/training/device_batch", "set device_batch to 1"),
        ({"gpus": 2}, SERVED, "/resources/gpus", "gpus 2: vLLM's server takes 2; training needs one and more"),
        ({"gpus": 1}, {"compute": {"sharding": "fsdp"}}, "/training/compute/sharding", "one process"),
    ],
)
def test_what_cannot_be_shared_is_refused(
    resources: dict[str, Any], training: dict[str, Any], pointer: str, says: str
) -> None:
    found = pointers(resources, training)
    assert list(found) == [pointer]
    assert says in found[pointer]


def test_every_reason_is_told_at_once() -> None:
    assert set(pointers({"processes": 3})) == {
        "/training/rollout/prompts_per_minibatch",
        "/training/rollout/prompts_per_rollout",
    }


def test_a_point_of_the_space_that_cannot_be_shared_is_named() -> None:
    space = {"device_batch": [4, 8]}
    found = pointers({"processes": 2}, {"device_batch": 4}, space=space)
    assert '{"device_batch": 8}' in found["/space"]
    assert parsed({"processes": 1}, space=space)


@pytest.mark.parametrize(("threads", "processes", "each"), [(4, 2, "2"), (5, 2, "2"), (1, 8, "1")])
def test_a_trial_s_threads_are_shared_out(threads: int, processes: int, each: str) -> None:
    job = Job(
        trial_id="t",
        attempt=1,
        directory="d",
        config={},
        threads=threads,
        gpus=0,
        processes=processes,
        resume_from=None,
        cache="c",
    )
    assert trainer_environment(job, {})["OMP_NUM_THREADS"] == each
