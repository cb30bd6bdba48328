"""The app: the service's routes, the status page, the guard, a problem for every error, and the probes."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi

from sweep_service.api import catalog_routes, page_routes, problems
from sweep_service.api.event_stream import Streams
from sweep_service.api.guard import PROBES, Guard, known_hosts
from sweep_service.api.methods import HeadAsGet
from sweep_service.api.problems import Refusal
from sweep_service.api.sweep_routes import router
from sweep_service.errors import NotReady
from sweep_service.service import SweepService

_DESCRIPTION = """Hyperparameter sweeps for RL post-training of language models.

Lists come in pages: ask again with `next_page_token` as `page_token` until it is null. Every error is
`application/problem+json` with a `code` for programs. Readers must accept fields and codes they do not know."""


def create_app(service: SweepService, token: str) -> FastAPI:
    """Return the ASGI app.

    Args:
        service: what the routes ask.
        token: what clients must send as bearer token.
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
    app.include_router(router)
    app.include_router(catalog_routes.router)
    for path, probe in zip(PROBES, (livez, readyz), strict=True):
        app.add_api_route(path, probe, tags=["probes"])
    settings = service.settings
    app.add_middleware(HeadAsGet)
    app.add_middleware(Guard, hosts=known_hosts(settings.host, settings.url, settings.public_hosts))
    page_routes.install(app)
    problems.install(app)
    app.openapi = lambda: _openapi(app)
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Generate the description of the API; errors have a media type of their own, which FastAPI cannot be told."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            separate_input_output_schemas=False,
        )
        schema["components"]["schemas"].pop("Ending", None)  # of Trial.ending, which is not published
        for operations in schema["paths"].values():
            for operation in operations.values():
                if content := operation["responses"].get("default", {}).get("content"):
                    content["application/problem+json"] = content.pop("application/json")
        app.openapi_schema = schema  # whole, because several threads may ask at once
    return app.openapi_schema


async def livez() -> dict[str, str]:
    """Say that the process answers; nothing else is looked at, and no busy thread waited for."""
    return {"status": "ok"}


def readyz(request: Request) -> dict[str, str]:
    """Say whether requests can be served: the database answers and its schema is the one this version needs."""
    try:
        request.app.state.service.check_ready()
    except NotReady as error:
        raise Refusal(503, "NOT_READY", str(error), {"Retry-After": "2"}) from error
    return {"status": "ok"}
