"""A reply as Anthropic's content blocks, whole and as stream events."""

from collections.abc import Iterable, Mapping

import msgspec

from collector.conversation import ReasoningDelta, ReplyEvent, TextDelta, ToolCallDelta
from collector.shapes.event_text import named_event

SIGNATURE = "roundhouse"
"""What stands for the signature of a thinking block: clients keep blocks that have one. Coming back it is ignored."""


class BlockWriter:
    """Numbers the blocks, opens and closes them; a delta never goes into a block of another type."""

    def __init__(self) -> None:
        self._index = -1
        self._open: str | None = None

    def add(self, event: ReplyEvent) -> bytes:
        """One event of the reply."""
        match event:
            case TextDelta(text):
                opened = self._in_block("text", {"type": "text", "text": ""})
                return opened + self._delta({"type": "text_delta", "text": text})
            case ReasoningDelta(text):
                opened = self._in_block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                return opened + self._delta({"type": "thinking_delta", "thinking": text})
            case ToolCallDelta(_, call):
                start: dict[str, object] = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
                opened = self.close() + self._in_block("tool_use", start)
                return opened + self._delta({"type": "input_json_delta", "partial_json": call.arguments}) + self.close()
            case _:
                raise AssertionError(f"no content block for {event}")

    def close(self) -> bytes:
        """The end of the open block; nothing when none is."""
        if self._open is None:
            return b""
        signed = self._open == "thinking"
        last = self._delta({"type": "signature_delta", "signature": SIGNATURE}) if signed else b""
        self._open = None
        return last + named_event("content_block_stop", {"index": self._index})

    def _in_block(self, kind: str, start: Mapping[str, object]) -> bytes:
        if self._open == kind:
            return b""
        closed = self.close()
        self._open = kind
        self._index += 1
        return closed + named_event("content_block_start", {"index": self._index, "content_block": start})

    def _delta(self, delta: dict[str, object]) -> bytes:
        return named_event("content_block_delta", {"index": self._index, "delta": delta})


def content_blocks(events: Iterable[ReplyEvent]) -> list[dict[str, object]]:
    """The blocks of a whole reply."""
    blocks: list[dict[str, object]] = []
    for event in events:
        match event:
            case TextDelta(text):
                blocks.append({"type": "text", "text": text})
            case ReasoningDelta(text):
                blocks.append({"type": "thinking", "thinking": text, "signature": SIGNATURE})
            case ToolCallDelta(_, call):
                given = msgspec.Raw(call.arguments.encode())
                blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
            case _:
                raise AssertionError(f"no content block for {event}")
    return blocks
