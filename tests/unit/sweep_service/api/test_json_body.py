"""Hostile JSON never gets past the door, and what gets past is JSON again."""

import asyncio
import json

import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Scope

from sweep_service.api.json_body import MAX_BYTES, json_body, parse
from sweep_service.api.problems import Refusal

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


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-length": "2"}, None),
        ({}, 411),
        ({"content-length": "2", "transfer-encoding": "chunked"}, 411),
        ({"content-length": str(MAX_BYTES + 1)}, 413),
        ({"content-length": "2", "content-type": "text/plain"}, 415),
    ],
)
def test_a_body_comes_whole_and_small(headers: dict[str, str], status: int | None) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    raw = {"content-type": "application/json", **headers}
    scope: Scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in raw.items()]}
    if status is None:
        assert asyncio.run(json_body(Request(scope, receive))) == {}
        return
    with pytest.raises(Refusal) as refusal:
        asyncio.run(json_body(Request(scope, receive)))
    assert refusal.value.status == status


def test_a_body_that_its_client_never_ends_is_refused() -> None:
    async def hang_up() -> Message:
        return {"type": "http.disconnect"}

    scope: Scope = {"type": "http", "headers": [(b"content-type", b"application/json"), (b"content-length", b"9")]}
    with pytest.raises(Refusal, match="it ends before its Content-Length"):
        asyncio.run(json_body(Request(scope, hang_up)))
