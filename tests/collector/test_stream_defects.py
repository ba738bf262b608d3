"""What breaks Claude Code and Codex is absent from every stream, and would be seen here if it were not.

The symptoms were measured on Claude Code 2.1.197 and Codex 0.171.0: an empty answer with exit status 0, a second
request, or a turn that is sent again.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from collector.engine.wire import Finish
from collector.fakes import ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from tests.collector.loopback import post, serve

END = "<|im_end|>"
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": [1, "ü"]}}\n</tool_call>'
REPLIES = {
    "text": f"Hello.{END}",
    "tool": f"{CALL}{END}",
    "thinking and tool": f"<think>\nHm.\n</think>\n\n{CALL}{END}",
    "everything": f"<think>\nHm.\n</think>\n\nLook.\n{CALL}\n{CALL}\nSo.{END}",
    "nothing": END,
    "cut in thinking": "<think>\nHm",
    "cut in text": "Hello",
}
MESSAGES = {"model": "model", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}]}  # fmt: skip
RESPONSES = {"model": "model", "input": "Hi", "stream": True, "tools": [{"type": "function", "name": "f"}]}
Edit = Callable[[str], str]


def _read(stream: str) -> list[tuple[str | None, dict[str, Any]]]:
    found: list[tuple[str | None, dict[str, Any]]] = []
    for block in filter(None, stream.split("\n\n")):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((lines.get("event"), json.loads(lines["data"])))
    return found


def messages_defects(stream: str) -> set[str]:
    """What Claude Code would trip over."""
    read = _read(stream)
    events = [event for _, event in read]
    kinds = [event["type"] for event in events]
    defects = {
        "no event lines": any(name != event["type"] for name, event in read),
        "several message_start": kinds.count("message_start") != 1 or kinds[0] != "message_start",
        "no message_delta": kinds[-2:-1] != ["message_delta"],
        "no message_stop": kinds[-1] != "message_stop",
        "no stop reason": not any(event.get("delta", {}).get("stop_reason") for event in events),
        "no input tokens": not events[0].get("message", {}).get("usage", {}).get("input_tokens"),
        "a done line": "[DONE]" in stream,
    }
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        kind, index = event["type"], event.get("index")
        if kind == "content_block_start":
            defects["index jumps"] = defects.get("index jumps", False) or index != len(blocks)
            blocks[index] = {"kind": event["content_block"]["type"], "json": "", "open": True}
        elif kind == "content_block_delta":
            block, delta = blocks.get(index, {"kind": None, "json": "", "open": False}), event["delta"]
            fits = {"thinking": ("thinking_delta", "signature_delta"), "text": ("text_delta",),
                    "tool_use": ("input_json_delta",)}.get(block["kind"], ())  # fmt: skip
            defects["delta in a wrong block"] = (
                defects.get("delta in a wrong block", False) or delta["type"] not in fits or not block["open"]
            )
            block["json"] += delta.get("partial_json", "")
            block["signed"] = delta["type"] == "signature_delta"
        elif kind == "content_block_stop":
            blocks[index]["open"] = False
    defects["block not stopped"] = any(block["open"] for block in blocks.values())
    defects["no signature"] = any(b["kind"] == "thinking" and not b.get("signed") for b in blocks.values())
    defects["tool input lost"] = any(
        block["kind"] == "tool_use" and json.loads(block["json"] or "{}") != {"a": [1, "ü"]}
        for block in blocks.values()
    )
    return {name for name, found in defects.items() if found}


def responses_defects(stream: str) -> set[str]:
    """What Codex would trip over."""
    read = _read(stream)
    events = [event for _, event in read]
    kinds = [event["type"] for event in events]
    added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    done = [event["item"]["id"] for event in events if event["type"] == "response.output_item.done"]
    last = events[-1].get("response", {})
    active: str | None = None
    stray = False
    for event in events:
        if event["type"] == "response.output_item.added":
            active = event["item"]["id"]
        elif event["type"] == "response.output_item.done":
            active = None
        elif event["type"].endswith(".delta"):
            stray = stray or event["item_id"] != active
    defects = {
        "no event lines": any(name != event["type"] for name, event in read),
        "no created": kinds[0] != "response.created",
        "delta without an item": stray,
        "item never done": added != done,
        "no end": kinds[-1] not in ("response.completed", "response.incomplete"),
        "no usage": not (last.get("usage") or {}).get("total_tokens"),
        "numbers jump": [event.get("sequence_number") for event in events] != list(range(len(events))),
        "no call id": any(
            event["type"] == "response.output_item.done"
            and event["item"]["type"] == "function_call"
            and not event["item"].get("call_id")
            for event in events
        ),
    }
    return {name for name, found in defects.items() if found}


WIRES = {"messages": ("/v1/messages", MESSAGES, messages_defects),
         "responses": ("/v1/responses", RESPONSES, responses_defects)}  # fmt: skip


async def stream_of(renderer: Renderer, wire: str, text: str) -> str:
    ids = renderer.tokenizer.encode(text)
    finish = None if text.endswith(END) else Finish(type="length")
    path, body, _ = WIRES[wire]
    async with serve(renderer, ScriptedEngine(lambda _: deltas(ids, finish=finish))) as served:
        status, _, stream = await post(served, path, body)
    assert status == 200
    return stream


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("wire", WIRES)
async def test_no_stream_has_a_defect(small: Renderer, wire: str, name: str) -> None:
    assert WIRES[wire][2](await stream_of(small, wire, REPLIES[name])) == set()


def without(kind: str) -> Edit:
    """Takes the events of a type out."""
    return lambda stream: "".join(
        block + "\n\n"
        for block in stream.split("\n\n")
        if block and f'"type":"{kind}"' not in block.split("\n")[1][:60]
    )


def swapped(old: str, new: str) -> Edit:
    return lambda stream: re.sub(old, new, stream)


@pytest.mark.parametrize(
    ("wire", "edit", "defect"),
    [
        ("messages", swapped(r"event: \w+\n", ""), "no event lines"),
        ("messages", swapped(r'"type":"thinking","thinking":"","signature"', '"type":"text","text":"","s"'),
         "delta in a wrong block"),
        ("messages", swapped(r"(event: message_start\n.*\n\n)", r"\1\1"), "several message_start"),
        ("messages", without("content_block_stop"), "block not stopped"),
        ("messages", without("message_delta"), "no message_delta"),
        ("messages", without("message_stop"), "no message_stop"),
        ("messages", swapped(r'"stop_reason":"\w+"', '"stop_reason":null'), "no stop reason"),
        ("messages", swapped(r'"input_tokens":\d+', '"input_tokens":0'), "no input tokens"),
        ("messages", swapped("signature_delta", "thinking_delta"), "no signature"),
        ("messages", swapped(r'"partial_json":"[^ü]*ü[^ü]*?\}"', '"partial_json":"{}"'), "tool input lost"),
        ("messages", swapped('"index":2', '"index":3'), "index jumps"),
        ("messages", lambda stream: stream + 'event: message_stop\ndata: {"type":"message_stop","x":"[DONE]"}\n\n',
         "a done line"),
        ("responses", swapped(r"event: [\w.]+\n", ""), "no event lines"),
        ("responses", without("response.created"), "no created"),
        ("responses", without("response.output_item.added"), "delta without an item"),
        ("responses", without("response.output_item.done"), "item never done"),
        ("responses", without("response.completed"), "no end"),
        ("responses", swapped('"total_tokens":[0-9]+', '"total_tokens":null'), "no usage"),
        ("responses", swapped('"sequence_number":3,', '"sequence_number":4,'), "numbers jump"),
        ("responses", swapped('"call_id":"[^"]+"', '"call_id":""'), "no call id"),
    ],
)  # fmt: skip
async def test_each_defect_would_be_seen(small: Renderer, wire: str, edit: Edit, defect: str) -> None:
    stream = await stream_of(small, wire, REPLIES["everything"])
    edited = edit(stream)
    assert edited != stream
    assert defect in WIRES[wire][2](edited)
