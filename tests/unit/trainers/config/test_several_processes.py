"""What several processes can share, and the nearest sizes that they could."""

import math
from typing import Any

import pytest

from tests.unit.trainers.training.bare_trainers import config
from trainers.config.several_processes import sharing_refusals

SIZES: dict[str, Any] = {
    "rollout__prompts_per_rollout": 16,
    "rollout__prompts_per_minibatch": 4,
    "rollout__completions_per_prompt": 4,
    "device_batch": 1,
}


def refused(processes: int, **params: Any) -> dict[str, str]:
    """Setting -> reason; in names a dot is written as two underscores."""
    return dict(sharing_refusals(config(**SIZES | params), processes))


@pytest.mark.parametrize("processes", [1, 2, 4, 8, 16])
def test_sizes_that_divide_are_shared(processes: int) -> None:
    assert refused(processes) == {}


@pytest.mark.parametrize(
    ("processes", "params", "setting", "remedy"),
    [
        (2, {"device_batch": 16}, "device_batch", "set device_batch to 8"),
        (4, {"device_batch": 8}, "device_batch", "set device_batch to 4"),
        (8, {"rollout__prompts_per_minibatch": 1}, "rollout.prompts_per_minibatch", "prompts_per_minibatch to 2"),
        (
            8,
            {"rollout__prompts_per_minibatch": 5, "rollout__prompts_per_rollout": 40},
            "rollout.prompts_per_minibatch",
            "set rollout.prompts_per_minibatch to 4",  # 6 could be shared, too, and does not divide the rollout
        ),
        (
            8,
            {"rollout__prompts_per_rollout": 20},
            "rollout.prompts_per_rollout",
            "set rollout.prompts_per_rollout to 16 or 24",
        ),
        (
            4,
            {"rollout__prompts_per_minibatch": 6, "rollout__prompts_per_rollout": 18},
            "rollout.prompts_per_rollout",
            "set rollout.prompts_per_rollout to 12 or 24",  # 16 and 20 are no multiples of the minibatch
        ),
        (
            8,
            {"rollout__dynamic_sampling": {"prompts_per_round": 12}},
            "rollout.dynamic_sampling.prompts_per_round",
            "prompts_per_round to 8 or 16",
        ),
    ],
)
def test_the_nearest_sizes_that_work_are_named(
    processes: int, params: dict[str, Any], setting: str, remedy: str
) -> None:
    reasons = refused(processes, **params)
    assert list(reasons) == [setting]
    assert remedy in reasons[setting]


def test_what_is_named_works() -> None:
    """Whatever the sizes: setting what is refused to what is named leaves nothing to refuse."""
    for processes in range(2, 9):
        for minibatch in (1, 2, 3, 4, 6):
            params: dict[str, Any] = {"rollout__prompts_per_minibatch": minibatch, "rollout__prompts_per_rollout": 12}
            for _ in range(3):
                reasons = refused(processes, **params)
                for setting, reason in reasons.items():
                    value = int(reason.rpartition(" to ")[2].split(" or ")[-1])
                    params[setting.replace(".", "__")] = value
                size = params["rollout__prompts_per_minibatch"]  # what the configuration itself demands
                params["rollout__prompts_per_rollout"] = math.lcm(size, params["rollout__prompts_per_rollout"])
            assert refused(processes, **params) == {}, (processes, minibatch, params)


FSDP, LORA = {"compute__sharding": "fsdp"}, {"model__lora__rank": 4}
BFLOAT16 = {
    "model": {"name": "pretrained", "model": "m", "weights_dtype": "bfloat16"},
    "optimizer__learning_rate": 1e-3,
}
REFERENCE, CRITIC = {"terms__kl__coefficient": 0.1}, {"critic": dict[str, Any]()}


@pytest.mark.parametrize(
    ("processes", "params", "reason"),
    [
        (1, FSDP, "one process"),
        (2, {"compute__sharding": "zero2"} | LORA, "model.lora"),
        (2, FSDP | BFLOAT16, "weights_dtype"),
        (2, FSDP | REFERENCE, "terms.kl.coefficient 0.1 compares with the initial model"),
        (2, FSDP | CRITIC, "the value head of critic"),
    ],
)
def test_sharding_that_would_not_be_what_it_says_is_refused(
    processes: int, params: dict[str, Any], reason: str
) -> None:
    assert reason in refused(processes, **params)["compute.sharding"]


@pytest.mark.parametrize(
    "params", [FSDP, {"compute__sharding": "zero3"}, FSDP | LORA, FSDP | LORA | REFERENCE, REFERENCE, CRITIC]
)
def test_weights_are_sharded_and_adapters_with_the_reference_below_them(params: dict[str, Any]) -> None:
    assert refused(2, **params) == {}
