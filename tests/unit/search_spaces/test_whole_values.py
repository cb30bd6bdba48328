"""Choices that stand for whole values."""

from typing import Any

import pytest
from pydantic import ValidationError

from search_spaces.distributions import whole_name
from search_spaces.sampling import Observation, propose
from search_spaces.space import SearchSpace
from search_spaces.strategies import STRATEGIES

SCHEDULES: dict[str, Any] = {"flat": [], "late": [{"step": 200, "beta1": 0.1}]}


def space(entry: object) -> SearchSpace:
    return SearchSpace.model_validate({"loss.schedule": entry, "loss.beta2": [0, 1]})


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"name": "ce_gppo", "beta1": 0.5}, "ce_gppo beta1=0.5"),
        ({"shape": "cosine", "over": 100, "beta1": 0}, "cosine over=100 beta1=0"),
        ([], "[]"),
        ({}, "{}"),
        ([{"step": 2, "beta1": None}], "[{step=2 beta1=null}]"),
        ({"name": "dapo", "erc": {"mode": "mask"}, "on": True}, "dapo erc={mode=mask} on=true"),
        ({"name": 3}, "name=3"),
    ],
)
def test_a_whole_value_is_named_after_what_it_holds(value: object, name: str) -> None:
    assert whole_name(value) == name


def test_values_alone_and_values_with_choices_and_whole_choices_are_the_same() -> None:
    alone = space({"type": "categorical", "values": SCHEDULES})
    assert alone == space({"type": "categorical", "choices": ["flat", "late"], "values": SCHEDULES})
    unnamed = space([[], [{"step": 200, "beta1": 0.1}]])
    assert unnamed.root["loss.schedule"].edges == ("[]", "[{step=200 beta1=0.1}]")
    assert [alone.whole(point) for point in alone.grid()] == [unnamed.whole(point) for point in unnamed.grid()]
    assert SearchSpace.model_validate(unnamed.model_dump(mode="json")) == unnamed


def test_a_choice_without_a_whole_value_stands_for_itself() -> None:
    mixed = space([{"name": "brief", "length_weight": 1}, "math", None, 3])
    names = mixed.root["loss.schedule"].edges
    assert names == ("brief length_weight=1", "math", None, 3)
    assert [mixed.root["loss.schedule"].whole(name) for name in names] == [
        {"name": "brief", "length_weight": 1},
        "math",
        None,
        3,
    ]
    assert mixed.whole({"loss.schedule": "math", "other": "flat"}) == {"loss.schedule": "math", "other": "flat"}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ([{"a": 1}, {"a": 1}], "choices repeat 'a=1'"),
        ({"type": "categorical", "choices": ["flat"], "values": SCHEDULES}, "values has 'late', which is not among"),
        ([{"a": float("nan")}], "values.a=NaN cannot be written as JSON"),
        ([list(range(60))], "too long for a table; give the value a name"),
        ({"type": "categorical", "values": {"low": 0.1}}, "values.low is 0.1, a plain value"),
        ({"type": "categorical", "values": {" ": []}}, "give it one that can be read in a table"),
        ({"type": "categorical", "values": {"a\nb": []}}, "give it one that can be read in a table"),
        ([{"a": object()}], "cannot be written as JSON"),
    ],
)
def test_what_cannot_be_named_is_refused(entry: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        space(entry)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_proposes_the_names(strategy: Any) -> None:
    named, history = space({"type": "categorical", "values": SCHEDULES}), list[Observation]()
    while point := propose(named, strategy, 0, history):
        history.append(Observation(len(history), point, float(len(history)), "complete"))
    assert sorted(tuple(item.params.values()) for item in history) == [
        (0, "flat"),
        (0, "late"),
        (1, "flat"),
        (1, "late"),
    ]
