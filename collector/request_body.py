"""Reads a request's body, bounded, and its headers."""

import asyncio

from starlette.types import Receive, Scope

from collector.refusal import Refusal


class ClientGone(Exception):
    """The client left before its request was read."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Header names in lower case to their values; of repeated ones the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def read_bounded(receive: Receive, headers: dict[str, str], most_bytes: int, *, idle_timeout_s: float) -> bytes:
    """The whole body. Refusal 413 when it is too large, without reading it all, and 415 when it is
    compressed; 408 when the rest of it does not come."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Refusal(
            f"the body's content-encoding is {encoding[:40]!r}, expected none; send the JSON as it is",
            status=415,
            kind="invalid_request_error",
            code="unsupported_encoding",
            param="content-encoding",
        )
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most_bytes:
        raise _too_large(int(declared), most_bytes)
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout(idle_timeout_s):
                message = await receive()
        except TimeoutError as error:
            raise Refusal(
                f"the body stopped after {size} bytes for {idle_timeout_s:g} s, expected the rest; send it again whole",
                status=408,
                kind="invalid_request_error",
                code="request_timeout",
            ) from error
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece = message.get("body", b"")
        size += len(piece)
        if size > most_bytes:
            raise _too_large(size, most_bytes)
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


def _too_large(found: int, most_bytes: int) -> Refusal:
    return Refusal(
        f"the request has {found} bytes or more, expected at most {most_bytes}; shorten it or raise max_request_bytes",
        status=413,
        kind="invalid_request_error",
        code="request_too_large",
    )
