"""A range of which training takes only some values is refused with what to write instead."""

import re
from typing import Any

import pytest

from search_spaces.distributions import Int
from sweep_service.errors import InvalidSpec
from sweep_service.intake.spec_check import parse_spec
from tests.refusals import refusals

BETA = {"loss.beta1": {"type": "float", "low": 0, "high": 1}}


def drawn(space: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"name": "s", "space": space, "search": {"strategy": "tpe", "num_configs": 3}} | changes


def number(low: float, high: float, kind: str = "int", **more: Any) -> dict[str, Any]:
    return {"type": kind, "low": low, "high": high} | more


@pytest.mark.parametrize(
    ("space", "remedy", "reason"),
    [
        ({"steps": number(8, 64)}, "{type: int, low: 8, high: 64, step: 8}", "9: steps 9 is not a multiple of the 8"),
        ({"steps": number(5, 60)}, "{type: int, low: 8, high: 56, step: 8}", "5: steps 5 is"),
        (
            {"steps": number(8, 64, log=True)},
            "{type: int, low: 8, high: 64, step: 8}, or in place of a log scale, which has no step, [8, 16, 32, 64]",
            "9: steps 9",
        ),
        ({"steps": number(8, 64, step=4)}, "{type: int, low: 8, high: 64, step: 8}", "12: steps 12"),
        ({"steps": number(8, 19_999)}, "{type: int, low: 8, high: 19992, step: 8}", "9: steps 9"),
        ({"steps": number(8, 64, "float")}, "{type: int, low: 8, high: 64, step: 8}", "42.6099: a whole number"),
        ({"steps": number(8, 15)}, "[8]", "9: steps 9"),
        ({"device_batch": number(1, 90_000)}, "[1, 2, 4, 8, 16, 32, 64]", "3: device_batch 3 does not divide"),
        ({"evaluation.pass_k": number(1, 500)}, "{type: int, low: 1, high: 32}", "33: evaluation.pass_k 33 exceeds"),
        (
            {"optimizer.warmup_steps": number(0.5, 8.5, "float", log=True)},
            "{type: int, low: 1, high: 8, log: true}",
            "5.44427: a whole number is needed",
        ),
        (
            {"optimizer.warmup_steps": number(0, 8, "float", step=0.5)},
            "{type: int, low: 0, high: 8}",
            "0.5: a whole number is needed",
        ),
        (  # the range beside it is no better at its ends
            {"steps": number(8, 64), "kept_checkpoints": number(0, 1.5, "float")},
            "{type: int, low: 8, high: 64, step: 8}",
            "9: steps 9",
        ),
        (  # the fixed values count: four updates a rollout
            {"steps": number(5, 63), "rollout.prompts_per_minibatch": 8},
            "{type: int, low: 8, high: 60, step: 4}",
            "5: steps 5 is not a multiple of the 4",
        ),
    ],
)
def test_a_range_with_unusable_values_is_told_what_to_write(space: dict[str, Any], remedy: str, reason: str) -> None:
    name = next(iter(space))
    told = refusals(drawn(space | BETA))[f"/space/{name}"]
    assert told.startswith(f"training takes only some of its values; write {remedy} ({reason}")


def test_the_remedies_of_two_ranges_work_together() -> None:
    heads, width = "model.num_heads", "model.hidden_size"
    told = refusals(drawn({heads: number(1, 8), width: number(16, 128)} | BETA))
    assert "write [1, 2, 4, 8] (3" in told[f"/space/{heads}"]
    assert "write {type: int, low: 16, high: 128, step: 16} (17: " in told[f"/space/{width}"]
    assert told[f"/space/{width}"].endswith("; tried with model.num_heads 1 and 8)")
    assert parse_spec(drawn({heads: [1, 2, 4, 8], width: number(16, 128, step=16)} | BETA))


@pytest.mark.parametrize("values", [number(8, 64, step=8), number(4, 8, "float", step=4)])
def test_a_range_of_usable_values_is_taken(values: dict[str, Any]) -> None:
    name = "steps" if values["type"] == "int" else "rollout.prompts_per_minibatch"
    assert parse_spec(drawn({name: values} | BETA)).space.names == ("loss.beta1", name)


def test_long_ranges_share_the_values_that_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, at = list[int](), Int.at
    monkeypatch.setattr(Int, "at", lambda values, index: asked.append(index) or at(values, index))
    names = ("rollout.engine.max_length", "kept_checkpoints", "checkpoint_every_rollouts", "evaluation.shown_samples")
    with pytest.raises(InvalidSpec):  # the engine has no such setting
        parse_spec(drawn({name: number(1, 2**40) for name in names}))
    assert asked.count(0) == len(names)
    assert len([index for index in asked if index < 500]) == 4 * 500


def test_a_stored_sweep_keeps_a_range_that_would_be_refused_today() -> None:
    assert parse_spec(drawn({"steps": number(8, 64)} | BETA), of_before=True).space.names == ("loss.beta1", "steps")


def test_values_that_are_right_alone_and_wrong_together_are_found_between_the_corners() -> None:
    sizes = {"steps": number(32, 64_000, step=8), "rollout.prompts_per_minibatch": [8, 1, 4]}
    told = refusals(drawn(sizes | BETA, training={"device_batch": 16}))
    assert told.keys() == {"/space"}
    assert re.search(r'"rollout.prompts_per_minibatch": 1, "steps": (\d+)} cannot run: steps \1 is', told["/space"])


def test_no_dimension_has_one_value_in_all_combinations_that_are_tried() -> None:
    sizes = {"rollout.prompts_per_minibatch": [24, 12, 16], "steps": number(24, 48, step=6)}  # each with 500 numbers
    few = {"rollout": {"prompts_per_rollout": 48, "completions_per_prompt": 4}}
    told = refusals(drawn({"optimizer.warmup_steps": number(0, 499)} | sizes, training=few))
    assert "cannot run: steps" in told["/space"]


def test_a_remedy_for_a_float_range_goes_as_far_as_the_range() -> None:
    wide = {"steps": {"type": "float", "low": 31, "high": 100001, "log": True}}
    assert "high: 100000, step: 8}" in refusals(drawn(wide | BETA))["/space/steps"]
