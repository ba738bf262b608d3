"""`POST /v1/responses`: OpenAI's Responses shape, streamed and not. Nothing is kept for a later request to refer to."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from collector.conversation import Call, Outcome, ReplyEvent, Sampling, TurnName
from collector.records import ChatRequest
from collector.refusal import Refusal
from collector.shapes.problem import Problem, openai_problem
from collector.shapes.reading import Count, TopP, at_least, between, check_messages, in_range, read_body
from collector.shapes.responses_events import ItemWriter
from collector.shapes.responses_input import chat_messages, chat_tools, wrong
from collector.shapes.tool_results import in_call_order
from collector.shapes.wire_schemas import NOT_EMPTY, InputItem, ResponsesTool

_ENCRYPTED = "reasoning.encrypted_content"
_CODES = {429: "rate_limit_exceeded"}
"""Error codes of a response that failed, by HTTP status; `server_error` otherwise."""


class ResponsesBody(msgspec.Struct):
    """The fields that are read; any other is tolerated."""

    model: str | None = None
    input: str | Annotated[list[InputItem], NOT_EMPTY] | None = None
    instructions: str | None = None
    stream: bool | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Count | None = None
    temperature: Annotated[float, between(0, 2)] | None = None
    top_p: TopP | None = None
    top_logprobs: int | None = None
    include: list[str] | None = None
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None
    background: bool | None = None


class ResponsesExchange:
    """One response, from body to bytes."""

    def __init__(self, body: bytes) -> None:
        request = read_body(body, ResponsesBody)
        _refuse_unsupported(request)
        if request.input is None:
            raise wrong("input", "is missing, expected text or a list of items")
        messages = in_call_order(chat_messages(request.instructions, request.input))
        check_messages(messages)
        tools = chat_tools(request.tools or ())
        self.left_out = tools.left_out
        self.stream = bool(request.stream)
        self.call = Call(
            api="responses",
            streamed=self.stream,
            model=request.model,
            chat=ChatRequest(
                messages=messages,
                tools=tools.functions or None,
                chat_template_kwargs=_template_variables(request.reasoning) or None,
            ),
            sampling=Sampling(
                max_tokens=at_least("max_output_tokens", request.max_output_tokens, 1),
                temperature=in_range("temperature", request.temperature, 0, 2, 1),
                top_p=in_range("top_p", request.top_p, 1e-9, 1, 1),
            ),
            parse_tools=bool(tools.functions) and request.tool_choice != "none",
        )
        self._writer = ItemWriter(sealing=_ENCRYPTED in (request.include or ()))
        self._asked = self._echo(request, tools.told)

    def problem(self, refusal: Refusal) -> Problem:
        """An error body."""
        return openai_problem(refusal)

    def keep_alive(self) -> bytes:
        """Says again that the response is in progress: clients that watch for silence count events, not bytes."""
        return self._writer.event("response.in_progress", {"response": self._begun})

    def opening(self, name: TurnName) -> bytes:
        """`response.created` and `response.in_progress`."""
        self._begin(name)
        return b"".join(
            self._writer.event(kind, {"response": self._begun}) for kind in ("response.created", "response.in_progress")
        )

    def events(self, events: Sequence[ReplyEvent]) -> bytes:
        """Items, their parts and deltas."""
        return b"".join(map(self._writer.add, events))

    def closing(self, outcome: Outcome) -> bytes:
        """The open item's end, and `response.completed` or `response.incomplete` with the whole response."""
        cut = outcome.finish_reason == "length"
        last = self._writer.close("incomplete" if cut else "completed")
        kind = "response.incomplete" if cut else "response.completed"
        return last + self._writer.event(kind, {"response": self._whole(outcome)})

    def broken_off(self, refusal: Refusal) -> bytes:
        """`response.failed`. The open item stays open: clients keep what is said to be done, and ask again."""
        code = refusal.code if refusal.code == "context_length_exceeded" else _CODES.get(refusal.status, "server_error")
        error = {"code": code, "message": refusal.message}
        failed = {**self._begun, "status": "failed", "error": error, "output": self._writer.items}
        return self._writer.event("response.failed", {"response": failed})

    def body(self, outcome: Outcome) -> bytes:
        """The response object."""
        self._begin(outcome.name)
        self.events(outcome.reply.events())
        self._writer.close("incomplete" if outcome.finish_reason == "length" else "completed")
        return msgspec.json.encode(self._whole(outcome))

    def _begin(self, name: TurnName) -> None:
        self._writer.begin(name.turn_id)
        self._begun: dict[str, object] = {
            "id": f"resp_{name.turn_id}",
            "object": "response",
            "created_at": name.created,
            "status": "in_progress",
            "model": name.model,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "usage": None,
            **self._asked,
        }

    def _whole(self, outcome: Outcome) -> dict[str, object]:
        cut = outcome.finish_reason == "length"
        return {
            **self._begun,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": self._writer.items,
            "usage": _usage(outcome),
        }

    def _echo(self, request: ResponsesBody, tools: list[dict[str, Any]]) -> dict[str, object]:
        """What the request asked for, as far as it is in effect."""
        return {
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": request.reasoning,
            "store": False,
            "temperature": self.call.sampling.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": request.tool_choice or "auto",
            "tools": tools,
            "top_p": self.call.sampling.top_p,
            "truncation": "disabled",
        }


def _template_variables(reasoning: dict[str, Any] | None) -> dict[str, object]:
    """What the request says about thinking, under the names that templates know."""
    effort = (reasoning or {}).get("effort")
    if effort == "none":
        return {"enable_thinking": False, "thinking": False}
    return {"reasoning_effort": effort} if isinstance(effort, str) else {}


def _usage(outcome: Outcome) -> dict[str, object]:
    completion = len(outcome.completion_ids)
    usage: dict[str, object] = {
        "input_tokens": outcome.prompt_tokens,
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": outcome.reasoning_tokens},
        "total_tokens": outcome.prompt_tokens + completion,
    }
    if outcome.cached_tokens is not None:
        fresh = outcome.prompt_tokens - outcome.cached_tokens
        usage["input_tokens_details"] = {"cached_tokens": outcome.cached_tokens, "cache_write_tokens": fresh}
    return usage


def _refuse_unsupported(request: ResponsesBody) -> None:
    for name in ("previous_response_id", "conversation", "prompt"):
        if getattr(request, name) is not None:
            raise _unsupported(name, "refers to what is not kept here; send the whole conversation as input items")
    if request.background:
        raise _unsupported("background", "is not supported; stream the response instead")
    if request.top_logprobs or "message.output_text.logprobs" in (request.include or ()):
        raise _unsupported("top_logprobs", "are not sent to clients: they are recorded; read them from the store")
    form = (request.text or {}).get("format")
    if isinstance(form, dict) and form.get("type", "text") != "text":  # pyright: ignore[reportUnknownMemberType]
        raise _unsupported("text.format", "other than text would constrain sampling; ask for the format in words")
    if request.tool_choice not in (None, "auto", "none"):
        raise _unsupported("tool_choice", "other than auto and none would constrain sampling; use auto")


def _unsupported(param: str, found: str) -> Refusal:
    return Refusal.invalid(f"{param} {found}", param=param, code="unsupported_value")
