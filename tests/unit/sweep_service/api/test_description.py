"""The description of the API is made once, whoever asks."""

import time
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from sweep_service.api import description
from tests.waiting import in_threads


def test_threads_that_ask_at_once_make_one_description(monkeypatch: pytest.MonkeyPatch) -> None:
    app, made = FastAPI(), list[object]()
    app.add_api_route("/things", lambda size: size)  # a parameter may be refused, so there are components

    def make_slowly(**options: Any) -> dict[str, Any]:
        made.append(options)
        time.sleep(0.2)  # for the other threads to ask meanwhile
        return get_openapi(**options)

    monkeypatch.setattr(description, "get_openapi", make_slowly)
    answers = in_threads(4, lambda _: description.describe(app))
    assert len(made) == 1
    assert all(answer is answers[0] for answer in answers)
