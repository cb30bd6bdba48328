"""The app: the service's routes, the status page, the guard, a problem for every error, and the probes."""

from fastapi import FastAPI, Request

from sweep_service.api import (
    benchmark_routes,
    catalog_routes,
    log_routes,
    page_routes,
    problems,
    sweep_routes,
    verb_routes,
)
from sweep_service.api.description import describe
from sweep_service.api.event_stream import Streams
from sweep_service.api.guard import PROBES, Guard, known_hosts
from sweep_service.api.methods import HeadAsGet
from sweep_service.api.problems import Refusal, documented
from sweep_service.errors import NotReady
from sweep_service.service import SweepService

_DESCRIPTION = """Hyperparameter sweeps for RL post-training of language models.

Lists come in pages: ask again with `next_page_token` as `page_token` until it is null. Every error is
`application/problem+json` with a `code` for programs. Readers must accept fields and codes they do not know."""


def create_app(service: SweepService, token: str) -> FastAPI:
    """Return the ASGI app.

    Args:
        service: the service that the routes ask.
        token: the bearer token that clients must send.
    """
    app = FastAPI(
        title="Sweeps",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.state.service, app.state.token, app.state.streams = service, token, Streams()
    for module in (sweep_routes, verb_routes, catalog_routes, benchmark_routes, log_routes):
        app.router.routes += module.router.routes  # include_router would build each a second time, at the first request
    for path, probe in zip(PROBES, (livez, readyz), strict=True):
        app.add_api_route(path, probe, tags=["probes"], responses=documented(500, 503))
    settings = service.settings
    app.add_middleware(HeadAsGet)
    app.add_middleware(Guard, hosts=known_hosts(settings.host, settings.url, settings.public_hosts))
    page_routes.install(app)
    problems.install(app)
    app.openapi = lambda: describe(app)
    return app


async def livez() -> dict[str, str]:
    """Say that the process answers; nothing else is looked at, and no busy thread waited for."""
    return {"status": "ok"}


def readyz(request: Request) -> dict[str, str]:
    """Say whether sweeps can be served: the database answers, and the worker and Ray's node of this machine live."""
    try:
        request.app.state.service.check_ready()
    except NotReady as error:
        raise Refusal(503, "NOT_READY", str(error), {"Retry-After": "2"}) from error
    return {"status": "ok"}
