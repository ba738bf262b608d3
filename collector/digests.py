"""Fingerprints of conversations: equal when a client sent back what it got, whatever it left out or respelled."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from collector.conversation import content_text, tool_calls_of, visible_text

SEED = b"roundhouse"
_json = json.JSONEncoder(ensure_ascii=False).encode


def extend_digest(before: bytes, message: Mapping[str, object], *, arguments: bool = True) -> bytes:
    """The fingerprint of a conversation with one more message."""
    return hashlib.blake2b(before + _canonical(message, arguments=arguments), digest_size=16).digest()


def chain(messages: Sequence[Mapping[str, object]], start: bytes = SEED, *, arguments: bool = True) -> list[bytes]:
    """The fingerprint after each message; entry 0 is that of the empty conversation.

    Without `arguments`, those of tool calls do not count.
    """
    digests = [start]
    for message in messages:
        digests.append(extend_digest(digests[-1], message, arguments=arguments))
    return digests


def tools_digest(tools: Sequence[Mapping[str, object]] | None) -> bytes:
    """The fingerprint of tool definitions; none and an empty list are the same."""
    return hashlib.blake2b(_bytes(_canonical_json(list(tools))), digest_size=16).digest() if tools else _NO_TOOLS


def _canonical(message: Mapping[str, object], *, arguments: bool) -> bytes:
    """Thinking, tool-call ids, key order of arguments and white space around a reply do not count."""
    role = message.get("role")
    parts: list[object] = ["system" if role == "developer" else role]
    if role == "assistant":
        parts.append(visible_text(message).strip())
        parts.extend(_canonical_call(call, arguments=arguments) for call in tool_calls_of(message))
    else:
        parts += [content_text(message), message.get("name")]
    return _bytes(_json(parts))


def _canonical_call(call: dict[str, Any], *, arguments: bool) -> list[object]:
    function = cast(dict[str, Any], call.get("function") or {})
    return [function.get("name"), _canonical_json(function.get("arguments")) if arguments else None]


def _canonical_json(value: object) -> str:
    """One spelling of a JSON text or value, whatever a client that parsed and wrote it again made of it."""
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        return json.dumps(json.loads(text, parse_float=_number), sort_keys=True, ensure_ascii=False)
    # No JSON, or nested too deep to be read.
    except (ValueError, RecursionError):
        return text


def _number(text: str) -> int | float:
    """1.0 and 1e2 are what JavaScript writes as 1 and 100: the shortest digits of the double, whatever its size.

    A whole number written out is taken as it is: beyond 2**53 JavaScript sends another one back, which is a change.
    """
    value = float(text)
    return int(Decimal(repr(value))) if value.is_integer() else value


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_NO_TOOLS = hashlib.blake2b(b"[]", digest_size=16).digest()
