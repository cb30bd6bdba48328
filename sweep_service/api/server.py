"""The API as a process: token, database, socket, uvicorn."""

import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn

from sweep_service.api.app import create_app
from sweep_service.api.connections import BACKLOG, TimedConnection
from sweep_service.api.event_stream import Streams
from sweep_service.auth import server_token
from sweep_service.errors import ServiceError
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import open_store
from trainers.process.imports import keep_imports
from trainers.process.signals import hear_stop_signals

_DRAIN_S = 5


class AddressInUse(ServiceError):
    """The address to listen on cannot be had."""


class Server(uvicorn.Server):
    """Uvicorn that ends the event streams first, so that it can stop at once. `run_api` hears its signals."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self.streams = streams

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone: uvicorn would raise them again at its end, and so end us before ours."""
        yield

    def stop(self) -> None:
        """End after the requests under way, at most a few seconds; asked again, at once. Any thread may ask."""
        self.force_exit = self.should_exit
        self.streams.stopping = self.should_exit = True


def run_api(settings: Settings) -> None:
    """Serve the API until SIGTERM or SIGINT.

    Raises: TokenError, if others could reach it without a token; AddressInUse.
    """
    token = server_token(settings.token_file, settings.host)
    listener = listen(settings.host, settings.port)
    store = open_store(settings.database_url)
    server = make_server(SweepService(store, settings), token)
    hear_stop_signals(lambda _: server.stop())
    keep_imports()
    try:
        server.run(sockets=[listener])
    finally:
        store.close()


def make_server(service: SweepService, token: str) -> Server:
    """Return a server that `run(sockets=[...])` starts."""
    app = create_app(service, token)
    config = uvicorn.Config(
        app,
        http=TimedConnection,  # of h11, which refuses a head of more than 64 KiB; the faster parser takes any
        backlog=BACKLOG,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    return Server(config, app.state.streams)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises: AddressInUse.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, else asyncio leaves Nagle on
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise AddressInUse(
            f"cannot listen on {host}:{port}: {error.strerror}. "
            "Is another server running? Set SWEEPS_PORT to a free port, or stop that one"
        ) from error
    listener.listen(BACKLOG)
    return listener
