"""Server-sent events that name their type, as the Messages and Responses wires do."""

from collections.abc import Mapping

import msgspec


def named_event(kind: str, fields: Mapping[str, object]) -> bytes:
    """One event; its type stands in the event line and in the JSON."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **fields}))
