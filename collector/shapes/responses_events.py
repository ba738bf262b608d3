"""A reply as the output items of a response, whole and as stream events."""

from collector.conversation import ReasoningDelta, ReplyEvent, TextDelta, ToolCall, ToolCallDelta
from collector.shapes.event_text import named_event
from collector.shapes.responses_input import sealed

_PARTS = {"message": "output_text", "reasoning": "reasoning_text"}
_PREFIXES = {"message": "msg", "reasoning": "rs"}


class ItemWriter:
    """Numbers events and items, opens and closes items, and keeps those that are whole."""

    def __init__(self, *, sealing: bool) -> None:
        self.items: list[dict[str, object]] = []
        """The items that are whole."""
        self._sealing = sealing
        self._turn_id = ""
        self._sequence = 0
        self._open: str | None = None
        self._texts: list[str] = []

    def begin(self, turn_id: str) -> None:
        """Names the turn, which item ids are made of."""
        self._turn_id = turn_id

    def event(self, kind: str, fields: dict[str, object]) -> bytes:
        """One numbered event."""
        numbered = {"sequence_number": self._sequence, **fields}
        self._sequence += 1
        return named_event(kind, numbered)

    def add(self, event: ReplyEvent) -> bytes:
        """One event of the reply."""
        match event:
            case TextDelta(text):
                return self._in_item("message") + self._delta("response.output_text.delta", text, logprobs=[])
            case ReasoningDelta(text):
                return self._in_item("reasoning") + self._delta("response.reasoning_text.delta", text)
            case ToolCallDelta(_, call):
                return self.close() + self._call(call)
            case _:
                raise AssertionError(f"no output item for {event}")

    def close(self, status: str = "completed") -> bytes:
        """The end of the open item; nothing when none is."""
        kind = self._open
        if kind is None:
            return b""
        text = "".join(self._texts)
        item = self._item(kind, status, [self._part(kind, text)])
        if kind == "reasoning" and self._sealing:
            item["encrypted_content"] = sealed(text)
        self._open, self._texts = None, []
        place = {**self._place(item["id"]), "content_index": 0}
        more: dict[str, object] = {"logprobs": []} if kind == "message" else {}
        written = (
            self.event(f"response.{_PARTS[kind]}.done", {**place, "text": text, **more})
            + self.event("response.content_part.done", {**place, "part": self._part(kind, text)})
            + self._done(item)
        )
        self.items.append(item)
        return written

    def _call(self, call: ToolCall) -> bytes:
        item: dict[str, object] = {
            "id": f"fc_{call.id.removeprefix('call_')}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        place = self._place(item["id"])
        written = (
            self._added({**item, "status": "in_progress", "arguments": ""})
            + self.event("response.function_call_arguments.delta", {**place, "delta": call.arguments})
            + self.event(
                "response.function_call_arguments.done", {**place, "name": call.name, "arguments": call.arguments}
            )
            + self._done(item)
        )
        self.items.append(item)
        return written

    def _in_item(self, kind: str) -> bytes:
        if self._open == kind:
            return b""
        closed = self.close()
        self._open = kind
        item = self._item(kind, "in_progress", [])
        part = {**self._place(item["id"]), "content_index": 0, "part": self._part(kind, "")}
        return closed + self._added(item) + self.event("response.content_part.added", part)

    def _delta(self, event: str, text: str, **more: object) -> bytes:
        assert self._open is not None
        self._texts.append(text)
        return self.event(event, {**self._place(self._id(self._open)), "content_index": 0, "delta": text, **more})

    def _added(self, item: dict[str, object]) -> bytes:
        return self.event("response.output_item.added", {"output_index": len(self.items), "item": item})

    def _done(self, item: dict[str, object]) -> bytes:
        return self.event("response.output_item.done", {"output_index": len(self.items), "item": item})

    def _place(self, item_id: object) -> dict[str, object]:
        return {"item_id": item_id, "output_index": len(self.items)}

    def _id(self, kind: str) -> str:
        return f"{_PREFIXES[kind]}_{self._turn_id}_{len(self.items)}"

    def _item(self, kind: str, status: str, content: list[object]) -> dict[str, object]:
        own: dict[str, object] = {"role": "assistant"} if kind == "message" else {"summary": []}
        return {"id": self._id(kind), "type": kind, "status": status, **own, "content": content}

    def _part(self, kind: str, text: str) -> dict[str, object]:
        more: dict[str, object] = {"annotations": [], "logprobs": []} if kind == "message" else {}
        return {"type": _PARTS[kind], "text": text, **more}
