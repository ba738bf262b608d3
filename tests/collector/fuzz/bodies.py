"""Bodies of every sort, mostly such that a client might send: strategies, and JSON that no encoder would write."""

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from collector.records import FeedbackKind

RECEIPT = "@receipt"
"""Stands for the id of a reply that was given before."""


class Raw(NamedTuple):
    """JSON, or what looks like it, as it goes on the wire."""

    text: str


def encoded(value: Any) -> bytes:
    """The JSON of a value; `Raw` in it is written as it is."""
    return _text(value).encode("utf-8", "surrogatepass")


def _text(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    # NaN and Infinity are written as such, and lone surrogates as escapes.
    return json.dumps(value)


def _nested(depth: int, kind: str) -> Raw:
    opening, closing = {"list": ("[", "]"), "object": ('{"a":', "}")}[kind]
    return Raw(opening * depth + "1" + closing * depth)


WORDS = ["user", "assistant", "text", "model", "system", "auto", "none", "function", "f", "", "\x00", "<|im_end|>"]
SAID = st.text(max_size=12)
TEXT = st.one_of(SAID, SAID, st.sampled_from([*WORDS * 5, "\ud800", "😀\udc00"]))
NUMBER = (
    st.integers(-3, 300)
    | st.sampled_from([10**30, -(10**400), 2**63, 2**63 - 1, -(2**63) - 1, 1e308, 0.1, -0.0, 5e-324])
    | st.floats()
)
DEEP = st.builds(_nested, st.sampled_from([5, 62, 63, 64, 65, 500, 20_000]), st.sampled_from(["list", "object"]))
TWICE = st.sampled_from(
    ['{"role":"user","role":"tool","content":"x"}', '{"type":"text","type":"image","text":"x","text":"y"}', "{,}", "01"]
).map(Raw)
NAMES = st.sampled_from(
    ["role", "content", "type", "text", "tool_calls", "function", "name", "arguments", "x", "\ud800"]
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=6,
)
ODD = st.one_of(JSON, JSON, DEEP, TWICE)


def mostly(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What a client might send, and now and then anything."""
    # By a number, since `one_of` draws evenly from all that its branches are made of.
    return st.integers(0, 39).flatmap(lambda drawn: ODD if drawn == 17 else good)


def fields(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Any]:
    """An object with each of the optional fields now and then, and with one that nobody knows."""
    spare = {name: mostly(good) for name, good in optional.items()} | {"no_such_field": JSON}
    chosen = st.lists(st.sampled_from(sorted(spare)), max_size=3, unique=True)
    needed = st.fixed_dictionaries({name: mostly(good) for name, good in required.items()})
    extra = chosen.flatmap(lambda names: st.fixed_dictionaries({name: spare[name] for name in names}))
    return st.builds(lambda one, other: {**other, **one}, needed, extra)


MODEL = st.just("model")
FLAG = st.booleans()
FEW = st.integers(1, 200)
TEMPERATURE = st.floats(0, 1)
PART = st.fixed_dictionaries({"type": st.sampled_from(["text"] * 12 + ["image_url"]), "text": TEXT})
CONTENT = st.one_of(TEXT, TEXT, TEXT, st.lists(PART, max_size=2))
ARGUMENTS = st.sampled_from(["{}", '{"x": 1}', '{"x": 1', "", "[]", '"\\ud800"', '{"x": 1e999}', "null"]) | TEXT
CALL_ID = st.sampled_from(["c1", "c2", "", "c" * 300])
CALL = fields(
    {"id": CALL_ID, "type": st.just("function"), "function": fields({"name": TEXT, "arguments": ARGUMENTS}, {})}, {}
)
MESSAGE = fields(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "developer"] * 4 + ["robot"]), "content": CONTENT},
    {"tool_calls": st.lists(CALL, max_size=2), "tool_call_id": CALL_ID, "reasoning_content": TEXT, "name": TEXT},
)
FUNCTION = fields({"name": TEXT}, {"description": TEXT, "parameters": st.just({"type": "object"})})
STOPS = TEXT | st.lists(TEXT, max_size=3)
BIAS = st.dictionaries(st.sampled_from(["5", "6"] * 4 + ["999999", "x", "-1"]), TEMPERATURE)
CHOICE = st.sampled_from(["auto", "none"] * 4 + ["required"])
IDS = st.lists(FEW, max_size=2)
CHAT = fields(
    {"model": MODEL, "messages": st.lists(MESSAGE, min_size=1, max_size=4)},
    {
        "tools": st.lists(fields({"type": st.just("function"), "function": FUNCTION}, {}), max_size=2),
        "stream": FLAG, "stream_options": st.just({"include_usage": True}), "max_tokens": FEW, "top_k": FEW,
        "max_completion_tokens": FEW, "temperature": TEMPERATURE, "top_p": st.just(0.9), "min_p": st.just(0.1),
        "presence_penalty": TEMPERATURE, "repetition_penalty": st.just(1.1), "stop": STOPS, "seed": FEW | NUMBER,
        "n": st.just(1), "logit_bias": BIAS, "tool_choice": CHOICE, "stop_token_ids": IDS,
        "chat_template_kwargs": st.dictionaries(st.sampled_from(["enable_thinking", "messages", "x"]), JSON),
        "response_format": st.just({"type": "text"}), "ignore_eos": FLAG, "logprobs": st.just(False),
    },
)  # fmt: skip
ITEM = st.one_of(
    fields({"role": st.sampled_from(["user", "assistant", "system", "developer"]), "content": CONTENT}, {}),
    fields({"type": st.just("function_call"), "call_id": CALL_ID, "name": TEXT, "arguments": ARGUMENTS}, {}),
    fields({"type": st.just("function_call_output"), "call_id": CALL_ID, "output": CONTENT}, {}),
    fields({"type": st.just("reasoning"), "summary": st.just([])}, {"encrypted_content": TEXT, "content": JSON}),
)
RESPONSES = fields(
    {"model": MODEL, "input": TEXT | st.lists(ITEM, min_size=1, max_size=4)},
    {
        "instructions": TEXT, "stream": FLAG, "max_output_tokens": FEW, "temperature": TEMPERATURE, "store": FLAG,
        "tools": st.lists(fields({"type": st.sampled_from(["function", "web_search"]), "name": TEXT}, {}), max_size=2),
        "reasoning": st.just({"effort": "low"}), "include": st.just(["reasoning.encrypted_content"]),
        "metadata": st.dictionaries(TEXT, TEXT, max_size=2), "parallel_tool_calls": FLAG,
        "text": st.just({"format": {"type": "text"}}), "previous_response_id": st.sampled_from([None] * 4 + ["r"]),
        "tool_choice": CHOICE, "background": st.just(False),
    },
)  # fmt: skip
BLOCK = st.one_of(
    fields({"type": st.just("text"), "text": TEXT}, {"cache_control": JSON}),
    fields({"type": st.just("thinking"), "thinking": TEXT}, {"signature": TEXT}),
    fields({"type": st.just("tool_use"), "id": CALL_ID, "name": TEXT, "input": st.dictionaries(TEXT, JSON)}, {}),
    fields({"type": st.just("tool_result"), "tool_use_id": CALL_ID, "content": CONTENT}, {"is_error": FLAG}),
)
SPOKEN = fields(
    {
        "role": st.sampled_from(["user", "user", "assistant", "system"] * 4 + ["tool"]),
        "content": st.one_of(TEXT, TEXT, st.lists(BLOCK, max_size=3)),
    },
    {},
)
SCHEMA = st.just({"type": "object"})
MESSAGES_TOOL = fields({"name": TEXT, "input_schema": SCHEMA}, {"type": st.just("custom")})
SYSTEM = st.lists(st.builds(lambda text: {"type": "text", "text": text}, TEXT), max_size=2)
COUNT = fields(
    {"model": MODEL, "messages": st.lists(SPOKEN, min_size=1, max_size=4)},
    {
        "system": TEXT | SYSTEM, "tools": st.lists(MESSAGES_TOOL, max_size=2),
        "tool_choice": st.sampled_from([{"type": "auto"}, {"type": "none"}]), "thinking": JSON,
        "metadata": st.builds(lambda name: {"user_id": name}, TEXT),
    },
)  # fmt: skip
MESSAGES = st.builds(
    lambda one, other: {**one, **other},
    COUNT,
    fields({"max_tokens": FEW}, {"stream": FLAG, "temperature": TEMPERATURE, "top_k": FEW, "stop_sequences": STOPS}),
)
PARAMS = fields({}, {"max_new_tokens": FEW, "temperature": TEMPERATURE, "stop": STOPS, "n": st.just(1)})
GENERATE = fields(
    {"input_ids": st.lists(st.integers(0, 280), min_size=1, max_size=40)},
    {
        "sampling_params": PARAMS, "stream": FLAG, "return_logprob": FLAG,
        "lora_path": st.sampled_from(["model"] * 4 + ["other"]),
    },
)  # fmt: skip
SESSION = st.sampled_from(["s1", "s2", "s3", "é", "none-such", "s" * 256])
JUDGEMENT = fields(
    {
        "kind": st.sampled_from(list(FeedbackKind.__args__)),
        "value": st.one_of(st.booleans(), st.floats(-1, 1), st.integers(0, 5)),
        "response_id": st.just(RECEIPT),
    },
    {
        "text": TEXT,
        "user": TEXT,
        "source": TEXT,
        "feedback_id": st.text("abc", min_size=1, max_size=6),
        "supersedes": TEXT,
    },
)
FEEDBACK = st.one_of(
    JUDGEMENT, st.lists(JUDGEMENT, max_size=3), st.builds(lambda b: {"feedback": b}, ODD | st.lists(JUDGEMENT))
)
EVENT = fields(
    {"kind": st.sampled_from(["compaction", "subagent"]), "session_id": SESSION, "turn": st.integers(1, 60)},
    {"text": TEXT},
)
BY_PATH: dict[str, st.SearchStrategy[Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/v1/messages/count_tokens": COUNT,
    "/generate": GENERATE,
    "/v1/feedback": FEEDBACK,
    "/v1/events": EVENT,
}
"""Path to bodies for it."""
