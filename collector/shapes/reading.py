"""Reads request bodies: JSON of the declared types, finite numbers, values in range."""

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, cast

import msgspec

from collector.nesting import DEEPEST, nested_deeper
from collector.refusal import Refusal

_Body = TypeVar("_Body")
_PATH = re.compile(r" - at `\$\.?(.*)`$")
_WHOLE_VOCABULARY = 2**30
_MOST_DIGITS = 40
ROLES = ("system", "developer", "user", "assistant", "tool")
"""Who speaks in a conversation in chat form."""
_INT64 = 2**63


def read_body(body: bytes, kind: type[_Body]) -> _Body:
    """Decodes a body; what is wrong with it is said in OpenAI's error shape."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        message = str(error)
        path = _PATH.search(message)
        raise Refusal.invalid(
            f"{message}; correct the field and send the request again",
            param=path.group(1) if path else None,
            code="invalid_type",
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        surrogate = " (perhaps a lone surrogate, which no text can hold)" if b"\\ud" in body.lower() else ""
        raise Refusal.invalid(
            f"the body is not valid JSON: {error}{surrogate}; expected valid JSON, nested at most {DEEPEST} deep",
            code="invalid_json",
        ) from error


def between(low: float, high: float) -> msgspec.Meta:
    """Says the bounds of a number in the published document; `in_range` and `at_least` check them."""
    return msgspec.Meta(extra_json_schema={"minimum": low, "maximum": high})


Count = Annotated[int, between(1, _INT64 - 1)]
"""A number of tokens."""
TopK = Annotated[int, between(-1, _INT64 - 1)]
"""A number of candidates."""
Seed = Annotated[int, between(-_INT64, _INT64 - 1)]
"""A seed."""
TopP = Annotated[float, between(1e-9, 1)]
"""A share of the probability."""
Share = Annotated[float, between(0, 1)]
"""From nothing to all."""
Penalty = Annotated[float, between(-2, 2)]
"""Added to a logit."""
Repetition = Annotated[float, between(1e-9, 2)]
"""A logit is divided by it."""
Heat = Annotated[float, between(0, 100)]
"""A temperature, as far as engines take it."""


def in_range(name: str, value: float | None, low: float, high: float, default: float) -> float:
    """A number between two bounds; the default when the client gave none."""
    if value is None:
        return default
    if not math.isfinite(value) or not low <= value <= high:
        raise Refusal.invalid(f"{name} is {value}, expected {low:g} to {high:g}", param=name, code="invalid_value")
    return float(value)


def at_least(name: str, value: int | None, low: int) -> int | None:
    """A whole number of 64 bits, as records keep it, not below a bound."""
    if value is not None and not low <= value < _INT64:
        raise Refusal.invalid(
            f"{name} is {shortened(value)}, expected {low} to {_INT64 - 1}", param=name, code="invalid_value"
        )
    return value


def seed_of(name: str, value: int | None) -> int | None:
    """A seed that engines take."""
    return at_least(name, value, -_INT64)


def top_k_of(value: int | None) -> int:
    """A number of candidates; -1, which is off, for what SGLang takes for the whole vocabulary."""
    top_k = at_least("top_k", value, -1)
    return -1 if not top_k or top_k >= _WHOLE_VOCABULARY else top_k


def shortened(value: float) -> str:
    """A number for a message, however many digits it has."""
    text = str(value)
    return text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}… ({len(text)} digits)"


def bias_of(bias: Mapping[str, float] | None) -> dict[str, float] | None:
    """A logit bias by token id; None when it biases nothing."""
    if not bias:
        return None
    for token, value in bias.items():
        if not (token.isascii() and token.isdigit() and len(token) < 10):
            raise Refusal.invalid(
                f"logit_bias names {token[:40]!r}, expected token ids", param="logit_bias", code="invalid_value"
            )
        in_range(f"logit_bias[{token}]", value, -100, 100, 0)
    return {token: float(value) for token, value in bias.items()}


def check_depth(name: str, value: object) -> None:
    """Refuses what is nested deeper than rendering and records take."""
    if nested_deeper(value, DEEPEST):
        raise Refusal.invalid(
            f"{name} is nested more than {DEEPEST} lists and objects deep, expected at most {DEEPEST}; flatten it",
            param=name,
            code="too_deep",
        )


def check_messages(messages: list[dict[str, Any]]) -> None:
    """Refuses what no template could render: unknown roles, contents that are not text, malformed tool calls."""
    if not messages:
        raise Refusal.invalid("messages is empty, expected at least one", param="messages", code="invalid_value")
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        check_depth(where, message)
        if message.get("role") not in ROLES:
            found = message.get("role")
            raise _wrong(f"{where}.role", f"is {str(found)[:40]!r}, expected one of {', '.join(ROLES)}")
        _check_content(where, message)
        _check_tool_calls(where, message.get("tool_calls"))
        for name in ("reasoning_content", "reasoning", "name"):
            if not isinstance(message.get(name), str | None):
                raise _wrong(f"{where}.{name}", "is not text")


def _check_content(where: str, message: dict[str, Any]) -> None:
    content = message.get("content")
    if content is None and message["role"] != "assistant":
        raise _wrong(f"{where}.content", "is missing, expected text")
    if isinstance(content, str | None):
        return
    if not isinstance(content, list):
        raise _wrong(f"{where}.content", f"is of type {type(content).__name__}, expected text or a list of text parts")
    for place, part in enumerate(cast(list[Any], content)):
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):  # pyright: ignore[reportUnknownMemberType]
            raise _wrong(f"{where}.content[{place}]", "is not a text part; images, audio and files are not supported")


def _check_tool_calls(where: str, calls: Any) -> None:  # Any: JSON as it came
    if calls is None:
        return
    if not isinstance(calls, list):
        raise _wrong(f"{where}.tool_calls", "is not a list")
    for place, call in enumerate(cast(list[Any], calls)):
        function = cast(dict[str, Any], call).get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise _wrong(f"{where}.tool_calls[{place}].function", "is missing, expected {name, arguments}")
        named = cast(dict[str, Any], function)
        if not isinstance(named.get("name"), str) or not isinstance(named.get("arguments", ""), str):
            raise _wrong(f"{where}.tool_calls[{place}].function", "expected name and arguments as text")
        _check_arguments(f"{where}.tool_calls[{place}].function.arguments", named.get("arguments", ""))


def _check_arguments(where: str, arguments: str) -> None:
    """Refuses JSON that cannot be rendered; text that is no JSON is the template's to judge."""
    if "\\u" not in arguments and arguments.count("[") + arguments.count("{") <= DEEPEST:
        return
    try:
        value = json.loads(arguments)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _wrong(where, "holds a lone surrogate, expected escapes of whole characters") from error
    except RecursionError as error:
        raise _wrong(where, f"is nested too deeply, expected at most {DEEPEST} lists and objects") from error
    except ValueError:
        return
    check_depth(where, value)


def _wrong(param: str, found: str) -> Refusal:
    return Refusal.invalid(f"{param} {found}", param=param, code="invalid_value")
