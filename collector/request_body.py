"""Reads a request's body, bounded, and its headers."""

from starlette.types import Receive, Scope

from collector.refusal import Refusal


class ClientGone(Exception):
    """The client left before its request was read."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Header names in lower case to their values; of repeated ones the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def read_bounded(receive: Receive, headers: dict[str, str], most_bytes: int) -> bytes:
    """The whole body. Refusal 413 when it is too large, without reading it all."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most_bytes:
        raise _too_large(int(declared), most_bytes)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
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
