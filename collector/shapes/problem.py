"""Errors as the OpenAI API words them."""

import msgspec

from collector.refusal import Refusal


def problem(refusal: Refusal) -> bytes:
    """The JSON body of an error."""
    return msgspec.json.encode(
        {
            "error": {
                "message": refusal.message,
                "type": refusal.kind,
                "param": refusal.param,
                "code": refusal.code,
            }
        }
    )
