"""One server over HTTP: its address, retries where they are safe and useful, event streams, answers that are errors."""

import random
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError

from sweep_service.auth import is_loopback
from sweep_service.client.errors import Refused, Unauthorized, Unreachable
from sweep_service.errors import CODES, InvalidSpec, NotFound, SpecError
from sweep_service.processes.port_owners import checked_connections
from sweep_service.schemas import Problem

_TRY_AGAIN: Final = (429, 502, 503, 504)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_BY_CODE: Final = {code: kind for kind, (_, code) in CODES.items()}


class Connection:
    """A connection to one server, with retries.

    Every request made here may be repeated: reading changes nothing, cancelling twice is cancelling once, and a
    submission carries a key that names it.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = 60,
        patience_s: float = 10,
        trusted_users: Sequence[str] = (),
    ) -> None:
        self.url, self.patience_s = url.rstrip("/"), patience_s
        parts = urlsplit(url)
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(timeout_s, connect=5),
            verify=parts.scheme == "https",  # certificates take time to load, and plain HTTP needs none
            trust_env=not is_loopback(parts.hostname or ""),  # no proxy leads to this machine
            event_hooks={"request": [checked_connections(trusted_users)]},
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
        query = {name: value for name, value in (params or {}).items() if value is not None}
        patience = Patience(self.patience_s)
        while True:
            try:
                response = self._http.request(method, path, params=query, headers=headers, json=json)
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
        """Open an answer that comes in pieces; a silence longer than `silence_s` is a transport error."""
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


class Patience:
    """Growing pauses between tries, with jitter, until a time is over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._pause_s = _FIRST_PAUSE_S

    def another_try(self, retry_after: str | None = None) -> bool:
        """Wait before the next try; return False, at once, if there is no time for one.

        Args:
            retry_after: value of the header `Retry-After`.
        """
        pause_s = self._pause_s * random.uniform(0.5, 1)
        if retry_after is not None and retry_after.isdecimal():
            pause_s = max(pause_s, float(retry_after))
        if time.monotonic() + pause_s > self._end:
            return False
        time.sleep(pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True


@dataclass(frozen=True)
class Message:
    """One server-sent event (the HTML standard's text/event-stream)."""

    event: str
    data: str


def read_messages(lines: Iterable[str]) -> Iterator[Message]:
    """Yield the messages of a stream; comments, ids and messages without data are left out."""
    event, data = "message", list[str]()
    for line in lines:
        if not line:
            if data:
                yield Message(event, "\n".join(data))
            event, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)


def raise_problem(response: httpx.Response) -> None:
    """Raise the error that an answer describes; return if it is a success."""
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
        if (digest := response.url.params.get("digest")) is not None:
            raise NotFound("report", digest, f" of {kind.removesuffix('s')} {name!r}")
        raise NotFound(kind.removesuffix("s"), name)
    if problem.code == "INVALID_SPEC":
        errors = [SpecError(item.pointer or "", item.detail) for item in problem.errors]
        raise InvalidSpec(errors, problem.detail.partition(", for ")[0])
    if problem.status == 401:
        raise Unauthorized("the server does not know this token; SWEEPS_TOKEN_FILE names the file to take it from")
    if problem.code in _BY_CODE:
        raise _BY_CODE[problem.code](problem.detail)
    raise Refused(problem)
