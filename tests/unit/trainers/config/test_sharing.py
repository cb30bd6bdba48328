"""What several processes can share, and the nearest sizes that they could."""

import math
from typing import Any

import pytest

from trainers.config import TrainingConfig, with_params
from trainers.config.sharing import sharing_refusals

SIZES = {"rollout.prompts_per_rollout": 16, "rollout.prompts_per_minibatch": 4, "rollout.completions_per_prompt": 4}


def refused(processes: int, **params: Any) -> dict[str, str]:
    """Setting -> reason; in names a dot is written as two underscores."""
    named = {name.replace("__", "."): value for name, value in params.items()}
    config = TrainingConfig.model_validate(with_params({}, {**SIZES, "device_batch": 1, **named}))
    return dict(sharing_refusals(config, processes))


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
    found = refused(processes, **params)
    assert list(found) == [setting]
    assert remedy in found[setting]


def test_what_is_named_works() -> None:
    """Whatever the sizes: setting what is refused to what is named leaves nothing to refuse."""
    for processes in range(2, 9):
        for minibatch in (1, 2, 3, 4, 6):
            params: dict[str, Any] = {"rollout__prompts_per_minibatch": minibatch, "rollout__prompts_per_rollout": 12}
            for _ in range(3):
                found = refused(processes, **params)
                for setting, reason in found.items():
                    value = int(reason.rpartition(" to ")[2].split(" or ")[-1])
                    params[setting.replace(".", "__")] = value
                size = params["rollout__prompts_per_minibatch"]  # what the configuration itself demands
                params["rollout__prompts_per_rollout"] = math.lcm(size, params["rollout__prompts_per_rollout"])
            assert refused(processes, **params) == {}, (processes, minibatch, params)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"compute__sharding": "zero2", "model__lora__rank": 4}, "model.lora"),
        (
            {
                "compute__sharding": "fsdp",
                "model": {"name": "pretrained", "model": "m", "weights_dtype": "bfloat16"},
                "optimizer__learning_rate": 1e-3,
            },
            "weights_dtype",
        ),
    ],
)
def test_sharding_that_would_not_be_what_it_says_is_refused(params: dict[str, Any], reason: str) -> None:
    assert reason in refused(2, **params)["compute.sharding"]


def test_a_reference_is_not_sharded_but_lies_below_adapters() -> None:
    reason = refused(2, compute__sharding="fsdp", terms__kl__coefficient=0.1)["compute.sharding"]
    assert "terms.kl.coefficient 0.1 compares with the initial model" in reason
    assert refused(2, compute__sharding="fsdp", terms__kl__coefficient=0.1, model__lora__rank=4) == {}
    assert refused(2, terms__kl__coefficient=0.1) == refused(2, compute__sharding="fsdp") == {}


def test_a_value_head_is_not_sharded() -> None:
    assert "the value head of critic" in refused(2, compute__sharding="fsdp", critic={})["compute.sharding"]
    assert refused(2, critic={}) == {}


def test_one_process_has_nothing_to_shard() -> None:
    assert "one process" in refused(1, compute__sharding="fsdp")["compute.sharding"]
    assert refused(2, compute__sharding="fsdp") == refused(2, compute__sharding="zero3") == {}
    assert refused(2, compute__sharding="fsdp", model__lora__rank=4) == {}
