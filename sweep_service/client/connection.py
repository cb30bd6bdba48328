"""One server over HTTP: where it is, asking again when that is safe and useful, and answers that are errors."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError

from sweep_service.auth import is_loopback
from sweep_service.client.errors import Refused, Unauthorized, Unreachable
from sweep_service.client.retry import Patience
from sweep_service.errors import Conflict, IdempotencyKeyReused, InvalidSpec, NotFound, NotReady, SpecError
from sweep_service.schemas import Problem
from sweep_service.settings import Settings

_TRY_AGAIN = (429, 502, 503, 504)
_BY_CODE = {"CONFLICT": Conflict, "IDEMPOTENCY_KEY_REUSED": IdempotencyKeyReused, "NOT_READY": NotReady}


def find_url(settings: Settings) -> str:
    """Return the URL of the server: SWEEPS_URL, else what `sweeps serve` wrote to `<home>/address.json`, else the
    default address.
    """
    address = settings.home / "address.json"
    if "url" in settings.model_fields_set or not address.exists():
        return settings.url
    return str(json.loads(address.read_text())["url"])


class Connection:
    """A server's address, with retries.

    Every request made here may be repeated: reading changes nothing, cancelling twice is cancelling once, and a
    submission carries a key that names it.
    """

    def __init__(self, url: str, token: str, timeout_s: float, patience_s: float) -> None:
        self.url, self.patience_s = url.rstrip("/"), patience_s
        parts = urlsplit(url)
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(timeout_s, connect=5),
            verify=parts.scheme == "https",  # certificates take time to load, and plain HTTP needs none
            trust_env=not is_loopback(parts.hostname or ""),  # no proxy leads to this machine
        )

    def close(self) -> None:
        """Close all sockets."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
    ) -> httpx.Response:
        """Return the answer to a request, if it is a success.

        Raises: an error of `sweep_service.errors` or `sweep_service.client.errors`.
        """
        given = {name: value for name, value in (params or {}).items() if value is not None}
        patience = Patience(self.patience_s)
        while True:
            try:
                response = self._http.request(method, path, params=given, headers=headers, json=json)
            except httpx.TransportError as error:
                hopeless = isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol)
                if not hopeless and patience.another_try():
                    continue
                raise self.unreachable(error) from error
            if response.status_code in _TRY_AGAIN and patience.another_try(response.headers.get("Retry-After")):
                continue
            raise_problem(response)
            return response

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], silence_s: float) -> Generator[httpx.Response]:
        """Open an answer that comes bit by bit; a silence longer than `silence_s` is an error of transport."""
        timeout = httpx.Timeout(silence_s, connect=5)
        with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
            if not response.is_success:
                response.read()
            raise_problem(response)
            yield response

    def unreachable(self, error: Exception) -> Unreachable:
        """Return the error that says that no server answers."""
        return Unreachable(
            f"no server answers at {self.url} ({error}); start one with `sweeps serve`, or set SWEEPS_URL"
        )


def raise_problem(response: httpx.Response) -> None:
    """Raise the error that an answer tells of, if it does."""
    if response.is_success:
        return
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        title, status = response.reason_phrase, response.status_code
        detail = f"{response.url.copy_with(query=None)} is not a sweeps server's: it answers {status} {title}"
        problem = Problem(title=title, status=status, code="NOT_A_SWEEPS_SERVER", detail=detail)
    if problem.code == "NOT_FOUND":
        _, _, kind, name, *_ = [*response.url.path.split("/"), "", ""]
        raise NotFound(kind.removesuffix("s"), name)
    if problem.code == "INVALID_SPEC":
        raise InvalidSpec([SpecError(item.pointer or "", item.detail) for item in problem.errors])
    if problem.status == 401:
        raise Unauthorized("the server does not know this token; SWEEPS_TOKEN_FILE names the file to take it from")
    if problem.code in _BY_CODE:
        raise _BY_CODE[problem.code](problem.detail)
    raise Refused(problem)
