"""Refusals of sizes name settings and values that work."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.trainers.training.bare_trainers import config

BASE = {
    "rollout__prompts_per_rollout": 8,
    "rollout__prompts_per_minibatch": 2,
    "rollout__completions_per_prompt": 8,
    "device_batch": 1,
    "steps": 1200,
}


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"device_batch": 48}, "(2 prompts x 8 completions); set device_batch to 16"),
        ({"device_batch": 3}, "set device_batch to 2 or 4"),
        ({"steps": 10}, "steps 10 is not a multiple of the 4 updates per rollout, so the last"),
        ({"steps": 10}, "not used; set steps to 8 or 12"),
        ({"steps": 3}, "not used; set steps to 4"),
        (
            {"evaluation__pass_k": 9, "evaluation__samples_per_problem": 4},
            "evaluation.pass_k 9 exceeds evaluation.samples_per_problem 4; set evaluation.pass_k to 4 or less, or "
            "evaluation.samples_per_problem to 9 or more",
        ),
        (
            {"rollout__prompts_per_minibatch": 16},
            "rollout.prompts_per_rollout 8 is not a multiple of rollout.prompts_per_minibatch 16; set "
            "rollout.prompts_per_rollout to 32, or set rollout.prompts_per_minibatch to 4",
        ),
        (
            {"rollout__prompts_per_rollout": 30, "rollout__prompts_per_minibatch": 4},
            "set rollout.prompts_per_rollout to 28 or 32, or set rollout.prompts_per_minibatch to 3 or 5",
        ),
        ({"rollout__prompts_per_rollout": 1}, "rollout.prompts_per_minibatch 2; set rollout.prompts_per_rollout to 4"),
        (
            {"model__hidden_size": 32, "model__num_heads": 3},
            "model.hidden_size 32 is not a multiple of 2 x model.num_heads 3; set model.hidden_size to 30 or 36",
        ),
        ({"model__hidden_size": 1020, "model__num_heads": 16}, "set model.hidden_size to 992 or 1024"),
        ({"model__hidden_size": 8, "model__num_heads": 3}, "set model.hidden_size to 12"),
    ],
    ids=str,
)
def test_a_refusal_names_the_setting_and_what_works(params: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(sentence)) as caught:
        config(**BASE | params)
    for name, values in re.findall(r"set (\S+) to ([0-9]+(?: or [0-9]+)*)", str(caught.value)):
        for value in values.split(" or "):
            config(**BASE | {"steps": 5040} | params | {name.replace(".", "__"): int(value)})
