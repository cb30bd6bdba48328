"""Requests of the client: their paths, their bodies, and their answers as records."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from sweep_service.client.connection import Connection
from sweep_service.client.errors import Unreachable
from sweep_service.errors import InvalidSpec, NotFound, SpecError, StillReading, pointer
from sweep_service.schemas import Page
from sweep_service.sweep.extension import Extension

Answer = TypeVar("Answer", bound=BaseModel)
AnyAnswer = TypeVar("AnyAnswer")
_PAGE = 500


class Asking(Connection):
    """A connection whose answers are read as records; lists come page by page."""

    def ask(
        self, method: str, path: str, kind: type[Answer], params: Mapping[str, Any] | None = None, **sent: Any
    ) -> Answer:
        """Make a request and return its answer as a record of this kind.

        Args:
            sent: headers and body, as httpx takes them.
        Raises: Unreachable, if the answer is none of this version's API; Refused.
        """
        content = self.request(method, path, params, **sent).content
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            raise Unreachable(
                f"{self.url} answers, but not as the API of this version does: another version runs there, or another "
                f"program; {path} gave {content[:60]!r}"
            ) from error

    def page(
        self, path: str, kind: type[Answer], params: Mapping[str, Any], size: int, token: str | None
    ) -> Page[Answer]:
        """Return one page of a list, after the page that gave `token`."""
        return self.ask("GET", path, Page[kind], {**params, "page_size": size, "page_token": token})

    def pages(self, path: str, kind: type[Answer], params: Mapping[str, Any] | None = None) -> Iterator[Answer]:
        """Iterate over a list, page by page."""
        token: str | None = None
        while True:
            page = self.page(path, kind, params or {}, _PAGE, token)
            yield from page.items
            token = page.next_page_token
            if token is None:
                return


def read_through(ask: Callable[[], AnyAnswer], told: Callable[[str], None] | None = None) -> AnyAnswer:
    """Ask until the server has read the data of a sweep."""
    while True:
        try:
            return ask()
        except StillReading as error:
            if told is not None:
                told(str(error))
            time.sleep(1)


def document_of(request: BaseModel | Mapping[str, Any], what: str = "the sweep cannot run") -> Any:
    """Return a request as values of JSON.

    Args:
        what: the refusal, in a sentence, of a request with other values.
    Raises: InvalidSpec.
    """
    match request:
        case Extension():
            document = request.document
        case BaseModel():
            document = request.model_dump(mode="json")
        case _:
            document = request
    if errors := list(_not_json(document)):
        raise InvalidSpec(errors, what)
    return document


def _not_json(value: object, *path: str | int) -> Iterator[SpecError]:
    """Yield the numbers and texts of a document that JSON does not have."""
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, object]", value).items():
            yield from _not_json(inner, *path, str(key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("Sequence[object]", value)):
            yield from _not_json(inner, *path, index)
    elif isinstance(value, float) and not math.isfinite(value):
        yield SpecError(pointer(path), f"{value} is not a number that JSON has; give a finite one")
    elif isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        yield SpecError(pointer(path), f"{value!r} is not UTF-8 throughout; give it in UTF-8")


def segment(kind: str, name: str) -> str:
    """Return a name as a segment of a path.

    Raises: NotFound, if it cannot be one.
    """
    if not name or "/" in name:  # a server would read it as several segments
        raise NotFound(kind, name)
    return quote(name, safe="")
