"""Every number that a spec can carry has bounds, and what is beyond them, or no number, is refused at its place."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from sweep_service.sweep.spec import SweepSpec
from tests.refusals import refusals
from trainers.config import TrainingConfig

Place = tuple[str | int, ...]

SCHEMAS = {(): SweepSpec.model_json_schema(), ("training",): TrainingConfig.model_json_schema()}


def numbers(schema: dict[str, Any], node: dict[str, Any], path: Place, document: dict[str, Any]) -> Iterator[Any]:
    """Yield every number of a schema: its path, the smallest document that has it, and its own schema."""
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    if node.get("type") in ("integer", "number") and "const" not in node:
        yield path, document, node
    properties = node.get("properties", {})
    tags = {
        tag: properties[tag]["const"] for tag in ("name", "mode", "shape", "rule") if "const" in properties.get(tag, {})
    }
    if "enum" in properties.get("shape", {}):
        tags = {"shape": properties["shape"]["enum"][0]}
    for name, inner in properties.items():
        yield from numbers(schema, inner, (*path, name), put(document, path, tags) if tags else document)
    for option in (*node.get("oneOf", ()), *node.get("anyOf", ())):
        yield from numbers(schema, option, path, document)
    if isinstance(node.get("items"), dict):
        yield from numbers(schema, node["items"], (*path, 0), document)


def put(document: dict[str, Any], path: Place, value: Any) -> dict[str, Any]:
    """Return the document with a value at a place; what is missing on the way is made."""
    result: Any = deepcopy(document)
    node = result
    for part, following in zip(path, (*path[1:], None), strict=True):
        empty = value if following is None else [] if following == 0 else {}
        if isinstance(node, list):
            node[:] = node or [empty]
        elif following is None and isinstance(value, dict):
            node[part] = {**node.get(part, {}), **value}
        else:
            node[part] = empty if following is None else node.get(part, empty)
        node = node[part]
    return result


FOUND = [
    ((*above, *path), put({}, above, document) if above else document, node)
    for above, schema in SCHEMAS.items()
    for path, document, node in numbers(schema, schema, (), {})
    if path[:1] not in (("space",), ("training",))  # what a space may hold is bounded by training
    and not {"filter", "template_options"}
    & set(path)  # values of data and templates: any number that JSON readers have
]
BIG = [10**20, 2**64, -(10**20), 10**400, 1e300, -1e300]


def told_of(document: dict[str, Any]) -> dict[str, str]:
    return refusals({"name": "s", "space": {"loss.beta1": [0, 0.5]}} | document)


def test_the_numbers_are_found() -> None:
    names = {".".join(str(part) for part in path) for path, *_ in FOUND}
    assert len(names) > 80
    assert names >= {
        "seeds.tune.0",
        "budget.max_trial_hours",
        "training.steps",
        "training.loss.schedule.0.ramp",
        "training.rollout.engine.memory_share",
        "training.model.lora.alpha",
    }


@pytest.mark.parametrize(("path", "document", "node"), FOUND, ids=map(str, range(len(FOUND))))
def test_a_number_has_bounds(path: Place, document: dict[str, Any], node: dict[str, Any]) -> None:
    assert {"minimum", "exclusiveMinimum"} & node.keys()
    assert {"maximum", "exclusiveMaximum"} & node.keys()
    pointer = "/" + "/".join(map(str, path))
    for value in BIG:
        told = told_of(put(document, path, value))
        place = pointer if pointer in told else "/training/loss"  # epsilon sets two
        assert "than" in told[place] or "between 0 and" in told[place]
    told = told_of(put(document, path, True))
    assert (
        "number is needed (given: true)" in told.get(pointer, "") or "epsilon True must lie" in told["/training/loss"]
    )


@pytest.mark.parametrize(
    ("document", "place", "words"),
    [
        ({"training": {"steps": 2**64}}, "/training/steps", "less than or equal to 10000000 (given: 184467"),
        (
            {"budget": {"max_trial_hours": 1e-300}},
            "/budget/max_trial_hours",
            "greater than or equal to 0.001 (given: 1e-300)",
        ),
        ({"resources": {"cpus": 1e-300}}, "/resources/cpus", "greater than or equal to 0.01"),
        ({"resources": {"gpus": 1e-300}}, "/resources/gpus", "Ray shares out ten-thousandths; write 0.0000 or 0.0001"),
        ({"resources": {"cpus": 0.33333}}, "/resources/cpus", "write 0.3333 or 0.3334"),
        ({"training": {"loss": {"beta1": 1e300}}}, "/training/loss/beta1", "less than or equal to 100 (given: 1e+300)"),
        ({"seeds": {"tune": [1, True]}}, "/seeds/tune/1", "a whole number is needed (given: true)"),
        ({"seeds": {"tune": [2**32]}}, "/seeds/tune/0", "less than 4294967296"),
        ({"space": {"loss.beta1": [True]}}, "/space/loss.beta1", "True: a number is needed"),
        (
            {"space": {"loss.beta1": [0, 1e300]}},
            "/space/loss.beta1",
            "1e+300: Input should be less than or equal to 100",
        ),
        ({"space": {"loss.beta1": 10**400}}, "/space/loss.beta1", "0… is larger than any number that is counted with"),
        (
            {"space": {"loss.beta1": {"type": "float", "low": False, "high": True}}},
            "/space/loss.beta1/high",
            "true is not a number",
        ),
        (
            {"space": {"steps": {"type": "int", "low": 8, "high": 80, "step": True}}},
            "/space/steps/step",
            "true is not a number",
        ),
        (
            {"training": {"task": {"name": "word_problems", "data": {"filter": {"level": [2**63]}}}}},
            "/training/task/data/filter/level",
            "from -9223372036854775808 to 9223372036854775807",
        ),
    ],
)
def test_a_bound_is_named_at_its_place(document: dict[str, Any], place: str, words: str) -> None:
    assert words in told_of(document)[place]
