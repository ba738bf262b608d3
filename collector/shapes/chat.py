"""`POST /v1/chat/completions`: OpenAI's chat shape, streamed and not."""

from collections.abc import Sequence
from typing import Annotated, Any, cast

import msgspec

from collector.conversation import (
    Call,
    Outcome,
    ReasoningDelta,
    ReplyEvent,
    Sampling,
    TextDelta,
    ToolCallDelta,
    TurnName,
)
from collector.records import ChatRequest
from collector.refusal import Refusal
from collector.shapes.problem import Problem, openai_problem, problem
from collector.shapes.reading import (
    Count,
    Heat,
    Penalty,
    Repetition,
    Seed,
    Share,
    TopK,
    TopP,
    at_least,
    between,
    bias_of,
    check_depth,
    check_messages,
    in_range,
    read_body,
    seed_of,
    shortened,
    top_k_of,
)
from collector.shapes.wire_schemas import NOT_EMPTY, ChatMessage, ChatTool

_MOST_STOPS = 16
_TEXT_TAIL = b'},"logprobs":null,"finish_reason":null}]}\n\n'
_encode = msgspec.json.Encoder().encode


class StreamOptions(msgspec.Struct):
    """What a stream carries beside the reply."""

    include_usage: bool | None = None


class ChatBody(msgspec.Struct):
    """The fields that are read; any other is tolerated."""

    model: str
    messages: Annotated[list[ChatMessage], NOT_EMPTY]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    temperature: Heat | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Repetition | None = None
    logit_bias: dict[str, float] | None = None
    seed: Seed | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    n: Annotated[int, between(1, 1)] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[ChatTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    functions: list[dict[str, Any]] | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    modalities: list[str] | None = None
    audio: Any = None


class ChatExchange:
    """One chat completion, from body to bytes."""

    left_out: tuple[str, ...] = ()

    def __init__(self, body: bytes) -> None:
        request = read_body(body, ChatBody)
        _refuse_unsupported(request)
        check_messages(request.messages)
        _check_tools(request.tools)
        check_depth("chat_template_kwargs", request.chat_template_kwargs)
        self.stream = bool(request.stream)
        self._usage = request.stream_options is not None and bool(request.stream_options.include_usage)
        self._head = self._text_head = b""
        self.call = Call(
            api="chat",
            streamed=self.stream,
            model=request.model,
            chat=ChatRequest(
                messages=request.messages,
                tools=request.tools or None,
                chat_template_kwargs=request.chat_template_kwargs or None,
            ),
            sampling=_sampling(request),
            parse_tools=bool(request.tools) and request.tool_choice != "none",
        )

    def problem(self, refusal: Refusal) -> Problem:
        """An error body."""
        return openai_problem(refusal)

    def keep_alive(self) -> bytes:
        """A comment."""
        return b": ping\n\n"

    def opening(self, name: TurnName) -> bytes:
        """The chunk that carries the role."""
        shared = msgspec.json.encode(
            {
                "id": response_id(name.turn_id),
                "object": "chat.completion.chunk",
                "created": name.created,
                "model": name.model,
            }
        )
        # Everything but the choices is the same in every chunk, and encoded once.
        self._head = b"data: " + shared[:-1] + b',"choices":'
        self._text_head = self._head + b'[{"index":0,"delta":{"content":'
        return self._chunk({"role": "assistant", "content": ""})

    def events(self, events: Sequence[ReplyEvent]) -> bytes:
        """One chunk per event."""
        return b"".join(
            # Nearly all events are text: written without building the chunk first.
            self._text_head + _encode(event.text) + _TEXT_TAIL
            if type(event) is TextDelta
            else self._chunk(_delta(event))
            for event in events
        )

    def closing(self, outcome: Outcome) -> bytes:
        """The finish reason, the usage if it was asked for, and `[DONE]`."""
        last = self._chunk({}, _finish_reason(outcome))
        if self._usage:
            last += self._head + b'[],"usage":' + msgspec.json.encode(_usage(outcome)) + b"}\n\n"
        return last + b"data: [DONE]\n\n"

    def broken_off(self, refusal: Refusal) -> bytes:
        """An error event; no `[DONE]`, since the reply has no end."""
        return b"data: " + problem(refusal) + b"\n\n"

    def body(self, outcome: Outcome) -> bytes:
        """The `chat.completion` object."""
        choice = {
            "index": 0,
            "message": {"refusal": None, **outcome.reply.message()},
            "logprobs": None,
            "finish_reason": _finish_reason(outcome),
        }
        return msgspec.json.encode(
            {
                "id": response_id(outcome.name.turn_id),
                "object": "chat.completion",
                "created": outcome.name.created,
                "model": outcome.name.model,
                "choices": [choice],
                "usage": _usage(outcome),
            }
        )

    def _chunk(self, delta: dict[str, object], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._head + b"[" + msgspec.json.encode(choice) + b"]}\n\n"


def response_id(turn_id: str) -> str:
    """The id a client gets, which is also its receipt for feedback."""
    return f"chatcmpl-{turn_id}"


def _delta(event: ReplyEvent) -> dict[str, object]:
    match event:
        case TextDelta(text):
            return {"content": text}
        case ReasoningDelta(text):
            return {"reasoning_content": text}
        case ToolCallDelta(place, call):
            function = {"name": call.name, "arguments": call.arguments}
            return {"tool_calls": [{"index": place, "id": call.id, "type": "function", "function": function}]}
        case _:
            raise AssertionError(f"no chat delta for {event}")


def _finish_reason(outcome: Outcome) -> str:
    return "tool_calls" if outcome.finish_reason == "stop" and outcome.reply.tool_calls else outcome.finish_reason


def _usage(outcome: Outcome) -> dict[str, object]:
    completion = len(outcome.completion_ids)
    usage: dict[str, object] = {
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": outcome.prompt_tokens + completion,
    }
    if outcome.cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": outcome.cached_tokens}
    return usage


def _sampling(request: ChatBody) -> Sampling:
    limit = request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    if len(stops) > _MOST_STOPS:
        raise Refusal.invalid(f"stop has {len(stops)} strings, expected at most {_MOST_STOPS}", param="stop")
    return Sampling(
        max_tokens=at_least("max_completion_tokens" if request.max_tokens is None else "max_tokens", limit, 1),
        temperature=in_range("temperature", request.temperature, 0, 100, 1),
        top_p=in_range("top_p", request.top_p, 1e-9, 1, 1),
        top_k=top_k_of(request.top_k),
        min_p=in_range("min_p", request.min_p, 0, 1, 0),
        presence_penalty=in_range("presence_penalty", request.presence_penalty, -2, 2, 0),
        frequency_penalty=in_range("frequency_penalty", request.frequency_penalty, -2, 2, 0),
        repetition_penalty=in_range("repetition_penalty", request.repetition_penalty, 1e-9, 2, 1),
        logit_bias=bias_of(request.logit_bias),
        seed=seed_of("seed", request.seed),
        stop=tuple(stop for stop in stops if stop),
        stop_token_ids=tuple(request.stop_token_ids or ()),
        ignore_eos=bool(request.ignore_eos),
    )


def _refuse_unsupported(request: ChatBody) -> None:
    if request.n not in (None, 1):
        raise _unsupported(
            "n", f"is {shortened(request.n)}, expected 1: every sample is a turn of its own; send n requests"
        )
    if request.logprobs or request.top_logprobs:
        raise _unsupported("logprobs", "are not sent to clients: they are recorded; read them from the store")
    if request.functions:
        raise _unsupported("functions", "is the retired form; send the same definitions as tools")
    if request.response_format is not None and request.response_format.get("type") != "text":
        raise _unsupported("response_format", "other than text would constrain sampling; ask for the format in words")
    if request.audio is not None or any(kind != "text" for kind in request.modalities or ()):
        raise _unsupported(
            "modalities", "other than text are not supported: images and audio are neither read nor made"
        )
    if request.tool_choice not in (None, "auto", "none"):
        raise _unsupported("tool_choice", "other than auto and none would constrain sampling; use auto")


def _unsupported(param: str, found: str) -> Refusal:
    return Refusal.invalid(f"{param} {found}", param=param, code="unsupported_value")


def _check_tools(tools: Sequence[dict[str, Any]] | None) -> None:
    for place, tool in enumerate(tools or ()):
        check_depth(f"tools[{place}]", tool)
        function = tool.get("function")
        named = isinstance(function, dict) and isinstance(cast(dict[str, Any], function).get("name"), str)
        if tool.get("type") != "function" or not named:
            param = f"tools[{place}]"
            raise Refusal.invalid(f"{param} is not {{type: function, function: {{name, …}}}}", param=param)
