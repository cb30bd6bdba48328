"""The routes of logs: the output of trainers and runners, byte for byte, in parts."""

from typing import Annotated, Any, Final

from fastapi import Path, Query, Response

from sweep_service.api.problems import documented, wrong_parameters
from sweep_service.api.sweep_routes import Service, SweepId, v1_router
from sweep_service.processes.log_files import MAX_PART
from sweep_service.schemas import LOG_HEADERS, LogPart, ProblemError

MAX_TAIL: Final = 100_000
WorkId = Annotated[str, Path(pattern=r"^(trl|evl)_[0-9a-z]{1,36}$", description="Id of a trial or an evaluation.")]
Offset = Annotated[int, Query(ge=0, lt=2**63, description="Leave out so many bytes at the beginning.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PART, description="Answer with so many bytes at most; 1 MiB is the most.")]
Tail = Annotated[
    int | None,
    Query(
        ge=1, le=MAX_TAIL, description="Answer with so many last lines, as far as `limit` allows; not with `offset`."
    ),
]
_HEADERS: Final = {
    header: {"description": field.description, "schema": {"type": "boolean" if field.annotation is bool else "integer"}}
    for name, header in LOG_HEADERS.items()
    for field in [LogPart.model_fields[name]]
}
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A part of the log, byte for byte: it may hold control characters.",
        "headers": _HEADERS,
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}
router = v1_router(responses=documented(404, 409) | _TEXT, default_response_class=Response)


@router.get("/trials/{work_id}/logs")
def get_trial_log(
    service: Service,
    work_id: WorkId,
    attempt: Annotated[int | None, Query(ge=1, lt=2**31, description="Its number; default: the newest one.")] = None,
    offset: Offset = 0,
    limit: Limit = MAX_PART,
    tail: Tail = None,
) -> Response:
    """Return what the trainer of a trial or an evaluation printed in one attempt; 409 while it has printed nothing."""
    _check(offset, tail)
    return _answer(service.trial_log(work_id, attempt, offset, limit, tail))


@router.get("/sweeps/{sweep_id}/logs")
def get_runner_log(
    service: Service, sweep_id: SweepId, offset: Offset = 0, limit: Limit = MAX_PART, tail: Tail = None
) -> Response:
    """Return what a sweep's runners printed; it is empty if all went well. 409 while none has begun."""
    _check(offset, tail)
    return _answer(service.runner_log(sweep_id, offset, limit, tail))


def _check(offset: int, tail: int | None) -> None:
    if offset and tail is not None:
        detail = "give either `tail`, for the end, or `offset`, for a part"
        raise wrong_parameters(ProblemError(parameter="tail", detail=detail))


def _answer(part: LogPart) -> Response:
    fields = part.model_dump(mode="json", exclude={"content"}, exclude_none=True)
    headers = {LOG_HEADERS[name]: str(value).lower() for name, value in fields.items()}
    return Response(part.content, headers=headers, media_type="text/plain; charset=utf-8")
