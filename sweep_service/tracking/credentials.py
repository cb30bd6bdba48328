"""Signs the projection in to MLflow, by our own door's secret or by MLflow's own variables."""

import os
import ssl
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import httpx

from sweep_service.auth import read_token
from sweep_service.processes.port_owners import checked_connections
from sweep_service.settings import Settings


class BearerToken(httpx.Auth):
    """Sends a bearer token with every request; `check`, if there is one, is called with the request before."""

    def __init__(self, token: str, check: Callable[[httpx.Request], None] | None = None) -> None:
        self._value, self._check = f"Bearer {token}", check

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Add the token to a request."""
        if self._check is not None:
            self._check(request)
        request.headers["Authorization"] = self._value
        yield request


def sign_in(settings: Settings, environment: Mapping[str, str] = os.environ) -> httpx.Auth | None:
    """Return the credentials that requests to MLflow carry; None if it asks for none.

    Raises: TokenError, if the file of our door's secret cannot be read; OSError, for a file of MLflow's variables.
    """
    if settings.mlflow_token_file is not None:
        return BearerToken(read_token(settings.mlflow_token_file), checked_connections(settings.trusted))
    names = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
    token, username, password = (_value(name, environment) for name in names)
    if token:
        return BearerToken(token)
    login = settings.mlflow_login.get_secret_value()
    if not username and login:
        username, _, password = login.partition(":")
    return httpx.BasicAuth(username, password) if username else None


def certificates(environment: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """Return the trusted certificates: the public ones, and those that MLflow's variable names."""
    context = ssl.create_default_context()
    if path := environment.get("MLFLOW_TRACKING_SERVER_CERT_PATH"):
        context.load_verify_locations(path)
    return context


def _value(name: str, environment: Mapping[str, str]) -> str:
    """Return the value of a variable of MLflow's, or the content of the file that its twin NAME_FILE names."""
    if path := environment.get(f"{name}_FILE"):
        return Path(path).read_text().strip()
    return environment.get(name, "")
