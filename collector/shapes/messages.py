"""`POST /v1/messages`: Anthropic's shape, streamed and not, and the request of `count_tokens`."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from collector.conversation import Call, Outcome, ReplyEvent, Sampling, TurnName
from collector.records import ChatRequest
from collector.refusal import Refusal
from collector.shapes.event_text import named_event
from collector.shapes.messages_events import BlockWriter, content_blocks
from collector.shapes.messages_input import chat_messages, chat_tools, session_of, wrong
from collector.shapes.messages_problem import error_of, messages_problem
from collector.shapes.problem import Problem
from collector.shapes.reading import Count, Share, TopK, TopP, at_least, check_messages, in_range, read_body, top_k_of
from collector.shapes.tool_results import in_call_order
from collector.shapes.wire_schemas import NOT_EMPTY, Message, MessagesTool, SystemBlock

_MOST_STOPS = 16


class CountTokensBody(msgspec.Struct):
    """The fields that make the prompt; any other is tolerated, as are unknown betas."""

    model: str
    messages: Annotated[list[Message], NOT_EMPTY]
    system: str | list[SystemBlock] | None = None
    tools: list[MessagesTool] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class MessagesBody(CountTokensBody):
    """The fields that are read; any other is tolerated, as are unknown betas."""

    max_tokens: Count | None = None
    stream: bool | None = None
    temperature: Share | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    stop_sequences: list[str] | None = None
    output_format: dict[str, Any] | None = None


class TokenCount(msgspec.Struct, frozen=True):
    """The answer of `count_tokens`."""

    input_tokens: int


class MessagesExchange:
    """One message, from body to bytes."""

    def __init__(self, body: bytes) -> None:
        request = read_body(body, MessagesBody)
        if request.max_tokens is None:
            raise wrong("max_tokens", "is missing, expected a positive integer")
        self.stream = bool(request.stream)
        self.call, self.left_out = _call(request, _sampling(request), streamed=self.stream)
        self._stops = frozenset(self.call.sampling.stop)
        self._blocks = BlockWriter()

    def problem(self, refusal: Refusal) -> Problem:
        """An error body."""
        return messages_problem(refusal)

    def keep_alive(self) -> bytes:
        """A ping: clients that watch for silence count events, not bytes."""
        return named_event("ping", {})

    def opening(self, name: TurnName) -> bytes:
        """`message_start`, with the prompt's tokens."""
        usage = {"input_tokens": name.prompt_tokens, "output_tokens": 0}
        return named_event("message_start", {"message": _message(name, [], (None, None), usage)})

    def events(self, events: Sequence[ReplyEvent]) -> bytes:
        """Blocks and their deltas."""
        return b"".join(map(self._blocks.add, events))

    def closing(self, outcome: Outcome) -> bytes:
        """The open block's end, `message_delta` and `message_stop`."""
        reason, stop = self._stop(outcome)
        delta = {"delta": {"stop_reason": reason, "stop_sequence": stop}, "usage": _usage(outcome)}
        return self._blocks.close() + named_event("message_delta", delta) + named_event("message_stop", {})

    def broken_off(self, refusal: Refusal) -> bytes:
        """An error event. The open block stays open: Claude Code 2.1.197 asks again then, and gives up after a stop."""
        return named_event("error", {"error": error_of(refusal)})

    def body(self, outcome: Outcome) -> bytes:
        """The message object."""
        content = content_blocks(outcome.reply.events())
        return msgspec.json.encode(_message(outcome.name, content, self._stop(outcome), _usage(outcome)))

    def _stop(self, outcome: Outcome) -> tuple[str, str | None]:
        if outcome.finish_reason == "length":
            return "max_tokens", None
        if isinstance(outcome.matched, str) and outcome.matched in self._stops:
            return "stop_sequence", outcome.matched
        return ("tool_use" if outcome.reply.tool_calls else "end_turn"), None


def counted_call(body: bytes) -> Call:
    """The call whose prompt `count_tokens` is asked about."""
    return _call(read_body(body, CountTokensBody), Sampling(), streamed=False)[0]


def _call(request: CountTokensBody, sampling: Sampling, *, streamed: bool) -> tuple[Call, tuple[str, ...]]:
    choice = (request.tool_choice or {}).get("type", "auto")
    if choice not in ("auto", "none"):
        raise _unsupported("tool_choice", "other than auto and none would constrain sampling; use auto")
    if (request.output_config or {}).get("format") is not None:
        raise _unsupported("output_config.format", "would constrain sampling; ask for the format in words")
    messages = in_call_order(chat_messages(request.system, request.messages))
    check_messages(messages)
    if messages[-1]["role"] == "assistant":
        raise _unsupported("messages", "ends with an assistant message, expected a user message: prefill is not taken")
    tools = chat_tools(request.tools or ())
    call = Call(
        api="messages",
        streamed=streamed,
        model=request.model,
        chat=ChatRequest(
            messages=messages, tools=tools.functions or None, chat_template_kwargs=_template_variables(request) or None
        ),
        sampling=sampling,
        session_name=session_of((request.metadata or {}).get("user_id")),
        parse_tools=bool(tools.functions) and choice != "none",
    )
    return call, tools.left_out


def _template_variables(request: CountTokensBody) -> dict[str, object]:
    """What the request says about thinking, under the names that templates know."""
    variables: dict[str, object] = {}
    kind = (request.thinking or {}).get("type")
    if kind in ("enabled", "adaptive", "disabled"):
        variables = dict.fromkeys(("enable_thinking", "thinking"), kind != "disabled")
    effort = (request.output_config or {}).get("effort")
    return {**variables, "reasoning_effort": effort} if isinstance(effort, str) else variables


def _sampling(request: MessagesBody) -> Sampling:
    stops = request.stop_sequences or []
    if len(stops) > _MOST_STOPS:
        raise wrong("stop_sequences", f"has {len(stops)} strings, expected at most {_MOST_STOPS}")
    if request.output_format is not None:
        raise _unsupported("output_format", "would constrain sampling; ask for the format in words")
    return Sampling(
        max_tokens=at_least("max_tokens", request.max_tokens, 1),
        temperature=in_range("temperature", request.temperature, 0, 1, 1),
        top_p=in_range("top_p", request.top_p, 1e-9, 1, 1),
        top_k=top_k_of(request.top_k),
        stop=tuple(stop for stop in stops if stop),
    )


def _message(
    name: TurnName, content: list[dict[str, object]], stop: tuple[str | None, str | None], usage: dict[str, int]
) -> dict[str, object]:
    return {
        "id": f"msg_{name.turn_id}",
        "type": "message",
        "role": "assistant",
        "model": name.model,
        "content": content,
        "stop_reason": stop[0],
        "stop_sequence": stop[1],
        "usage": usage,
    }


def _usage(outcome: Outcome) -> dict[str, int]:
    """Anthropic's input tokens are those that no cache held."""
    usage = {"input_tokens": outcome.prompt_tokens, "output_tokens": len(outcome.completion_ids)}
    if outcome.cached_tokens is not None:
        usage |= {
            "input_tokens": outcome.prompt_tokens - outcome.cached_tokens,
            "cache_read_input_tokens": outcome.cached_tokens,
        }
    return usage


def _unsupported(param: str, found: str) -> Refusal:
    return Refusal.invalid(f"{param} {found}", param=param, code="unsupported_value")
