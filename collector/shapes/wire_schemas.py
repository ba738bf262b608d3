"""What messages, items and tools look like inside a request, for the published document.

The shapes take them as JSON and check them by hand, so that their errors name the place; these say the same in JSON
Schema. What is not said here is tolerated.
"""

from typing import Annotated, Any

import msgspec

from collector.nesting import DEEPEST
from collector.shapes.reading import ROLES

Schema = dict[str, Any]
"""JSON Schema."""

_TEXT: Schema = {"type": "string"}
_NOTHING: Schema = {"type": "null"}
_OBJECT: Schema = {"type": "object"}


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


def _tagged(kind: str, required: list[str], **properties: Schema) -> Schema:
    return _object(["type", *required], type={"const": kind}, **properties)


def _list(items: Schema, at_least: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": at_least}


def _said(schema: Schema) -> msgspec.Meta:
    """What is said beyond the schema that is read from a field's type."""
    nested = f"Nested at most {DEEPEST} lists and objects deep."
    return msgspec.Meta(extra_json_schema={**schema, "description": nested})


NOT_EMPTY = msgspec.Meta(extra_json_schema={"minItems": 1})
"""Says that a list holds something."""

_PART = _tagged("text", ["text"], text=_TEXT)
_CONTENT = {"anyOf": [_TEXT, _list(_PART)]}
_OPTIONAL = {"anyOf": [_TEXT, _NOTHING]}
_CALL = _object(
    ["function"], id=_TEXT, type={"const": "function"}, function=_object(["name"], name=_TEXT, arguments=_TEXT)
)
_CHAT_SPOKEN = _object(
    ["role", "content"], role={"enum": [role for role in ROLES if role != "assistant"]}, content=_CONTENT
)
_CHAT_SAID = _object(
    ["role"],
    role={"const": "assistant"},
    content={"anyOf": [_TEXT, _list(_PART), _NOTHING]},
    reasoning_content=_OPTIONAL,
    reasoning=_OPTIONAL,
    tool_calls={"anyOf": [_list(_CALL), _NOTHING]},
)
_FUNCTION = _object(["name"], name=_TEXT, description=_TEXT, parameters=_OBJECT)

ChatMessage = Annotated[dict[str, Any], _said({"oneOf": [_CHAT_SPOKEN, _CHAT_SAID]})]
"""One of the `messages` of chat completions."""
ChatTool = Annotated[dict[str, Any], _said(_tagged("function", ["function"], function=_FUNCTION))]
"""One of the `tools` of chat completions."""

_SHOWN = _tagged("text", ["text"], text=_TEXT)
_RESULT = _tagged("tool_result", ["tool_use_id"], tool_use_id=_TEXT, content=_CONTENT, is_error={"type": "boolean"})
_THOUGHT = _tagged("thinking", ["thinking"], thinking=_TEXT, signature=_TEXT)
_USE = _tagged("tool_use", ["id", "name", "input"], id=_TEXT, name=_TEXT, input=_OBJECT)
_ASKED = _object(
    ["role", "content"], role={"const": "user"}, content={"anyOf": [_TEXT, _list({"oneOf": [_SHOWN, _RESULT]})]}
)
_ANSWERED = _object(
    ["role", "content"],
    role={"const": "assistant"},
    content={"anyOf": [_TEXT, _list({"oneOf": [_SHOWN, _THOUGHT, _USE]})]},
)
_TOLD = _object(["role", "content"], role={"const": "system"}, content=_CONTENT)

Message = Annotated[Any, _said({"oneOf": [_ASKED, _ANSWERED, _TOLD]})]
"""One of the `messages` of Anthropic's shape."""
SystemBlock = Annotated[Any, _said(_PART)]
"""One block of the `system` of Anthropic's shape."""
MessagesTool = Annotated[
    Any,
    _said(
        _object(["name", "input_schema"], name={**_TEXT, "minLength": 1}, description=_TEXT, input_schema=_OBJECT),
    ),
]
"""One of the `tools` of Anthropic's shape."""

_ITEM_PARTS = [_tagged(kind, ["text"], text=_TEXT) for kind in ("input_text", "output_text", "text")]
_ITEM_CONTENT = {"anyOf": [_TEXT, _list({"oneOf": _ITEM_PARTS})]}
_ITEMS = [
    _object(
        ["role", "content"],
        type={"const": "message"},
        role={"enum": ["system", "developer", "user", "assistant"]},
        content=_ITEM_CONTENT,
    ),
    _tagged("reasoning", ["summary"], summary=_list(_OBJECT), encrypted_content=_OPTIONAL),
    _tagged("function_call", ["call_id", "name", "arguments"], call_id=_TEXT, name=_TEXT, arguments=_TEXT),
    _tagged("function_call_output", ["call_id", "output"], call_id=_TEXT, output=_ITEM_CONTENT),
]

InputItem = Annotated[Any, _said({"oneOf": _ITEMS})]
"""One item of the `input` of responses."""
ResponsesTool = Annotated[Any, _said(_tagged("function", ["name"], name=_TEXT, description=_TEXT, parameters=_OBJECT))]
"""One of the `tools` of responses."""
