"""The status page's routes: signing in, the list of sweeps, one sweep and its curves.

The cookie opens these routes alone, never /v1. Browsers send it for pages of other servers on the same host too, so
what changes something must come from this very origin.
"""

import re
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from sweep_service.api.json_body import read_body
from sweep_service.api.problems import Refusal
from sweep_service.api.sweep_routes import Digest, Label, Service, SweepId, get_report, label_pairs
from sweep_service.auth import cookie, fingerprint, read_token
from sweep_service.errors import Conflict, NoLog, NotFound, NotReady, ReportFailed
from sweep_service.pages.config_looks import looks
from sweep_service.pages.live_sweeps import LiveSweeps
from sweep_service.pages.rendering import HEADERS, POLICY, render, static_file
from sweep_service.pages.session import cookie_name, is_valid, may_sign_in, new_cookie
from sweep_service.processes.log_files import settled
from sweep_service.sweep.deletion import DeletionState
from sweep_service.sweep.records import Sweep, SweepState, Trial, Work
from sweep_service.sweep.sweep_filter import SweepFilter
from sweep_service.tracking.mlflow_door import SIGN_IN, new_ticket
from sweep_service.verbs import VERBS
from trainers.yaml_text import write_yaml

_MAX_FORM_BYTES: Final = 8192
_LISTED: Final = 50
_ID: Final = "swp_[0-9a-z]{1,36}"
_TRIAL: Final = "trl_[0-9a-z]{1,36}"
_WORK: Final = "(trl|evl)_[0-9a-z]{1,36}"
_OWN_PLACE: Final = re.compile(
    rf"/(\?[\w=&%.+-]*|sweeps/{_ID}(/(report(\?digest=[0-9a-z]{{1,64}})?|spec|delete))?|trials/{_WORK}/log|trials/{_TRIAL}/stop|mlflow/(#/[\w/?=&%.-]*)?)?"
)
_LOG_LINES: Final = 200
_BUTTONS: Final = {verb.name: verb.button for verb in VERBS.values() if verb.button}
"""Verbs by the last part of their form's address."""
PageVerb = Annotated[str, Path(pattern=f"^({'|'.join(_BUTTONS)})$")]
_A_DAY: Final = "give a day, such as 2026-11-23"
_WANTED: Final = {
    "text": "give at most 64 characters",
    "label": "give a name and a text, such as team=rl",
    "state": f"give one of {', '.join(SweepState)}",
    "created_after": _A_DAY,
    "created_before": _A_DAY,
    "before": "follow a link to older sweeps",
}
"""Values that the parameters of the list of sweeps take."""
_FOR_GOOD: Final = "public, max-age=31536000, immutable"


class AnotherPage(Exception):
    """A page cannot be shown; this answer is given instead."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status_code)
        self.answer = answer


class PageRoute(APIRoute):
    """A route that says on a page what is wrong with an address."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                mistakes = {str(one["loc"][1]): one for one in reversed(error.errors()) if one["loc"][0] == "query"}
                if request.method != "GET" or not mistakes:
                    raise
                parts = list[str]()
                for name, one in mistakes.items():
                    remedy = _WANTED.get(name) or one["msg"][:1].lower() + one["msg"][1:]
                    parts.append(f"{name} is {str(one['input'])[:60]!r}; {remedy}")
                return _message(422, "This address is wrong", f"{'; '.join(parts)}.")

        return answer


router = APIRouter(include_in_schema=False, route_class=PageRoute)


def install(app: FastAPI) -> None:
    """Add the status page to an app whose state has service and token."""
    app.state.live = LiveSweeps(app.state.service)
    app.router.routes += router.routes
    app.add_exception_handler(AnotherPage, _another_page)


async def _another_page(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AnotherPage)
    return error.answer


def _own_place(address: str) -> str:
    """Return the page to show after signing in: the address if it is one of our pages, else the list."""
    return address if _OWN_PLACE.fullmatch(address) else "/"


def _signed_in(request: Request) -> bool:
    shown = cookie(request.headers.getlist("cookie"), cookie_name(request.url.port))
    return is_valid(shown, request.app.state.token, time.time())


async def signed_in_for_page(request: Request) -> None:
    """Lead those who are not signed in to the sign-in page."""
    if not _signed_in(request):
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        raise AnotherPage(RedirectResponse(f"/login?next={quote(_own_place(address))}", 303, HEADERS))


async def signed_in_for_data(request: Request) -> None:
    """Refuse those who are not signed in."""
    if not _signed_in(request):
        raise Refusal(401, "UNAUTHENTICATED", "sign in at /login; programs use /v1 and the bearer token")


def _asked_id(text: str, pattern: str) -> str:
    """Return a text that is an id.

    Raises: NotFound, if it is none: the database is not asked, since PostgreSQL takes no odd characters.
    """
    if re.fullmatch(pattern, text) is None:
        raise NotFound("id", text)
    return text


def known_sweep(service: Service, sweep_id: str) -> str:
    """Return the id of a sweep that exists, for a page about it."""
    try:
        return service.store.get_sweep(_asked_id(sweep_id, _ID)).id
    except NotFound:
        raise AnotherPage(_missing("sweep", sweep_id)) from None


def known_trial(service: Service, trial_id: str) -> Trial:
    """Return a trial that exists, for a page about it."""
    try:
        return service.store.get_trial(_asked_id(trial_id, _TRIAL))
    except NotFound:
        raise AnotherPage(_missing("trial", trial_id)) from None


KnownSweep = Annotated[str, Depends(known_sweep)]
KnownTrial = Annotated[Trial, Depends(known_trial)]


async def from_own_page(request: Request) -> None:
    """Demand that a form was sent by one of our own pages."""
    origin, public = request.headers.get("origin", ""), urlsplit(request.app.state.service.settings.url)
    sender = urlsplit(origin)
    plain = public.scheme == "https" and sender.scheme != "https" and sender.netloc == public.netloc
    if plain or sender.netloc not in {request.headers.get("host"), public.netloc}:
        raise Refusal(
            403, "FOREIGN_ORIGIN", f"this form must come from a page of this server, not from {origin[:100]!r}"
        )


def _page(content: str, status: int = 200) -> Response:
    return HTMLResponse(content, status, HEADERS)


def _message(status: int, title: str, text: str, back: str = "/", back_text: str = "All sweeps") -> Response:
    return _page(render("message", title=title, text=text, back=back, back_text=back_text), status)


def _missing(kind: str, id_: str) -> Response:
    return _message(404, f"No such {kind}", f"There is no {kind} {id_[:60]!r} on this server.")


@router.get("/static/{name}")
def get_static(name: str) -> Response:
    """Return the style sheet, a script or the icon."""
    file = static_file(name)
    if file is None:
        raise Refusal(404, "NO_SUCH_ROUTE", "there is no such file")
    return Response(file[0], headers={"Cache-Control": _FOR_GOOD}, media_type=file[1])


@router.get("/login")
async def get_login(next: Annotated[str, Query(max_length=200)] = "/") -> Response:
    """Show the sign-in page."""
    return _page(render("login", next=_own_place(next), wrong=False))


@router.post("/login", dependencies=[Depends(from_own_page)])
async def login(request: Request) -> Response:
    """Set the cookie for whoever has the token, or the key of the printed link."""
    form = await _form(request)
    token, place = request.app.state.token, _own_place(form.get("next", "/"))
    if not may_sign_in(form.get("token", "").strip(), token):
        return _page(render("login", next=place, wrong=True), 401)
    answer = RedirectResponse(place, 303, HEADERS)
    secure = "https" in (request.url.scheme, urlsplit(request.app.state.service.settings.url).scheme)
    name, value = cookie_name(request.url.port), new_cookie(token, time.time())
    answer.set_cookie(name, value, secure=secure, httponly=True, samesite="strict")
    return answer


@router.post("/logout", dependencies=[Depends(from_own_page)])
async def logout(request: Request) -> Response:
    """Remove the cookie."""
    answer = RedirectResponse("/login", 303, HEADERS)
    answer.delete_cookie(cookie_name(request.url.port), httponly=True, samesite="strict")
    return answer


@router.get("/session")
async def get_session(request: Request) -> dict[str, bool]:
    """Say whether the browser is signed in. The sign-in page asks this when a link from another site led to it."""
    return {"signed_in": _signed_in(request)}


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a small form."""
    body = await read_body(request, _MAX_FORM_BYTES)
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}


@router.get("/", dependencies=[Depends(signed_in_for_page)])
def get_overview(
    service: Service,
    before: Annotated[str | None, Query(pattern=f"^{_ID}$")] = None,
    label: Annotated[Label | Literal[""] | None, Query()] = None,
    text: Annotated[str, Query(max_length=64, pattern=r"^[^\x00]*$")] = "",
    state: SweepState | Literal[""] = "",
    created_after: date | Literal[""] = "",
    created_before: date | Literal[""] = "",
) -> Response:
    """Show the sweeps that meet all conditions, newest first; what a form leaves empty is none."""
    only = SweepFilter(
        (state,) if state else (),
        label_pairs([label] if label else []),
        text.strip(),
        _midnight(created_after),
        _midnight(created_before),
    )
    sweeps = service.sweeps(_LISTED + 1, before, only)
    conditions = {
        "text": text.strip(),
        "state": state,
        "label": label or "",
        "created_after": created_after,
        "created_before": created_before,
    }
    query = urlencode({name: value for name, value in conditions.items() if value})
    return _page(
        render(
            "sweeps",
            sweeps=sweeps[:_LISTED],
            older=sweeps[_LISTED - 1].id if len(sweeps) > _LISTED else None,
            before=before,
            conditions=conditions,
            query=query,
            states=list(SweepState),
            now=time.time(),
        )
    )


def _midnight(day: date | Literal[""]) -> float | None:
    """Return when a day begins, in UTC and in seconds since the Unix epoch."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() if day else None


@router.get("/mlflow/", dependencies=[Depends(signed_in_for_page)])
def get_mlflow(service: Service) -> Response:
    """Show a page that signs the browser in to MLflow and goes on to the place after its `#`."""
    settings = service.settings
    if settings.mlflow_token_file is None:
        return RedirectResponse(settings.mlflow_public_url or "/", 303, HEADERS)
    ticket, place = new_ticket(read_token(settings.mlflow_token_file), time.time()), settings.mlflow_public_url
    page = _page(render("mlflow", sign_in=f"{place.rstrip('/')}{SIGN_IN}", ticket=ticket))
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(place))
    page.headers["Content-Security-Policy"] = POLICY.replace("form-action 'self'", f"form-action {origin}")
    return page


@router.get("/sweeps/{sweep_id}", dependencies=[Depends(signed_in_for_page)])
def get_sweep(request: Request, sweep_id: KnownSweep) -> Response:
    """Show one sweep."""
    return _page(request.app.state.live.get(sweep_id).page())


@router.get("/sweeps/{sweep_id}/spec", dependencies=[Depends(signed_in_for_page)])
def get_spec(service: Service, sweep_id: KnownSweep) -> Response:
    """Show a sweep's spec as YAML."""
    sweep = service.store.get_sweep(sweep_id)
    text = write_yaml(sweep.spec.model_dump(mode="json"))
    return _page(render("spec", sweep=sweep, text=text))


@router.get("/sweeps/{sweep_id}/report", dependencies=[Depends(signed_in_for_page)])
def get_report_page(
    request: Request,
    service: Service,
    sweep_id: KnownSweep,
    format: Annotated[Literal["html", "json", "md"], Query()] = "html",
    digest: Digest = None,
) -> Response:
    """Show the report, as isolated as under /v1; while it does not exist, show a page that asks again."""
    try:
        answer = get_report(request, service, sweep_id, format, digest=digest)
    except NotFound:
        return _message(404, "No such report", "It is not kept.", f"/sweeps/{sweep_id}", "Back to the sweep")
    except ReportFailed as error:
        return _message(409, "No report", str(error), f"/sweeps/{sweep_id}", "Back to the sweep")
    if answer.status_code == 202:
        text = "It is being built. This page shows it as soon as it is there."
        answer = _message(202, "The report", text, f"/sweeps/{sweep_id}", "Back to the sweep")
        answer.headers["Refresh"] = "2"
    return answer


@router.get("/trials/{work_id}/log", dependencies=[Depends(signed_in_for_page)])
def get_log(service: Service, work_id: str, attempt: Annotated[int | None, Query(ge=1, lt=2**31)] = None) -> Response:
    """Show the end of the log of a trial or an evaluation, without control characters."""
    try:
        work = service.store.get_work(_asked_id(work_id, _WORK))
    except NotFound:
        return _missing("trial", work_id)
    sweep, part, missing = service.store.get_sweep(work.sweep_id), None, ""
    try:
        part = service.trial_log(work_id, attempt, tail=_LOG_LINES)
    except (NoLog, NotReady) as error:
        missing = str(error)
    text = settled(part.content.decode(errors="replace")) if part else ""
    label = _label(service, sweep, work)
    values = {"work": work, "sweep": sweep, "label": label, "part": part, "text": text, "missing": missing}
    return _page(render("log", **values, lines=_LOG_LINES))


def _label(service: Service, sweep: Sweep, work: Work) -> str:
    """Return the name of a trial's config, as the page of its sweep has it."""
    return looks(sweep, service.store.list_configs(sweep.id))[work.config_id].label


@router.get("/sweeps/{sweep_id}/curves", dependencies=[Depends(signed_in_for_data)])
def get_curves(request: Request, sweep_id: SweepId) -> Response:
    """Return the curves that a sweep's page draws."""
    return Response(request.app.state.live.get(sweep_id).curves(), media_type="application/json")


@router.get("/sweeps/{sweep_id}/delete", dependencies=[Depends(signed_in_for_page)])
def ask_before_deletion(service: Service, sweep_id: str) -> Response:
    """Say what deleting a sweep frees, and ask; once it is asked for, say how far it is."""
    try:
        deletion = service.deletion(_asked_id(sweep_id, _ID))
    except NotFound:
        return _missing("sweep", sweep_id)
    page = _page(render("delete", deletion=deletion))
    if deletion.state is DeletionState.ASKED:
        page.headers["Refresh"] = "2"
    return page


@router.get("/trials/{trial_id}/stop", dependencies=[Depends(signed_in_for_page)])
def ask_before_stop(service: Service, trial: KnownTrial) -> Response:
    """Say what stopping a trial means, and ask whether its result counts."""
    sweep = service.store.get_sweep(trial.sweep_id)
    return _page(render("stop", trial=trial, sweep=sweep, label=_label(service, sweep, trial)))


async def page_by(request: Request) -> str:
    """Return who asks: somebody whose session the token has signed."""
    return f"{fingerprint(request.app.state.token)} (status page)"


PageBy = Annotated[str, Depends(page_by)]


@router.post("/sweeps/{sweep_id}/delete", dependencies=[Depends(signed_in_for_page), Depends(from_own_page)])
async def delete(request: Request, service: Service, sweep_id: str, by: PageBy) -> Response:
    """Delete or archive a sweep, and say how far that is."""
    everything = (await _form(request)).get("what") == "everything"
    try:
        await run_in_threadpool(service.delete, _asked_id(sweep_id, _ID), keep_report=not everything, by=by)
    except NotFound:
        return _missing("sweep", sweep_id)
    except Conflict as error:
        return _message(409, "It cannot be deleted", str(error), f"/sweeps/{sweep_id}", "Back to the sweep")
    return RedirectResponse(f"/sweeps/{sweep_id}/delete", 303, HEADERS)


@router.post("/trials/{trial_id}/stop", dependencies=[Depends(signed_in_for_page), Depends(from_own_page)])
async def stop_trial(request: Request, service: Service, trial: KnownTrial, by: PageBy) -> Response:
    """Stop one trial, and show its sweep."""
    counts = (await _form(request)).get("result") != "discard"
    try:
        sweep = await run_in_threadpool(service.stop_trial, trial.id, counts=counts, by=by)
        await run_in_threadpool(request.app.state.live.look_again, sweep.id)
    except Conflict as error:
        return _message(409, "It cannot be stopped", str(error), f"/trials/{trial.id}/log", "The trial's log")
    return RedirectResponse(f"/sweeps/{sweep.id}", 303, HEADERS)


@router.post("/sweeps/{sweep_id}/{verb}", dependencies=[Depends(signed_in_for_page), Depends(from_own_page)])
def steer(request: Request, service: Service, sweep_id: KnownSweep, verb: PageVerb, by: PageBy) -> Response:
    """Do to a sweep what the form asks, and show it."""
    try:
        getattr(service, verb)(sweep_id, by)
    except Conflict as error:
        return _message(409, _BUTTONS[verb].refusal, str(error), f"/sweeps/{sweep_id}", "Back to the sweep")
    request.app.state.live.look_again(sweep_id)
    return RedirectResponse(f"/sweeps/{sweep_id}", 303, HEADERS)
