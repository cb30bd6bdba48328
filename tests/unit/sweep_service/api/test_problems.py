"""Errors that only happen when something is broken."""

import errno
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy.exc import DataError, InterfaceError, OperationalError
from starlette.testclient import TestClient

from sweep_service.api import problems
from sweep_service.api.guard import known_hosts
from sweep_service.errors import (
    Conflict,
    IdempotencyKeyReused,
    InvalidSpec,
    NoLog,
    NotFound,
    NotReady,
    SpecError,
    SweepDeleted,
)
from sweep_service.schemas import Problem, ProblemError


def answer(error: Exception) -> tuple[int, Mapping[str, str], Problem]:
    """Ask an app whose only route raises the error."""
    app = FastAPI()
    problems.install(app)

    @app.get("/")
    def fail() -> None:
        raise error

    got = TestClient(app, raise_server_exceptions=False).get("/")  # a server logs what it does not know
    return got.status_code, got.headers, Problem.model_validate_json(got.content)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotFound("sweep", "swp_x"), 404, "NOT_FOUND"),
        (Conflict("it has ended"), 409, "CONFLICT"),
        (SweepDeleted("it is deleted"), 410, "SWEEP_DELETED"),
        (NoLog("it was removed"), 404, "NO_LOG"),
        (NotReady("no evidence yet"), 409, "NOT_READY"),
        (IdempotencyKeyReused("another"), 422, "IDEMPOTENCY_KEY_REUSED"),
        (InvalidSpec([SpecError("/name", "missing"), SpecError("/space", "empty")]), 422, "INVALID_SPEC"),
        (problems.Refusal(413, "BODY_TOO_LARGE", "too large"), 413, "BODY_TOO_LARGE"),
        (OperationalError("SELECT secret", {}, Exception("locked")), 503, "DATABASE_UNAVAILABLE"),
        (InterfaceError("SELECT secret", {}, Exception("gone")), 503, "DATABASE_UNAVAILABLE"),
        (DataError("SELECT secret", {}, Exception("out of range")), 422, "INVALID_REQUEST"),
        (OverflowError("secret: Python int too large to convert to SQLite INTEGER"), 422, "INVALID_REQUEST"),
        (OSError(errno.EMFILE, "Too many open files", "/secret"), 503, "MACHINE_FAULT"),
        (PermissionError(errno.EACCES, "Permission denied", "/secret"), 500, "UNEXPECTED"),
        (RuntimeError("secret"), 500, "UNEXPECTED"),
    ],
)
def test_every_error_has_its_status_and_code(error: Exception, status: int, code: str) -> None:
    got, headers, problem = answer(error)
    assert (got, problem.status, problem.code) == (status, status, code)
    assert headers["Content-Type"] == "application/problem+json"
    assert "secret" not in problem.detail
    if status == 503:
        assert headers["Retry-After"]


def test_all_reasons_are_listed() -> None:
    *_, problem = answer(InvalidSpec([SpecError("/name", "missing"), SpecError("/space", "empty")]))
    assert [(error.pointer, error.detail) for error in problem.errors] == [("/name", "missing"), ("/space", "empty")]


@pytest.mark.parametrize("length", [10, 500, 50_000])
def test_an_answer_is_short_however_much_is_wrong(length: int) -> None:
    errors = [SpecError(f"/{n}", "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * length) for n in range(900)]
    *_, problem = answer(InvalidSpec(errors))
    assert len(problem.model_dump_json().encode()) < 20_000
    *told, last = problem.errors
    assert len(told) <= 100
    assert last == ProblemError(detail=f"and {900 - len(told)} more")
    assert [error.pointer for error in told] == [f"/{n}" for n in range(len(told))]
    *_, problem = answer(problems.Refusal(422, "INVALID_REQUEST", "x" * 100_000))
    assert problem.detail.endswith("x…")


@pytest.mark.parametrize(
    ("host", "url", "known"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080", set[str]()),
        ("0.0.0.0", "https://sweeps.example.org", {"sweeps.example.org"}),
        ("::", "http://api:8080", {"api"}),
        ("10.0.0.5", "http://10.0.0.5:80", {"10.0.0.5"}),
    ],
)
def test_an_api_answers_to_loopback_and_its_own_names(host: str, url: str, known: set[str]) -> None:
    assert known_hosts(host, url) == {"localhost", "127.0.0.1", "::1"} | known
    further = known_hosts(host, url, "Sweeps.lab, api.example.org.")
    assert further == known_hosts(host, url) | {"sweeps.lab", "api.example.org"}


def test_the_documentation_lists_every_code() -> None:
    code = "".join(path.read_text() for path in Path("sweep_service/api").glob("*.py"))
    codes = set(re.findall(r'\d{3}, "([A-Z_]+)"', code)) | set(re.findall(r'\("([A-Z_]{5,})", f"', code))
    assert len(codes) > 15
    documented = Path("docs/api.md").read_text()
    assert [code for code in codes if f"`{code}`" not in documented] == []
