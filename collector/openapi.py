"""The OpenAPI document of the collector's HTTP surface, its schemas read from the structs that decode the requests."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import msgspec

from collector.caller import GROUP_HEADER, PURPOSE_HEADER, RETRIES_HEADER, SESSION_HEADERS, TASK_HEADER, TRAIN_HEADER
from collector.feedback import Accepted, AcceptedBatch, Declaration, Declared, Judgement, JudgementBatch
from collector.records import Purpose
from collector.shapes.chat import ChatBody
from collector.shapes.generate import GenerateBody
from collector.shapes.messages import CountTokensBody, MessagesBody, TokenCount
from collector.shapes.responses import ResponsesBody
from collector.shapes.wire_schemas import Schema

_VERSION = "1"
"""Of the surface; another one begins when a client would notice."""
_SCHEMAS = "#/components/schemas/"
_STREAM = "text/event-stream"
_TURN_STATUSES = {
    400: "The request is wrong; the error says what was found, what was expected and what to do.",
    401: "The API key is missing or unknown.",
    403: "Without keys only this machine is served.",
    404: "The model is not served to this tenant.",
    408: "The rest of the body did not come.",
    413: "The request is too large.",
    415: "The body is compressed.",
    429: "The engine is busy; see Retry-After.",
    502: "The engine broke its contract.",
    503: "Not now; see Retry-After.",
}
_BODY_STATUSES = {status: _TURN_STATUSES[status] for status in (400, 401, 403, 408, 413, 415, 503)}
_LOOK_STATUSES = {status: _TURN_STATUSES[status] for status in (401, 403)}
_OVERLOADED = {529: "Overloaded, as Anthropic's API says it; see Retry-After."}


Kind = Any
"""A type that msgspec decodes; `list[...]` is no class, so there is no closer word for it."""


class Operation(NamedTuple):
    """One thing a client can ask for."""

    method: str
    path: str
    summary: str
    answer: tuple[Kind, ...] | Schema | str
    """What the whole answer may be, a JSON Schema of it, or the media type of one that is no JSON."""
    body: tuple[Kind, ...] = ()
    """What the request may be decoded as; nothing where there is no body."""
    errors: Mapping[int, str] = MappingProxyType({})
    streams: bool = False
    """Whether the answer can be a stream of events."""
    open: bool = False
    """Whether it is answered without a key."""


def _whole(*required: str) -> dict[str, Any]:
    return {"type": "object", "required": list(required)}


OPERATIONS = (
    Operation(
        "post", "/v1/chat/completions", "A turn in OpenAI's chat shape.",
        _whole("id", "object", "created", "model", "choices", "usage"), (ChatBody,), _TURN_STATUSES, streams=True,
    ),
    Operation(
        "post", "/v1/responses", "A turn in OpenAI's Responses shape; nothing is kept to be referred to.",
        _whole("id", "object", "created_at", "status", "model", "output"), (ResponsesBody,), _TURN_STATUSES,
        streams=True,
    ),
    Operation(
        "post", "/v1/messages", "A turn in Anthropic's shape.",
        _whole("id", "type", "role", "model", "content", "stop_reason", "usage"), (MessagesBody,),
        _TURN_STATUSES | _OVERLOADED, streams=True,
    ),
    Operation(
        "post", "/v1/messages/count_tokens", "Tokens of the prompt that a message would be sent with.", (TokenCount,),
        (CountTokensBody,), _TURN_STATUSES | _OVERLOADED,
    ),
    Operation(
        "post", "/generate", "A turn by ids, in SGLang's shape.", _whole("text", "output_ids", "meta_info"),
        (GenerateBody,), _TURN_STATUSES, streams=True,
    ),
    Operation(
        "post", "/v1/feedback", "Judgements on turns and sessions; durable when answered, and once per feedback_id.",
        (Accepted, AcceptedBatch), (Judgement, list[Judgement], JudgementBatch),
        _BODY_STATUSES | {404: "What is judged is not known to this tenant.", 409: "The feedback_id is another's."},
    ),
    Operation(
        "post", "/v1/events", "What a client declares a turn to be.", (Declared,), (Declaration,),
        _BODY_STATUSES | {404: "The session is not known to this tenant."},
    ),
    Operation("get", "/v1/models", "Models of this tenant.", _whole("object", "data"), (), _LOOK_STATUSES),
    Operation(
        "get", "/v1/models/{name}", "One model of this tenant.", _whole("id", "object"), (),
        _LOOK_STATUSES | {404: "The model is not served to this tenant."},
    ),
    Operation("get", "/", "What this is.", _whole("service"), open=True),
    Operation("get", "/health", "What is true of a living collector.", _whole("status"), open=True),
    Operation(
        "get", "/ready", "Whether a call can be served and recorded.", _whole("ready", "missing"), (),
        {503: "What is missing."}, open=True,
    ),
    Operation("get", "/metrics", "Counters in Prometheus' text format.", "text/plain", open=True),
    Operation("get", "/openapi.json", "This document.", _whole("openapi", "paths"), open=True),
)  # fmt: skip
"""All that is served."""


def document() -> dict[str, Any]:
    """The document, as JSON values."""
    kinds = [kind for each in OPERATIONS for kind in each.body]
    kinds += [kind for each in OPERATIONS if isinstance(each.answer, tuple) for kind in each.answer]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_SCHEMAS + "{name}")
    schema_of = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method] = _operation(each, schema_of)
    components["Error"] = _error()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Roundhouse collector",
            "version": _VERSION,
            "description": "Serves model calls and records every token of them. Unknown fields are tolerated.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _operation(each: Operation, schema_of: dict[Kind, Schema]) -> dict[str, Any]:
    def schema(kinds: tuple[Kind, ...]) -> Schema:
        return schema_of[kinds[0]] if len(kinds) == 1 else {"anyOf": [schema_of[kind] for kind in kinds]}

    described: dict[str, Any] = {
        "operationId": f"{each.method}_{each.path.strip('/').replace('/', '_').strip('{}') or 'root'}",
        "summary": each.summary,
        "responses": {"200": {"description": "OK", "content": _answer(each, schema)}},
        "security": [] if each.open else [{"bearer": []}, {"x-api-key": []}],
    }
    for status, text in each.errors.items():
        content = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}Error"}}}
        if each.open:
            content = {"application/json": {"schema": _whole()}}
        described["responses"][str(status)] = {"description": text, "content": content}
    if each.body:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema(each.body)}}}
        described["parameters"] = [_header(*header) for header in _HEADERS]
    if "{name}" in each.path:
        described["parameters"] = [{"in": "path", "name": "name", "required": True, "schema": {"type": "string"}}]
    return described


def _answer(each: Operation, schema: Callable[[tuple[Kind, ...]], Schema]) -> dict[str, Any]:
    if isinstance(each.answer, str):
        return {each.answer: {"schema": {"type": "string"}}}
    content: dict[str, Any] = {
        "application/json": {"schema": schema(each.answer) if isinstance(each.answer, tuple) else each.answer}
    }
    return content | ({_STREAM: {"schema": {"type": "string"}}} if each.streams else {})


_NAME = {"type": "string", "maxLength": 256}
_HEADERS = (
    *((name, "Names the session; the first of these headers that is there wins.", _NAME) for name in SESSION_HEADERS),
    (TASK_HEADER, "The task that the session works on.", _NAME),
    (GROUP_HEADER, "The group of sessions of the same task.", _NAME),
    (PURPOSE_HEADER, "What the turn is for; `traffic` when not given.", {"enum": list(get_args(Purpose))}),
    (TRAIN_HEADER, "`no` keeps the turn out of training.", {"enum": ["yes", "no"]}),
    (RETRIES_HEADER, "How often the client has sent this request before.", {"type": "string", "pattern": "^[0-9]*$"}),
)


def _header(name: str, text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"in": "header", "name": name, "required": False, "description": text, "schema": schema}


def _error() -> dict[str, Any]:
    """Both wires put their error under `error`; Anthropic's has a `type` beside it and in it."""
    told = {"type": "object", "required": ["message", "type"], "properties": {"message": {"type": "string"}}}
    return {"type": "object", "required": ["error"], "properties": {"error": told}}
