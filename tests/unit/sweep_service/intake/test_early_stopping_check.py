"""A rule of early stopping that cannot keep its promise, or saves nothing, is refused with what to write."""

from typing import Any

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.intake.added_check import check_extension
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.early_stopping import Asha, Median, Paired, Rungs
from sweep_service.sweep.spec import SweepSpec
from tests.refusals import refusals

FOUR = [0, 1, 2, 3]


def spec(rule: object, **changes: Any) -> dict[str, Any]:
    space = {"loss.beta1": [0, 0.25, 0.5, 0.75, 1.0], "loss.beta2": [0.5, 1.0]}
    return {"name": "s", "space": space, "seeds": {"tune": FOUR}, "early_stopping": rule} | changes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("paired", Paired()),
        ({"rule": "paired", "level": 0.1}, Paired(level=0.1)),
        ("rungs", Rungs()),
        ("median", Median()),
        ({"rule": "asha", "reduction": 2}, Asha(reduction=2)),
    ],
)
def test_a_rules_name_stands_for_it(given: object, expected: object) -> None:
    assert parse_spec(spec(given)).early_stopping == expected


def test_a_sweep_without_a_rule_has_the_digest_that_it_always_had() -> None:
    plain = spec(None)
    assert parse_spec(plain).digest == parse_spec({k: v for k, v in plain.items() if k != "early_stopping"}).digest
    assert "early_stopping" not in parse_spec(plain).model_dump(mode="json")
    stored = SweepSpec.model_validate(parse_spec(spec("asha")).model_dump(mode="json"))
    assert stored == parse_spec(spec("asha"))


BETA = {"type": "float", "low": 0, "high": 1}
DRAWN = {"space": {"loss.beta1": BETA}, "search": {"strategy": "tpe", "num_configs": 12}}


@pytest.mark.parametrize(
    ("document", "place", "words"),
    [
        (spec("hyperband"), "/early_stopping", "hyperband"),
        (spec({"rule": "asha", "grace": 0.1}), "/early_stopping/grace", "0.25"),
        (spec({"rule": "paired", "level": 0}), "/early_stopping/level", "0"),
        (spec("paired", **DRAWN), "/early_stopping/rule", "use search.strategy grid, or rule median or asha"),
        (spec("paired", seeds={"tune": [0, 1, 2]}), "/seeds/tune", "list 4 or more"),
        (spec("rungs", seeds={"tune": [0]}), "/seeds/tune", "list 2 or more"),
        (spec("rungs", space={"loss.beta1": [0.5]}), "/early_stopping/rule", "never drops the last 1 configs"),
        (spec("median", space={"loss.beta1": [0.25, 0.5, 1]}), "/early_stopping/min_runs", "give at most 2"),
        (spec("rungs", space={"loss.beta1": [0, 0.5], "loss.beta2": [0]}), "/early_stopping/rule", "the space has 1"),
        (spec({"rule": "asha", "grace": 0.95}), "/early_stopping/grace", "0.9"),
        (spec({"rule": "paired", "level": 1e-300}), "/early_stopping/level", "0.0001"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(document: dict[str, Any], place: str, words: str) -> None:
    found = refusals(document)
    assert place in found, found
    assert words in found[place]


@pytest.mark.parametrize("rule", ["median", "asha"])
def test_rules_by_arrival_take_drawn_points_and_few_seeds(rule: str) -> None:
    assert parse_spec(spec(rule, seeds={"tune": [0]}, **DRAWN)).early_stopping is not None


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"seeds": {"tune": [*FOUR, 4]}}, "/seeds/tune"),
        ({"space": {"loss.beta1": [0, 0.25, 0.4, 0.5, 0.75, 1.0]}}, "/space"),
    ],
)
def test_what_was_planned_for_all_configs_and_seeds_is_not_given_more_of_them(
    more: dict[str, Any], place: str, tmp_path: Any
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        check_extension(more, parse_spec(spec("paired")), tmp_path)
    (error,) = caught.value.errors
    assert error.pointer == place
    assert "submit a new sweep" in error.detail
    assert check_extension({"budget": {"max_trial_hours": 2}}, parse_spec(spec("paired")), tmp_path)


def test_no_more_configs_are_confirmed_than_a_rule_may_have_left(tmp_path: Any) -> None:
    raw = spec("asha", seeds={"tune": FOUR, "confirm": {"top_k": 1, "seeds": [10, 11, 12]}})
    with pytest.raises(InvalidSpec) as caught:
        check_extension({"seeds": {"confirm": {"top_k": 3}}}, parse_spec(raw), tmp_path)
    assert [error.pointer for error in caught.value.errors] == ["/seeds/confirm/top_k"]
    assert check_extension({"seeds": {"confirm": {"seeds": [10, 11, 12, 13]}}}, parse_spec(raw), tmp_path)
