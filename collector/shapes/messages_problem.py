"""Errors as Anthropic's API words them."""

import msgspec

from collector.refusal import Refusal
from collector.shapes.problem import Problem

_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_OVERLOADED = 529
_TOO_MUCH = ("overloaded", "engine_busy")


def messages_problem(refusal: Refusal) -> Problem:
    """The answer to a request that is refused."""
    overloaded = refusal.status == 503 and refusal.code in _TOO_MUCH
    body = msgspec.json.encode({"type": "error", "error": error_of(refusal)})
    return Problem(_OVERLOADED if overloaded else refusal.status, body)


def error_of(refusal: Refusal) -> dict[str, object]:
    """The error object, as a body and a stream's last event carry it."""
    kind = _KINDS.get(refusal.status, "api_error" if refusal.status >= 500 else "invalid_request_error")
    message = refusal.message
    if refusal.code == "context_length_exceeded":
        # Claude Code tells a full context by these words.
        message = f"prompt is too long: {message}"
    return {"type": kind, "message": message}
