"""Fields of foreign JSON objects, each as the type it must have; ValueError says which is not, and what it was."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import msgspec
import numpy as np

# Any: JSON values of whatever the framework wrote.
Json = Any
JsonObject = Mapping[str, Any]

_TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_LATEST_EPOCH_S = 253_402_300_799
_STOPPED = (
    "stop",
    "tool_calls",
    "tool_use",
    "function_call",
    "end_turn",
    "stop_sequence",
    "eos",
    "completed",
    "complete",
)
_FINISH = dict.fromkeys(_STOPPED, "stop") | {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "truncated": "length",
    "abort": "abort",
    "aborted": "abort",
    "cancelled": "abort",
    "error": "error",
    "failed": "error",
}


def token_ids(value: Json, name: str) -> list[int] | None:
    """Token ids; None stays None."""
    return _as(list[_TokenId], value, name)


def floats(value: Json, name: str) -> list[float] | None:
    """Numbers; None stays None, and a null inside, which is how JSON has NaN, becomes NaN."""
    found = _as(list[float | None], value, name)
    if found is None or None not in found:
        return cast(list[float] | None, found)
    return [math.nan if each is None else each for each in found]


def flags(value: Json, name: str) -> list[int] | None:
    """A mask as 0 and 1, from booleans or numbers; None stays None."""
    found = _as(list[bool | int | float], value, name)
    try:
        return None if found is None else (np.asarray(found, dtype=np.float64) != 0).astype(np.int8).tolist()
    except OverflowError as error:
        raise ValueError(f"{name}: {error}") from error


def number(value: Json, name: str) -> float | None:
    """A number; None stays None."""
    return _as(float, value, name)


def whole(value: Json, name: str) -> int | None:
    """A whole number of at most 64 bits; None stays None."""
    found = _as(int, value, name)
    if found is not None and not -(2**63) <= found < 2**63:
        raise ValueError(f"{name}: {found} has more than 64 bits")
    return found


def text(value: Json) -> str | None:
    """A name or id as text: a string as it is, a number written out; anything else is None."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def mapping(value: Json) -> dict[str, Json]:
    """A JSON object; empty for anything else."""
    return cast(dict[str, Json], value) if isinstance(value, dict) else {}


def listed(value: Json) -> list[Json]:
    """A JSON list; empty for anything else."""
    return cast(list[Json], value) if isinstance(value, list) else []


def objects(value: Json, name: str) -> list[dict[str, Json]]:
    """A list of JSON objects; empty for null."""
    return _as(list[dict[str, Json]], value, name) or []


def when(value: Json) -> datetime | None:
    """A time from seconds since 1970 or from ISO text; a time without a zone is UTC; None where it is neither."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LATEST_EPOCH_S:
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def later(start: datetime | None, seconds: float | None) -> datetime | None:
    """A time some seconds after another; None where either is missing or the sum is no time."""
    if start is None or seconds is None:
        return None
    try:
        return start + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None


def finish(value: Json) -> str | None:
    """Why a reply ended, in our words; None for a word that is not known."""
    return _FINISH.get(value.lower()) if isinstance(value, str) else None


def even(rows: Mapping[str, Sequence[Json] | None]) -> bool:
    """Whether all lists that are there are of one length."""
    return len({len(each) for each in rows.values() if each is not None}) <= 1


def _as(kind: Any, value: Json, name: str) -> Any:
    if value is None:
        return None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {error}") from error
