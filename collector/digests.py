"""Fingerprints of conversations: equal when a client sent back what it got, whatever it left out or respelled."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from collector.conversation import content_text, tool_calls_of, visible_text

SEED = b"roundhouse"


def extend_digest(before: bytes, message: Mapping[str, object]) -> bytes:
    """The fingerprint of a conversation with one more message."""
    return hashlib.blake2b(before + _canonical(message), digest_size=16).digest()


def chain(messages: Sequence[Mapping[str, object]], start: bytes = SEED) -> list[bytes]:
    """The fingerprint after each message; entry 0 is that of the empty conversation."""
    digests = [start]
    for message in messages:
        digests.append(extend_digest(digests[-1], message))
    return digests


def tools_digest(tools: Sequence[Mapping[str, object]] | None) -> bytes:
    """The fingerprint of tool definitions; none and an empty list are the same."""
    text = json.dumps(list(tools or ()), sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _canonical(message: Mapping[str, object]) -> bytes:
    """Thinking, tool-call ids, key order of arguments and white space around a reply do not count."""
    role = message.get("role")
    parts: list[object] = ["system" if role == "developer" else role]
    if role == "assistant":
        parts.append(visible_text(message).strip())
        parts.extend(_canonical_call(call) for call in tool_calls_of(message))
    else:
        parts += [content_text(message), message.get("name")]
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _canonical_call(call: dict[str, Any]) -> list[object]:
    function = cast(dict[str, Any], call.get("function") or {})
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments)
    return [function.get("name"), arguments]
