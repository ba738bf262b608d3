"""Errors as the OpenAI API words them."""

from typing import NamedTuple

import msgspec

from collector.refusal import Refusal


class Problem(NamedTuple):
    """An error as one wire puts it."""

    status: int
    """HTTP status."""
    body: bytes
    """JSON body."""


def openai_problem(refusal: Refusal) -> Problem:
    """The answer to a request that is refused."""
    return Problem(refusal.status, problem(refusal))


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
