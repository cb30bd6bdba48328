"""Every error as `application/problem+json` (RFC 9457): the errors of the table `CODES`, and those of the API."""

import logging
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy.exc import DataError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from sweep_service.api.methods import allowed_methods
from sweep_service.errors import CODES, InvalidSpec, ServiceError
from sweep_service.schemas import Problem, ProblemError
from trainers.config.complaints import shortened
from trainers.process.machine_faults import machine_fault

log = logging.getLogger(__name__)

_MOST_ERRORS: Final = 100
_ROOM_BYTES: Final = 16_000
"""Room for the errors of one answer."""
_LONGEST_DETAIL, _LONGEST_ERROR = 2000, 1000
"""Characters of the sentence about the whole, and of one error; both may repeat what somebody wrote."""
TOO_LARGE = (DataError, OverflowError)
"""Errors of a database that has no place for a value: a bound on it is missing, but the request is to blame."""
_AWAY = (OperationalError, InterfaceError, PoolTimeout)
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Default headers of every answer; an answer's own ones come first."""


class Refusal(Exception):
    """A refused request, and the answer that says why. The API raises it before the service sees the request."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        errors: Sequence[ProblemError] = (),
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers, self.errors = status, code, detail, headers, errors

    def response(self) -> Response:
        """Return the answer, of at most 20 KB."""
        body = Problem(
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            code=self.code,
            detail=shortened(self.detail, _LONGEST_DETAIL),
            errors=_that_fit(self.errors),
        )
        content = body.model_dump_json(exclude_none=True)
        return Response(content, self.status, dict(self.headers or {}), media_type="application/problem+json")


def _that_fit(errors: Sequence[ProblemError]) -> list[ProblemError]:
    """Return the errors that fit into the answer, and how many more there are."""
    shown, room = list[ProblemError](), _ROOM_BYTES
    for error in errors[:_MOST_ERRORS]:
        short = error.model_copy(update={"detail": shortened(error.detail, _LONGEST_ERROR)})
        room -= len(short.model_dump_json().encode())
        if room < 0:
            break
        shown.append(short)
    if more := len(errors) - len(shown):
        shown.append(ProblemError(detail=f"and {more} more"))
    return shown


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of refusals with these statuses, for a route."""
    return {status: {"description": HTTPStatus(status).phrase, "model": Problem} for status in statuses}


def wrong_parameters(*errors: ProblemError) -> Refusal:
    """Return the refusal of a request with these errors in its parameters."""
    detail = "; ".join(f"{error.parameter}: {error.detail}" for error in errors)
    return Refusal(422, "INVALID_REQUEST", detail, errors=errors)


def install(app: FastAPI) -> None:
    """Make the app answer every exception with a problem. All answers are `async`, so that none waits for a thread."""
    for kind in CODES:
        app.add_exception_handler(kind, _service_error)
    for kind in _AWAY:
        app.add_exception_handler(kind, _database_away)
    app.add_exception_handler(OSError, _machine_fault)
    for kind in TOO_LARGE:
        app.add_exception_handler(kind, _too_large)
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)


async def _service_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    status, code = CODES[type(error)]
    if not isinstance(error, InvalidSpec):
        later = {"Retry-After": "2"} if status == 503 else None
        return Refusal(status, code, str(error), later).response()
    errors = [ProblemError(pointer=item.pointer, detail=item.detail) for item in error.errors]
    return Refusal(status, code, error.summary, errors=errors).response()


async def _refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    mistakes = error.errors()
    if any(mistake["loc"][0] == "path" for mistake in mistakes):
        return Refusal(404, "NOT_FOUND", f"there is nothing at {request.url.path[:200]}").response()
    errors = [ProblemError(parameter=str(mistake["loc"][1]), detail=mistake["msg"]) for mistake in mistakes]
    return wrong_parameters(*errors).response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, headers = request.url.path[:200], dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = allowed_methods(request)
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    details = {
        404: ("NO_SUCH_ROUTE", f"there is nothing at {path}; /openapi.json lists what there is"),
        405: ("METHOD_NOT_ALLOWED", f"{path} does not take {request.method}"),
    }
    code, detail = details.get(error.status_code, (HTTPStatus(error.status_code).name, str(error.detail)))
    return Refusal(error.status_code, code, detail, headers).response()


async def _database_away(_request: Request, error: Exception) -> Response:
    log.warning("the database does not answer: %s", error)
    detail = "the database does not answer; ask again"
    return Refusal(503, "DATABASE_UNAVAILABLE", detail, {"Retry-After": "2"}).response()


async def _machine_fault(_request: Request, error: Exception) -> Response:
    """Say that the machine lets the API open or write no file; any other error of the system is unexpected."""
    if (fault := machine_fault(error)) is None:
        raise error
    log.warning("the machine fails the API: %s", fault)
    detail = "the server's machine can open or write no file now: its disk is full, or too many are open; ask again"
    return Refusal(503, "MACHINE_FAULT", detail, {"Retry-After": "2"}).response()


async def _too_large(_request: Request, error: Exception) -> Response:
    log.warning("the database has no place for a value of a request: %s", error)
    detail = "a value of the request is larger than the database can hold; numbers have at most 64 bits"
    return Refusal(422, "INVALID_REQUEST", detail).response()


async def _unexpected(_request: Request, error: Exception) -> Response:
    name = secrets.token_hex(4)
    log.error("unexpected error %s: %r", name, error)
    detail = f"an unexpected error; the server's log tells more under {name}"
    return Refusal(500, "UNEXPECTED", detail, HEADERS).response()  # this answer does not pass the guard
