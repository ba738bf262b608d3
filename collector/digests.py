"""Fingerprints of conversations: equal when a client sent back what it got, whatever it left out or respelled."""

import hashlib
import json
import marshal
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, cast

from collector.conversation import content_text, tool_calls_of, visible_text

_SEED = b"roundhouse"
_KNOWN_TOOLS: dict[bytes, bytes] = {}
"""Fingerprints of definitions by a hash of them as they came: an agent sends the same with every request."""
_MOST_KNOWN_TOOLS = 64
_WITHOUT_REFERENCES = 2
"""A version of marshal that writes equal values alike, whichever objects they share."""
_json = json.JSONEncoder(ensure_ascii=False).encode


class MessageDigest(NamedTuple):
    """The fingerprint of one message."""

    whole: bytes
    less_arguments: bytes
    """The same whatever the arguments of its tool calls are."""


def digest_of(message: Mapping[str, object]) -> MessageDigest:
    """Thinking, tool-call ids, key order of arguments and white space around a reply do not count."""
    role = message.get("role")
    if role != "assistant":
        whole = _digest(["system" if role == "developer" else role, content_text(message), message.get("name")])
        return MessageDigest(whole, whole)
    said = [role, visible_text(message).strip()]
    calls = tool_calls_of(message)
    whole = _digest([*said, *(_canonical_call(call, arguments=True) for call in calls)])
    if not calls:
        return MessageDigest(whole, whole)
    return MessageDigest(whole, _digest([*said, *(_canonical_call(call, arguments=False) for call in calls)]))


def chain(messages: Iterable[bytes]) -> list[bytes]:
    """The fingerprint of a conversation after each message; entry 0 is that of the empty one."""
    digests = [_SEED]
    for message in messages:
        digests.append(with_one_more(digests[-1], message))
    return digests


def with_one_more(before: bytes, message: bytes) -> bytes:
    """The fingerprint of a conversation that goes on with a message."""
    return hashlib.blake2b(before + message, digest_size=16).digest()


def tools_digest(tools: Sequence[Mapping[str, object]] | None) -> bytes:
    """The fingerprint of tool definitions; none and an empty list are the same."""
    if not tools:
        return _NO_TOOLS
    # By their hash, as one request may bring as much as its limit allows.
    as_they_came = hashlib.blake2b(marshal.dumps(list(tools), _WITHOUT_REFERENCES)).digest()
    known = _KNOWN_TOOLS.get(as_they_came)
    if known is None:
        known = hashlib.blake2b(_bytes(_canonical_json(list(tools))), digest_size=16).digest()
        if len(_KNOWN_TOOLS) >= _MOST_KNOWN_TOOLS:
            _KNOWN_TOOLS.clear()
        _KNOWN_TOOLS[as_they_came] = known
    return known


def _digest(parts: list[object]) -> bytes:
    return hashlib.blake2b(_bytes(_json(parts)), digest_size=16).digest()


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
