"""The points of a sweep, bound to its base settings."""

import json
from collections import Counter
from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.plan import first_records, make_plan
from sweep_service.sweep.points import BoundSpace

RAW = {"name": "points", "space": {"loss.beta1": [0, 0.5, 1], "loss.beta2": [0.5, 1]}, "resources": {"gpus": 1}}


def test_checks_plan_and_configs_share_one_binding_of_each_point(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, trained = Counter[str](), BoundSpace._trained

    def counted(self: BoundSpace, document: dict[str, Any]) -> Any:
        bound[str(document)] += 1
        return trained(self, document)

    monkeypatch.setattr(BoundSpace, "_trained", counted)
    spec = parse_spec(RAW)
    make_plan(spec, None)
    configs, _ = first_records(spec, "swp")
    assert len(configs) == 6 + 2
    assert list(bound.values()) == [1] * (6 + 1)  # the points, and the base


def test_values_that_only_look_alike_are_points_of_their_own() -> None:
    spec = parse_spec({"name": "own", "trainer": {"command": ["a"], "steps": 1}, "space": {"x": [1]}})
    values = [1, 1.0, True, "1"]
    assert [repr(spec.at({"x": value}).params["x"]) for value in values] == list(map(repr, values))


@pytest.mark.parametrize(
    "change",
    [
        {"space": {"loss.epsilon": [0.1 + 0.2]}},
        {"space": {"loss.epsilon": 0.1 + 0.2}},
        {"space": {"loss.epsilon": {"type": "float", "low": 0.1 + 0.2, "high": 0.4, "step": 0.1}}},
        {"space": {"loss": {"type": "categorical", "values": {"a": {"name": "ce_gppo", "epsilon": 0.1 + 0.2}}}}},
        {"space": {"loss.beta1": 1}, "training": {"loss": {"epsilon": 0.1 + 0.2}}},
    ],
)
def test_a_number_and_what_arithmetic_makes_of_it_give_one_config(change: dict[str, Any]) -> None:
    """Also where a sweep is asked for a point of before, whose value was stored as it was given."""
    spec, plain = (
        parse_spec({"name": "s"} | document)
        for document in (change, json.loads(json.dumps(change).replace(str(0.1 + 0.2), "0.3")))
    )
    assert spec.at(next(spec.space.corners())).id == plain.at(next(plain.space.corners())).id
    assert plain.at({"loss.epsilon": 0.1 + 0.2}).id == plain.at({"loss.epsilon": 0.3}).id


def test_a_copy_with_other_benchmarks_keeps_its_training_apart_from_those() -> None:
    spec = parse_spec(RAW | {"training": {"task": {"name": "word_problems"}}})
    assert spec.base.task.model_dump()["apart_from"] == ()
    other = parse_spec(RAW | {"benchmarks": {"names": ["expressions"], "of": "all"}}).benchmarks
    assert spec.model_copy(update={"benchmarks": other}).base.task.model_dump()["apart_from"] == ("expressions",)
