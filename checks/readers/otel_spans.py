"""OpenTelemetry spans in the shapes in which they are exported, with their attributes as one flat mapping."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from checks.readers.fields import Json, JsonObject, listed, mapping, objects, text, when
from checks.readers.json_document import documents
from checks.readers.parquet_rows import parquet_rows
from checks.readers.unreadable import UnreadableParts

_BATCH_ROWS = 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_NS = 253_402_300_799 * 10**9


class Span(NamedTuple):
    """What is read of a span."""

    name: str
    span_id: str | None
    trace_id: str | None
    started_at: datetime | None
    finished_at: datetime | None
    failed: bool
    attributes: Mapping[str, Json]
    events: list[dict[str, Json]]
    """Name and attributes of each event."""


def spans(path: Path, unreadable: UnreadableParts, *, is_parquet: bool) -> Iterator[tuple[str, Span]]:
    """Place and span, one after another in the order of the file."""
    for place, record in _records(path, unreadable) if is_parquet else documents(path, unreadable):
        try:
            if "resourceSpans" in record or "resource_spans" in record:
                found = list(_otlp(record))
            else:
                found = [span_of(record)]
        except ValueError as error:
            unreadable.add(place, str(error))
            continue
        yield from ((place, each) for each in found)


def _records(path: Path, unreadable: UnreadableParts) -> Iterator[tuple[str, dict[str, Json]]]:
    """The rows of a Parquet file."""
    for row, record in parquet_rows(path, unreadable, batch_rows=_BATCH_ROWS):
        yield f"{path.name}[{row}]", record


def _otlp(record: JsonObject) -> Iterator[Span]:
    """The spans of one export request of OTLP in JSON."""
    for resource in objects(record.get("resourceSpans") or record.get("resource_spans"), "resourceSpans"):
        shared = _pairs(mapping(resource.get("resource")).get("attributes"))
        scopes = (
            resource.get("scopeSpans") or resource.get("scope_spans") or resource.get("instrumentationLibrarySpans")
        )
        for scope in objects(scopes, "scopeSpans"):
            for span in objects(scope.get("spans"), "spans"):
                found = span_of(span)
                yield found._replace(attributes={**shared, **found.attributes})


def span_of(record: JsonObject) -> Span:
    """A span as OTLP, the SDK's console exporter, Phoenix or a table has it."""
    context = mapping(record.get("context"))
    status = mapping(record.get("status"))
    code = str(status.get("code", status.get("status_code", record.get("status_code", ""))))
    return Span(
        name=text(record.get("name")) or "",
        span_id=_one_of(record, context, "spanId", "span_id", "context.span_id"),
        trace_id=_one_of(record, context, "traceId", "trace_id", "context.trace_id"),
        started_at=_time(record, "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime"),
        finished_at=_time(record, "endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime"),
        failed=code in ("2", "ERROR", "STATUS_CODE_ERROR"),
        attributes=_attributes(record),
        events=[
            {"name": each.get("name"), "attributes": _pairs(each.get("attributes"))}
            for each in map(mapping, listed(record.get("events")))
        ],
    )


def _one_of(record: JsonObject, context: JsonObject, *names: str) -> str | None:
    return next((found for name in names for held in (record, context) if (found := text(held.get(name)))), None)


def _time(record: JsonObject, *names: str) -> datetime | None:
    """Nanoseconds since 1970 where they can be nothing else, a time of its own, seconds, or text."""
    value = next((record[name] for name in names if record.get(name) is not None), None)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, int) and 10**14 < value <= _LATEST_NS:
        return _EPOCH + timedelta(microseconds=value // 1000)
    return when(value)


def _attributes(record: JsonObject) -> dict[str, Json]:
    """All attributes under their flat names; a table has them in columns that begin with `attributes.`."""
    found = dict(_flat("", _pairs(record.get("attributes"))))
    for name, value in record.items():
        if name.startswith("attributes.") and value is not None:
            found |= dict(_flat(name.removeprefix("attributes."), value))
    return found


def _pairs(attributes: Json) -> dict[str, Json]:
    """Attributes as a mapping, also from OTLP's list of keys and typed values or an Arrow map's list of pairs."""
    if not isinstance(attributes, list):
        return mapping(attributes)
    found: dict[str, Json] = {}
    for each in attributes:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(each, tuple) and len(each) == 2:  # pyright: ignore[reportUnknownArgumentType]
            found[str(each[0])] = each[1]  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(name := mapping(each).get("key"), str):
            found[name] = _value(mapping(each).get("value"))
    return found


def _value(value: Json) -> Json:
    """A typed value of OTLP; 64-bit integers are text in its JSON."""
    typed = mapping(value)
    for kind, held in typed.items():
        if kind in ("intValue", "int_value"):
            return int(held) if isinstance(held, str) and held.lstrip("-").isdecimal() and len(held) < 20 else held
        if kind in ("arrayValue", "array_value"):
            return [_value(each) for each in listed(mapping(held).get("values"))]
        if kind in ("kvlistValue", "kvlist_value"):
            return _pairs(mapping(held).get("values"))
        return held
    return None if isinstance(value, dict) else value


def _flat(prefix: str, value: Json) -> Iterator[tuple[str, Json]]:
    """Nested mappings and lists of mappings as dotted names; other values stay as they are."""
    if isinstance(value, dict):
        for name, each in mapping(value).items():
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), each)
    elif prefix and isinstance(value, list) and any(isinstance(each, dict) for each in listed(value)):
        for index, each in enumerate(listed(value)):
            yield from _flat(f"{prefix}.{index}", each)
    elif value is not None:
        yield prefix, value
