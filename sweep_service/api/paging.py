"""Cursor paging: an opaque, signed token says where the next page begins, so rows that come meanwhile shift nothing."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request

from sweep_service.api.problems import Refusal
from sweep_service.schemas import Page

Item = TypeVar("Item")
Position = TypeVar("Position", bound=Hashable)
MAX_PAGE = 500
_PAGING = ("page_size", "page_token", "after")
_SIGNATURE_BYTES = 12


class Paging:
    """The page of a list that a request asks for: where it begins and its size."""

    def __init__(
        self,
        request: Request,
        page_size: Annotated[int, Query(ge=1, description=f"Items at most; more than {MAX_PAGE} are cut to it.")] = 50,
        page_token: Annotated[str | None, Query(max_length=1000, description="`next_page_token` before.")] = None,
    ) -> None:
        self.size, self._token = min(page_size, MAX_PAGE), page_token
        self._key: bytes = request.app.state.token.encode()
        filters = sorted((name, value) for name, value in request.query_params.multi_items() if name not in _PAGING)
        self._scope = json.dumps([request.url.path, filters]).encode()

    def after(self, start: Position) -> Position:
        """Return the position after which this page begins; `start` on the first page.

        Raises: Refusal, if the token was not made by this server for this list and these filters.
        """
        if self._token is None:
            return start
        try:
            raw = base64.urlsafe_b64decode(self._token + "=" * (-len(self._token) % 4))
        except (binascii.Error, ValueError):
            raw = b""
        signature, payload = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(payload)):
            detail = "the page_token is not one that this list gave for these filters; start without one"
            raise Refusal(400, "PAGE_TOKEN_MISMATCH", detail)
        position: Any = json.loads(payload)
        return tuple(position) if isinstance(position, list) else position  # pyright: ignore[reportReturnType]

    def page(self, rows: Sequence[Item], position: Callable[[Item], Position]) -> Page[Item]:
        """Return a page of rows, which were read with `limit=paging.size + 1`.

        Args:
            position: returns a row's position; rows with the same position stay on one page.
        """
        positions = list(dict.fromkeys(position(row) for row in rows))
        if len(positions) <= self.size:
            return Page(items=list(rows), page_size=self.size)
        on_page = set(positions[: self.size])
        items = [row for row in rows if position(row) in on_page]
        last = json.dumps(positions[self.size - 1]).encode()
        token = base64.urlsafe_b64encode(self._sign(last) + last).decode().rstrip("=")
        return Page(items=items, next_page_token=token, page_size=self.size)

    def page_of_all(self, rows: Iterable[Item], position: Callable[[Item], Any]) -> Page[Item]:
        """Return the page of a list whose rows are all there, in the order of their positions."""
        after: Any = self.after(None)
        return self.page([row for row in rows if after is None or position(row) > after], position)

    def _sign(self, payload: bytes) -> bytes:
        return hmac.new(self._key, self._scope + b"\0" + payload, hashlib.sha256).digest()[:_SIGNATURE_BYTES]


Pages = Annotated[Paging, Depends()]
