"""The published document: every route is in it, it says what is enforced, and samples/openapi.json is it as it stands.

Run as a script it writes that file anew.
"""

import copy
import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from starlette.routing import Route

from collector.app import build_app
from collector.fakes import ScriptedEngine, deltas
from collector.openapi import document
from tests.collector.loopback import Served, post, serve
from tests.collector.published import small_renderer

FILE = Path(__file__).parents[2] / "samples" / "openapi.json"
USER = {"role": "user", "content": "Hi"}
VALID: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "model", "messages": [USER], "max_tokens": 9},
    "/v1/responses": {"model": "model", "input": [USER], "max_output_tokens": 9},
    "/v1/messages": {"model": "model", "messages": [USER], "max_tokens": 9},
    "/v1/messages/count_tokens": {"model": "model", "messages": [USER]},
    "/generate": {"input_ids": [1, 2], "sampling_params": {"max_new_tokens": 9}},
}
# What OpenAI's and Anthropic's own documents show as requests.
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
TOLD: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"role": "assistant", "content": None, "tool_calls": [CALL]}),
    ("/v1/chat/completions", {"role": "tool", "tool_call_id": "c", "content": "1"}),
    ("/v1/chat/completions", {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}),
    ("/v1/responses", {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
    ("/v1/responses", {"type": "function_call_output", "call_id": "c", "output": "1"}),
    ("/v1/responses", {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}),
    ("/v1/responses", {"type": "reasoning", "summary": []}),
    ("/v1/messages", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "1"}]}),
    ("/v1/messages", {"role": "system", "content": "Be brief."}),
    ("/v1/messages", {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {}}]}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncGenerator[Served]:
    small = small_renderer()
    ids = small.tokenizer.encode("Hi.<|im_end|>")
    async with serve(small, ScriptedEngine(lambda _: deltas(ids, size=9))) as served:
        yield served


def body_schemas(path: str) -> list[dict[str, Any]]:
    whole = document()
    schema = whole["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return [resolved(each, whole) for each in schema.get("anyOf", [schema])]


def resolved(value: Any, whole: dict[str, Any]) -> Any:
    """The schema with every reference replaced by what it refers to."""
    if isinstance(value, list):
        return [resolved(each, whole) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return resolved(whole["components"]["schemas"][value["$ref"].rpartition("/")[2]], whole)
    return {key: resolved(each, whole) for key, each in value.items()}


def bounds(schema: dict[str, Any], where: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float, float]]:
    """Every number of a body with its bounds."""
    for name, each in schema.get("properties", {}).items():
        for choice in each.get("anyOf", [each]):
            if "minimum" in choice:
                yield (*where, name), choice["minimum"], choice["maximum"]
            yield from bounds(choice, (*where, name))


def with_value(path: str, where: tuple[str, ...], value: float) -> dict[str, Any]:
    body = copy.deepcopy(VALID[path])
    inner = body
    for name in where[:-1]:
        inner = inner.setdefault(name, {})
    if where[-1] == "max_completion_tokens":
        inner.pop("max_tokens")
    inner[where[-1]] = value
    return body


BOUNDED = [(path, *bound) for path in VALID for bound in bounds(body_schemas(path)[0])]


def test_the_file_in_samples_is_the_document() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == document(), "run: python -m tests.collector.test_openapi"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_collector_serves_it_to_anyone(served: Served) -> None:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(f"{served.url}/openapi.json") as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert await answer.json() == document()


@pytest.mark.asyncio(loop_scope="module")
async def test_every_route_is_in_it_and_nothing_else(served: Served) -> None:
    routes = [route for route in build_app(served.collector).routes if isinstance(route, Route)]
    ours = {
        (method.lower(), route.path.replace("{name:path}", "{name}"))
        for route in routes
        for method in route.methods or ()
        if method != "HEAD"
    }
    told = {(method, path) for path, methods in document()["paths"].items() for method in methods}
    assert told == ours


def test_every_number_has_bounds() -> None:
    """Of chat 11, of responses 3, of messages 4, of generate 11."""
    assert len(BOUNDED) == 11 + 3 + 4 + 11


@pytest.mark.parametrize(("path", "where", "low", "high"), BOUNDED)
@pytest.mark.asyncio(loop_scope="module")
async def test_bounds_are_those_that_are_enforced(
    served: Served, path: str, where: tuple[str, ...], low: float, high: float
) -> None:
    for value in (low, high):
        status, _, answer = await post(served, path, with_value(path, where, value))
        assert status == 200, answer
    below, above = (low - 1, high + 1) if isinstance(low, int) and low != 0 else (low - 1e-3, high + 1)
    for value in (below, above):
        status, _, answer = await post(served, path, with_value(path, where, value))
        assert status == 400, (value, answer)


@pytest.mark.parametrize(("path", "message"), TOLD)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_clients_send_is_valid_and_is_served(served: Served, path: str, message: dict[str, Any]) -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="NOT TESTED, the schemas: schemathesis is missing")
    body = copy.deepcopy(VALID[path])
    name = "input" if "input" in body else "messages"
    body[name] = [USER, message] if message.get("role") != "system" else [message, USER]
    (schema,) = body_schemas(path)
    jsonschema_rs.validator_for(schema).validate(body)
    status, _, answer = await post(served, path, body)
    assert status == 200, answer
    # And its opposite: what is refused by hand is not valid either.
    body[name] = [USER, {**message, "role": "robot", "type": "robot"}]
    assert not jsonschema_rs.is_valid(schema, body)
    status, _, answer = await post(served, path, body)
    assert status == 400, answer


def written() -> str:
    """The document as it is kept."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
