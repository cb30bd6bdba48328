"""A document larger than any sweep is refused before anything looks at it."""

from typing import Any

import pytest

from sweep_service.intake import document_size
from sweep_service.intake.spec_check import parse_spec
from tests.refusals import refusals


def spec(**changes: Any) -> dict[str, Any]:
    return {"name": "s", "space": {"loss.beta1": [0, 0.5]}} | changes


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [31, 500, 100_000])
def test_a_document_is_not_nested_deeply(depth: int) -> None:
    (told,) = refusals(spec(training=nested(depth))).items()
    assert told == ("/training/a/a", "the document is nested deeper than 32 levels; a sweep needs fewer than ten")


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"training": {"loss": {3: 1}}}, "/training/loss", 'the key 3 is no text; write "3" if it is a name'),
        ({None: 1}, "", "the key None is no text"),
        ({"x" * 60_000: 1}, "", "has 60000 characters, more than 200"),
        ({"labels": {f"k{n}": "v" for n in range(5000)}}, "", "the document has more than 4000 values"),
        ({"training": {"steps": [0] * 1001}}, "/training", "training has more than 1000 values"),
        (
            {"training": {"task": {"name": "word_problems", "data": {"system": "y" * 20_000}}}},
            "/training",
            "more than 16384, and every config keeps a copy of it",
        ),
    ],
)
def test_what_is_too_large_is_refused_alone(change: dict[Any, Any], place: str, words: str) -> None:
    (told,) = refusals(spec(name=3) | change).items()
    assert told[0] == place
    assert words in told[1]


def test_the_limits_are_as_wide_as_a_sweep_can_be() -> None:
    seeds = {"tune": list(range(20)), "confirm": {"seeds": list(range(100, 1100))}}
    one = {
        "baselines": {"ppo_clip": False, "dapo": False, "matched": False},
        "labels": {f"k{n}": "v" for n in range(50)},
    }
    data = {"system": "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 2600}
    assert parse_spec(spec(seeds=seeds, training={"task": {"name": "word_problems", "data": data}}, **one))
    assert document_size.MAX_DEPTH > 8
