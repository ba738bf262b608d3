"""An engine's own words in the body of an error answer."""

import msgspec

_MOST_CHARACTERS = 500


class _Named(msgspec.Struct, frozen=True):
    message: str


class _ErrorBody(msgspec.Struct, frozen=True):
    error: _Named | str | None = None
    message: str | None = None
    error_message: str | None = None
    detail: str | None = None


def engine_message(body: bytes) -> str:
    """The message, from any of the shapes SGLang uses; else the body as text."""
    text = body.decode("utf-8", "replace").strip() or "no message"
    try:
        answer = msgspec.json.decode(body, type=_ErrorBody)
    except msgspec.DecodeError:
        return text[:_MOST_CHARACTERS]
    error = answer.error.message if isinstance(answer.error, _Named) else answer.error
    return (error or answer.error_message or answer.message or answer.detail or text)[:_MOST_CHARACTERS]
