"""Schedules, rewards and losses as values of a space."""

from typing import Any

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.extension import Extension, extended, shrunk
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import Role
from sweep_service.sweep.spec import SweepSpec

SHAPES = {
    "flat": [],
    "cosine": {"shape": "cosine", "over": 100, "beta1": 0},
    "steps": {"shape": "steps", "at": [10, 20], "beta1": [0.3, 0.1]},
}


def spec(space: dict[str, Any], **changes: Any) -> SweepSpec:
    return parse_spec({"name": "whole", "space": space, "seeds": {"tune": [0]}} | changes)


def reasons(space: dict[str, Any], **changes: Any) -> list[str]:
    with pytest.raises(InvalidSpec) as refusal:
        spec(space, **changes)
    return [f"{error.pointer}: {error.detail}" for error in refusal.value.errors]


def test_points_have_the_names_and_trainings_the_values() -> None:
    schedules = spec({"loss.schedule": {"type": "categorical", "values": SHAPES}})
    configs = [config for config in first_records(schedules, "swp_1")[0] if Role.SPACE in config.roles]
    assert [config.params for config in configs] == [{"loss.schedule": name} for name in SHAPES]
    assert [config.training["loss"]["schedule"] for config in configs] == [
        [],
        [{"step": 1, "beta1": 0.0, "beta2": None, "ramp": 100, "curve": "cosine"}],
        [
            {"step": 10, "beta1": 0.3, "beta2": None, "ramp": 0},
            {"step": 20, "beta1": 0.1, "beta2": None, "ramp": 0},
        ],
    ]


def test_losses_with_their_parameters_are_values_and_baselines_among_them_are_recognised() -> None:
    losses = [{"name": "ce_gppo", "beta1": 0.75}, {"name": "gspo"}, {"name": "ce_gppo", "beta1": 0, "beta2": 0}]
    configs, _ = first_records(spec({"loss": losses}), "swp_1")
    assert [(config.roles, config.params["loss"]) for config in configs] == [
        ((Role.BASELINE, Role.SPACE), "ce_gppo beta1=0 beta2=0"),
        ((Role.DAPO,), None),
        ((Role.SPACE,), "ce_gppo beta1=0.75"),
        ((Role.SPACE,), "gspo"),
    ]


def test_rewards_are_values() -> None:
    rewards = ["math", {"name": "math", "weight": 0.5}]
    configs, _ = first_records(
        spec({"task.reward": rewards}, training={"task": {"name": "word_problems"}}, baselines={"dapo": False}), "s"
    )
    assert [config.training["task"]["reward"] for config in configs] == [
        "math",
        "math",
        {"name": "math", "weight": 0.5},
    ]
    assert [config.params["task.reward"] for config in configs] == ["math", "math", "math weight=0.5"]


def test_a_value_that_training_refuses_is_named_with_the_reason() -> None:
    assert reasons({"loss": [{"name": "gspo"}, {"name": "ce_gppo", "beta3": 1}]}) == [
        "/space/loss: 'ce_gppo beta3=1': beta3: there is no such setting; did you mean 'loss.beta1' or 'loss.beta2'?"
    ]
    wrong = {"bad": {"shape": "cosine", "over": 0, "beta1": 0}, "odd": {"shape": "wave"}}
    told = reasons({"loss.schedule": {"type": "categorical", "values": wrong}})
    assert any("'bad': " in reason and "greater than or equal to 1" in reason for reason in told), told
    assert any("'odd': there is no schedule 'wave'" in reason for reason in told), told


def test_two_names_of_one_value_are_refused() -> None:
    same = {"a": {"shape": "linear", "over": 10, "beta1": 0}, "b": [{"step": 1, "ramp": 10, "beta1": 0}]}
    assert reasons({"loss.schedule": {"type": "categorical", "values": same}}) == [
        "/space/loss.schedule: a and b are the same value; leave one out"
    ]


def test_a_plain_value_has_no_name() -> None:
    """A search would propose the same config under its other name for ever."""
    entry = {"type": "categorical", "choices": ["gspo", "mine"], "values": {"mine": "gspo"}}
    (reason,) = reasons({"loss.name": entry})
    assert "values.mine is 'gspo', a plain value; list it among the choices instead" in reason


def test_a_baseline_has_no_whole_value_whose_name_its_own_is() -> None:
    weighted = {
        "type": "categorical",
        "values": {"number": {"name": "number", "weight": 5}, "exact": {"name": "exact"}},
    }
    training = {"task": {"name": "word_problems", "reward": "number"}}
    configs, _ = first_records(spec({"task.reward": weighted}, training=training, baselines={"dapo": False}), "s")
    assert [config.params["task.reward"] for config in configs] == [None, "number", "exact"]


def test_a_reward_s_name_and_the_mapping_that_says_no_more_are_one_value() -> None:
    entry = {"type": "categorical", "choices": ["math", "m"], "values": {"m": {"name": "math"}}}
    told = reasons({"task.reward": entry}, training={"task": {"name": "word_problems"}})
    assert told == ["/space/task.reward: math and m are the same value; leave one out"]


def test_an_extension_keeps_whole_values_and_changes_none() -> None:
    before = spec({"loss.schedule": {"type": "categorical", "values": {"flat": [], "cosine": SHAPES["cosine"]}}})

    def more(entry: dict[str, Any]) -> Extension:
        return Extension.model_validate({"space": {"loss.schedule": {"type": "categorical"} | entry}})

    names = {"choices": ["flat", "cosine", "steps"], "values": {"steps": SHAPES["steps"]}}
    assert shrunk(before, more(names)) == []
    after = parse_spec(extended(before, more(names)))
    whole = after.space.root["loss.schedule"]
    assert [whole.whole(name) for name in ("flat", "cosine", "steps")] == [[], SHAPES["cosine"], SHAPES["steps"]]
    changed = {"values": {"flat": SHAPES["steps"], "cosine": SHAPES["cosine"]}}
    (error,) = shrunk(before, more(changed))
    assert error.detail == "flat stood for another value before; give the new value a new name"


def test_a_loss_as_a_whole_excludes_its_parts() -> None:
    (reason,) = reasons({"loss": [{"name": "gspo"}], "loss.epsilon_low": [0.1]})
    assert "loss is set as a whole, so loss.epsilon_low cannot be set too" in reason
