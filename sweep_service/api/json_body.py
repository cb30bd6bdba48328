"""Reads a request's body, which must be small, and JSON without anything that store or trainers could trip over."""

import json
import math
import sys
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from sweep_service.api.problems import Refusal
from sweep_service.intake.document_size import MAX_DEPTH
from trainers.config.complaints import shortened
from trainers.json_text import no_constant, unique_keys

MAX_BYTES = 128 * 1024
"""Largest body. The longest of the examples has 3 KB; two stages of seeds, long lists and labels may have 60."""

_MAX_DIGITS = 1000
"""Digits of a whole number that is read at all; 64 bits hold 19, and the spec's own bounds refuse the others."""


async def json_body(request: Request) -> Any:
    """Return the parsed body.

    Raises: Refusal: 415 if its type is not JSON; 411 if it comes in chunks, of which thousands of one byte take seconds
        to read; 413 above 128 KiB; 400 if it is not valid JSON, or JSON that only some parsers take (NaN, Infinity, a
        key twice, half a surrogate pair, nesting beyond 32 levels); 422 for a number that computers do not hold, such
        as 1e999.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "UNSUPPORTED_MEDIA_TYPE", f"the body is {kind or 'of no type'}; send application/json")
    if "content-length" not in request.headers or "transfer-encoding" in request.headers:
        raise Refusal(411, "LENGTH_REQUIRED", "send the body whole, with its Content-Length, not in chunks")
    return parse(await read_body(request, MAX_BYTES))


async def read_body(request: Request, most: int) -> bytes:
    """Return a request's body of at most `most` bytes.

    Raises: Refusal: 413.
    """
    too_large = Refusal(413, "BODY_TOO_LARGE", f"the body has more than {most} bytes")
    if int(request.headers.get("content-length", 0)) > most:  # the server has seen that it is a number
        raise too_large
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise too_large
    except ClientDisconnect:
        raise _malformed("it ends before its Content-Length") from None
    return bytes(body)


def parse(body: bytes) -> Any:
    """Return the value of a JSON document.

    Raises: Refusal.
    """
    try:
        value = json.loads(
            body.decode(),
            parse_constant=no_constant,
            parse_float=_finite,
            parse_int=_not_endless,
            object_pairs_hook=unique_keys,
        )
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise _malformed("it is not UTF-8 throughout") from None
    except RecursionError:
        raise _malformed(f"it is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise _malformed(str(error)) from None
    _limit_depth(value)
    return value


def _malformed(reason: str) -> Refusal:
    return Refusal(400, "MALFORMED_JSON", f"the body is not valid JSON: {reason}")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _too_large(text, f"the largest is {sys.float_info.max:.2g}")
    return value


def _not_endless(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise _too_large(text, f"the longest has {_MAX_DIGITS} digits")
    return int(text)


def _too_large(text: str, largest: str) -> Refusal:
    return Refusal(422, "INVALID_REQUEST", f"the number {shortened(text, 40)} of the body is too large; {largest}")


def _limit_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise _malformed(f"it is nested deeper than {MAX_DEPTH} levels")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
