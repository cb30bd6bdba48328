"""Hostile JSON never gets past the door, and what gets past is JSON again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep_service.api.json_body import parse
from sweep_service.api.problems import Refusal
from sweep_service.intake.document_size import MAX_DEPTH

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_what_is_json_is_read_as_it_is(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert parse(text.encode()) == value


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode()))
def test_anything_else_is_refused_in_one_way(body: bytes) -> None:
    try:
        value = parse(body)
    except Refusal as refusal:
        assert refusal.status in (400, 422)  # noqa: PT017 (most bodies are refused, some are not)
    else:
        json.dumps(value, allow_nan=False)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_is_limited(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    parse((opening * (MAX_DEPTH - 1) + "1" + closing * (MAX_DEPTH - 1)).encode())
    for depth in (MAX_DEPTH + 1, 10_000):
        with pytest.raises(Refusal, match="nested deeper"):
            parse((opening * depth + "1" + closing * depth).encode())


def test_a_number_too_long_for_python_is_refused() -> None:
    with pytest.raises(Refusal):
        parse(b"1" * 10_000)
