"""The routes under /v1: each reads its parameters, asks the service, and shapes the answer."""

import json
import re
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BeforeValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool

from sweep_service.api.json_body import json_body
from sweep_service.api.methods import is_head
from sweep_service.api.paging import MAX_PAGE, Pages, Paging
from sweep_service.api.problems import Refusal, documented, wrong_parameters
from sweep_service.auth import fingerprint, same
from sweep_service.errors import NotReady
from sweep_service.report.comparison_model import SweepsComparison
from sweep_service.schemas import (
    MEDIA_TYPES,
    Best,
    Building,
    ConfigCurve,
    ConfigView,
    EventView,
    MetricKey,
    Page,
    ProbeView,
    ProblemError,
    ReportFormat,
    ReportsView,
    SubmittedView,
    SweepSummary,
    SweepView,
    TrialView,
    sweep_schema,
)
from sweep_service.service import SweepService, best_yaml
from sweep_service.sweep.plan import SweepPlan
from sweep_service.sweep.records import Curve, Sample, SweepState, TrialState
from sweep_service.sweep.sweep_filter import SweepFilter

MAX_KEYS = 50
MAX_COMPARED = 20
MAX_LABELS = 50
_KEY_PATTERN = r"^[\x21-\x7e]{1,255}$"
_bearer = HTTPBearer(auto_error=False, description="The token in the server's token file.")

# What reads no store is `async`: it waits for none of the threads, which others' requests may all hold.


async def authorize(request: Request, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
    """Demand the bearer token."""
    if bearer is None or not same(bearer.credentials, request.app.state.token):
        detail = "send the header `Authorization: Bearer TOKEN` with the token of the server's token file"
        raise Refusal(401, "UNAUTHENTICATED", detail, {"WWW-Authenticate": "Bearer"})


async def check_parameters(request: Request) -> None:
    """Refuse a query parameter that the route does not have, and two values of one that takes a single value.

    A misspelt `validate_only` would submit for real, and so would one that is true and false.
    """
    if request.query_params:  # the description is made by the first who needs it, and takes its time
        await run_in_threadpool(_check_parameters, request)


def _check_parameters(request: Request) -> None:
    operation = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()]
    parameters = {
        parameter["name"]: parameter for parameter in operation.get("parameters", []) if parameter["in"] == "query"
    }
    takes = f"it takes {', '.join(sorted(parameters))}" if parameters else "it takes none"
    errors: list[ProblemError] = []
    for name, times in sorted(Counter(name for name, _ in request.query_params.multi_items()).items()):
        if name not in parameters:
            errors.append(ProblemError(parameter=name[:100], detail=f"there is no such parameter; {takes}"))
        elif times > 1 and '"array"' not in json.dumps(parameters[name]["schema"]):
            errors.append(ProblemError(parameter=name, detail="it is given more than once; give it once"))
    if errors:
        raise wrong_parameters(*errors)


async def _service(request: Request) -> SweepService:
    return request.app.state.service


async def _token_name(request: Request) -> str:
    return fingerprint(request.app.state.token)


Service = Annotated[SweepService, Depends(_service)]
By = Annotated[str, Depends(_token_name)]
"""Fingerprint of the token with which a request was made, for the record of requests."""
SweepId = Annotated[str, Path(pattern=r"^swp_[0-9a-z]{1,36}$")]
SweepIds = Annotated[str, StringConstraints(pattern=r"^swp_[0-9a-z]{1,36}(,swp_[0-9a-z]{1,36})*$")]
Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?=[^\x00]*$", max_length=265)]
Text = Annotated[
    str,
    Query(max_length=64, pattern=r"^[^\x00]*$", description="Only with this in name or id, in capitals or not."),
]


def _like_a_date(value: object) -> object:
    """Refuse what is not written as a date; numbers would be taken for seconds."""
    if isinstance(value, str) and not re.match(r"\d{4}-\d\d-\d\d", value):
        raise PydanticCustomError("date", "give a date, such as 2026-11-23 or 2026-11-23T16:00:00Z")
    return value


_WRITTEN_DATE = {"anyOf": [{"type": "string", "format": form} for form in ("date", "date-time")]}
Date = Annotated[datetime, BeforeValidator(_like_a_date), WithJsonSchema(_WRITTEN_DATE)]
_A_DATE = "a date (2026-11-23, midnight), or one with a time (2026-11-23T16:00:00Z); without a zone it is UTC"
CreatedAfter = Annotated[Date | None, Query(description=f"Only those submitted then or later: {_A_DATE}.")]
CreatedBefore = Annotated[Date | None, Query(description=f"Only those submitted before: {_A_DATE}.")]
Digest = Annotated[
    str | None,
    Query(pattern="^[0-9a-z]{1,64}$", description="The final report of this digest; `…/reports` lists them."),
]
TrialId = Annotated[str, StringConstraints(pattern=r"^trl_[0-9a-z]{1,36}$")]
REFUSALS = documented(400, 401, 403, 422, 500, 503)
"""Refusals of every route under /v1: of unknown hosts, strangers, wrong parameters, or without a database."""


def v1_router(below: str = "", responses: dict[int | str, Any] | None = None, **settings: Any) -> APIRouter:
    """Return a router for paths below /v1; it demands the token and refuses parameters that a route does not have."""
    dependencies = [Depends(authorize), Depends(check_parameters)]
    return APIRouter(
        prefix=f"/v1{below}", dependencies=dependencies, responses=REFUSALS | (responses or {}), **settings
    )


router = v1_router()


def body_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a body that the service checks itself, so that its errors name every place in it."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post(
    "/sweeps",
    status_code=201,
    response_model=SubmittedView,
    responses={
        200: {"description": "The plan, with `validate_only`.", "model": SweepPlan},
        **documented(410, 411, 413, 415),
    },
    openapi_extra=body_of({"$ref": "#/components/schemas/SweepSpec"}),
)
def submit(
    service: Service,
    response: Response,
    raw: Annotated[Any, Depends(json_body)],
    idempotency_key: Annotated[
        str | None,
        Header(pattern=_KEY_PATTERN, description="Names this request: sent again with it, it is not done again."),
    ] = None,
    validate_only: Annotated[bool, Query(description="Answer 200 with the plan; store nothing.")] = False,
) -> Any:
    """Submit a sweep. Once this answers 201 the sweep is stored and will run.

    Its data are read first, once for all requests with the same: 503 DATA_BEING_READ asks for patience.
    """
    if validate_only:
        return Response(service.plan(raw).model_dump_json(), media_type="application/json")
    sweep, replayed, plan = service.submit(raw, idempotency_key)
    response.headers["Location"] = f"/v1/sweeps/{sweep.id}"
    if replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return SubmittedView(**dict(view_of(service, sweep.id)), unchecked=plan.unchecked, warnings=plan.warnings)


@router.get("/sweeps")
def list_sweeps(
    service: Service,
    paging: Pages,
    state: Annotated[tuple[SweepState, ...], Query(description="Only these.")] = (),
    label: Annotated[
        tuple[Label, ...], Query(max_length=MAX_LABELS, description="Only with these labels, each as `NAME=TEXT`.")
    ] = (),
    text: Text = "",
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
) -> Page[SweepSummary]:
    """List sweeps, newest first: those that meet all conditions."""
    only = SweepFilter(state, label_pairs(label), text, seconds(created_after), seconds(created_before))
    return paging.page(service.sweeps(paging.size + 1, paging.after(None), only), lambda sweep: sweep.id)


@router.get("/sweeps/{sweep_id}", responses=documented(404))
def get_sweep(service: Service, sweep_id: SweepId) -> SweepView:
    """Return one sweep with its spec and how many of its trials are in which state."""
    return view_of(service, sweep_id)


@router.get("/sweeps/{sweep_id}/probe", responses=documented(404, 409))
def get_probe(service: Service, sweep_id: SweepId) -> ProbeView:
    """Return what a sweep's cost probe measured, and what it means for the sweep. 409 while there is none."""
    return service.probe(sweep_id)


@router.get("/sweeps/{sweep_id}/trials", responses=documented(404))
def list_trials(
    service: Service,
    sweep_id: SweepId,
    paging: Pages,
    state: Annotated[tuple[TrialState, ...], Query(description="Only these.")] = (),
) -> Page[TrialView]:
    """List a sweep's trials in the order in which they are handed out."""
    rows = service.trials(sweep_id, paging.after(-1), paging.size + 1, state)
    return paging.page(rows, lambda trial: trial.number)


@router.get("/trials/{trial_id}", responses=documented(404))
def get_trial(service: Service, trial_id: TrialId) -> TrialView:
    """Return one trial with its objective and its newest checkpoint."""
    return service.trial(trial_id)


@router.get("/sweeps/{sweep_id}/configs", responses=documented(404))
def list_configs(service: Service, sweep_id: SweepId, paging: Pages) -> Page[ConfigView]:
    """List a sweep's configs, baselines first, each with its objective over seeds."""
    rows = service.configs(sweep_id, paging.after(-1), paging.size + 1)
    return paging.page(rows, lambda config: config.number)


@router.get("/sweeps/{sweep_id}/metrics", responses=documented(404))
def list_metrics(
    service: Service,
    sweep_id: SweepId,
    paging: Pages,
    keys: Annotated[
        list[str],
        Query(
            min_length=1,
            max_length=MAX_KEYS,
            description=f"At most {MAX_KEYS} metrics, by name, such as entropy; `…/metrics/keys` lists a sweep's.",
        ),
    ],
    group_by: Annotated[
        Literal["trial", "config"], Query(description="A curve per trial, or per config: mean and range over seeds.")
    ] = "trial",
    last: Annotated[int | None, Query(ge=1, description="Only so many last points of each curve.")] = None,
    trial: Annotated[tuple[TrialId, ...], Query(max_length=MAX_PAGE, description="Only these; not with configs.")] = (),
) -> Page[Curve] | Page[ConfigCurve]:
    """Return metrics over optimizer updates. `keys` may be repeated, or hold several names with commas between."""
    names = list(dict.fromkeys(name for key in keys for name in key.split(",") if name))
    if len(names) > MAX_KEYS:
        detail = f"give at most {MAX_KEYS} metrics at a time, not {len(names)}; ask again for the others"
        raise wrong_parameters(ProblemError(parameter="keys", detail=detail))
    if unknown := service.unknown_metrics(sweep_id, names):
        details = [_no_metric(*item, sweep_id) for item in unknown.items()]
        raise wrong_parameters(*(ProblemError(parameter="keys", detail=detail) for detail in details))
    if group_by == "config":
        grouped = [_tail(curve, last) for curve in service.config_curves(sweep_id, names)]
        return _cut(paging, grouped, [(curve.config_id, curve.stage, curve.key) for curve in grouped])
    curves = [_tail(curve, last) for curve in service.store.curves(sweep_id, names, trial or None)]
    return _cut(paging, curves, [(curve.trial_id, curve.key) for curve in curves])


def _no_metric(name: str, close: Sequence[str], sweep_id: str) -> str:
    meant = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"there is no metric {name[:100]!r}; {meant}/v1/sweeps/{sweep_id}/metrics/keys lists those of this sweep"


@router.get("/sweeps/{sweep_id}/metrics/keys", responses=documented(404))
def list_metric_keys(service: Service, sweep_id: SweepId, paging: Pages) -> Page[MetricKey]:
    """List the metrics that a sweep's trials have recorded, with unit and meaning: the `keys` of its curves."""
    return paging.page_of_all(service.metric_keys(sweep_id), lambda row: row.key)


@router.get(
    "/sweeps/{sweep_id}/events",
    response_model=Page[EventView],
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **documented(404, 429)},
)
async def list_events(
    request: Request,
    service: Service,
    sweep_id: SweepId,
    paging: Pages,
    after: Annotated[int, Query(ge=0, lt=2**31, description="Only events with a higher number.")] = 0,
    last_event_id: Annotated[int | None, Header(ge=0, lt=2**31)] = None,
) -> Any:
    """List a sweep's events by number; with `Accept: text/event-stream`, stream them until the sweep has ended."""
    if "text/event-stream" in request.headers.get("accept", ""):
        await run_in_threadpool(service.store.get_sweep, sweep_id)  # NotFound is answered before the stream begins
        first = after if last_event_id is None else last_event_id
        return request.app.state.streams.response(service, sweep_id, first, head=is_head(request))
    rows = await run_in_threadpool(service.store.list_events, sweep_id, paging.after(after), paging.size + 1)
    return paging.page([EventView(**dict(event)) for event in rows], lambda event: event.seq)


@router.get("/sweeps/{sweep_id}/samples", responses=documented(404))
def list_samples(service: Service, sweep_id: SweepId, paging: Pages) -> Page[Sample]:
    """List completions that policies wrote at their evaluations. A page never splits those of one evaluation."""
    rows = service.store.list_samples(sweep_id, paging.after(("", -1)), paging.size + 1)
    return paging.page(rows, lambda sample: (sample.trial_id, sample.step))


_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get(
    "/sweeps/{sweep_id}/report",
    response_class=Response,
    responses={
        200: {
            "description": "The report. Its JSON is described by `/v1/schemas/report`.",
            "headers": {
                "Report-Interim": {"description": "`true` while the sweep goes on.", "schema": {"type": "boolean"}},
                "Age": {"description": "Seconds since an interim report was built.", "schema": {"type": "integer"}},
            },
            "content": {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()}
            | {"application/json": {"schema": {"externalDocs": {"url": "/v1/schemas/report"}, "type": "object"}}},
        },
        202: {"model": Building},
        **documented(404, 409),
    },
)
def get_report(
    request: Request,
    service: Service,
    sweep_id: SweepId,
    format: Annotated[ReportFormat, Query()] = "html",
    interim: Annotated[
        bool, Query(description="While the sweep runs: the newest interim report; asking has a newer one built.")
    ] = True,
    digest: Digest = None,
) -> Response:
    """Return the report; 202 while there is none, 409 if it could not be built."""
    try:
        report = service.report(sweep_id, format, interim=interim, digest=digest)
    except NotReady as error:
        body = Building(detail=str(error)).model_dump_json()
        return Response(body, 202, {"Retry-After": "2"}, media_type="application/json")
    headers = {"Content-Security-Policy": _REPORT_POLICY}
    if report.interim:
        age = max(0, round(time.time() - report.created_at))
        headers |= {"Report-Interim": "true", "Age": str(age), "Cache-Control": "no-store"}
    headers["Vary"] = "Accept-Encoding"
    if (gzip := report.gzip) is not None and takes_gzip(request.headers.get("accept-encoding", "")):
        return Response(gzip, headers=headers | {"Content-Encoding": "gzip"}, media_type=MEDIA_TYPES[format])
    return Response(report.content, headers=headers, media_type=MEDIA_TYPES[format])


@router.get("/sweeps/{sweep_id}/reports", responses=documented(404))
def list_reports(service: Service, sweep_id: SweepId) -> ReportsView:
    """Return which final reports are kept: the one that stands, and those that a newer one has superseded."""
    return service.reports(sweep_id)


def takes_gzip(accepted: str) -> bool:
    """True if a client takes an answer compressed by gzip, by its header Accept-Encoding (RFC 9110)."""
    weights: dict[str, str] = {}
    for item in accepted.lower().replace(" ", "").split(","):
        name, _, weight = item.partition(";q=")
        weights[name] = weight or "1"
    return re.fullmatch(r"0(\.0*)?", weights.get("gzip", weights.get("*", "0"))) is None


@router.get(
    "/sweeps/{sweep_id}/best",
    response_model=Best,
    responses={200: {"content": {"application/yaml": {}}}, **documented(404, 409)},
)
def get_best(service: Service, sweep_id: SweepId, format: Annotated[Literal["json", "yaml"], Query()] = "json") -> Any:
    """Return the best config so far; as YAML, ready for `python -m trainers`. 409 while no config has a result."""
    best = service.best(sweep_id)
    return best if format == "json" else Response(best_yaml(best), media_type="application/yaml")


@router.get("/compare", responses=documented(404, 409))
def compare(
    service: Service,
    sweeps: Annotated[
        list[SweepIds], Query(max_length=MAX_COMPARED, description="Ids; differences are from the first one.")
    ],
) -> SweepsComparison:
    """Join sweeps by config and compare each with the first. `sweeps` may be repeated, or hold ids with commas."""
    ids = list(dict.fromkeys(name for part in sweeps for name in part.split(",") if name))
    if not 2 <= len(ids) <= MAX_COMPARED:
        detail = f"give 2 to {MAX_COMPARED} different sweeps, not {len(ids)}"
        raise wrong_parameters(ProblemError(parameter="sweeps", detail=detail))
    return service.compare(ids)


@router.get("/schemas/sweep")
def get_schema() -> dict[str, Any]:
    """Return the JSON Schema of a sweep's spec."""
    return sweep_schema()


@router.get("/schemas/report", response_class=Response, responses={200: {"content": {"application/schema+json": {}}}})
def get_report_schema() -> Response:
    """Return the JSON Schema of a report."""
    from sweep_service.report.schema import schema_text  # brings plotly

    return Response(schema_text(), media_type="application/schema+json")


def label_pairs(labels: Sequence[Label]) -> tuple[tuple[str, str], ...]:
    """Return labels as names and texts."""
    return tuple((name, text) for name, _, text in (label.partition("=") for label in labels))


def seconds(date: datetime | None) -> float | None:
    """Return a date as seconds since the Unix epoch; without a zone it is in UTC."""
    return date and (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def view_of(service: SweepService, sweep_id: str) -> SweepView:
    """Return a sweep with its hours, its verdict and its trials counted."""
    sweep = service.store.get_sweep(sweep_id)
    fields = dict(service.summaries([sweep])[0]) | dict(service.judged(sweep_id))
    added, hours = sweep.added_benchmarks, service.gpu_hours(sweep)
    return SweepView(**fields, spec=sweep.spec, added_benchmarks=added, gpu_hours=hours)


AnyCurve = TypeVar("AnyCurve", Curve, ConfigCurve)


def _tail(curve: AnyCurve, last: int | None) -> AnyCurve:
    """Keep the last points of a curve."""
    if last is None:
        return curve
    lists = {name: value[-last:] for name, value in dict(curve).items() if isinstance(value, list)}
    return curve.model_copy(update=lists)


def _cut(paging: Paging, curves: list[AnyCurve], names: list[tuple[Hashable, ...]]) -> Page[AnyCurve]:
    """Return the page that begins after the curve named by the token; no curve that was there is ever left out."""
    begin = 0 if (after := paging.after(())) == () else names.index(after) + 1
    rest = dict(zip(names[begin : begin + paging.size + 1], curves[begin:], strict=False))
    page = paging.page(list(rest), lambda name: name)
    return Page(
        items=[rest[name] for name in page.items], next_page_token=page.next_page_token, page_size=page.page_size
    )
