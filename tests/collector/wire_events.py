"""Server-sent events as the SDKs' own types read them, strictly."""

import json
from typing import Any

from anthropic.types import RawMessageStreamEvent
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

_MESSAGES: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
_RESPONSES: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def events_of(stream: str) -> list[dict[str, Any]]:
    """The events of a stream; each event line says the type of its JSON."""
    events: list[dict[str, Any]] = []
    for block in stream.split("\n\n"):
        if not block or block.startswith(":"):
            continue
        kind, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        events.append(event)
    return events


def messages_events(stream: str) -> list[dict[str, Any]]:
    """Events of the Messages wire; every one but pings and errors is of a type that Anthropic's SDK defines."""
    events = events_of(stream)
    for event in events:
        if event["type"] not in ("ping", "error"):
            _MESSAGES.validate_python(event)
    return events


def responses_events(stream: str) -> list[dict[str, Any]]:
    """Events of the Responses wire, each of a type that OpenAI's SDK defines, numbered without a gap."""
    events = events_of(stream)
    for event in events:
        _RESPONSES.validate_python(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events
