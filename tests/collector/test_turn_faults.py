"""Whatever fails after dispatch: one record, the slot and the session released once, an answer a client can read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collector.engine.wire import Delta, Finish, Span
from collector.fakes import MemoryJournal, ScriptedEngine, deltas
from collector.parsing.reply import ReplyParser
from collector.rendering.renderer import Renderer
from collector.session_index import SessionIndex
from collector.shapes.chat import ChatExchange
from collector.store.reader import Reader
from collector.store.writer import Writer
from tests.collector.loopback import post, serve, until

HI = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
IDS = {"input_ids": [1, 2]}


def fail(*_: Any, **__: Any) -> Any:
    raise RecursionError("as if by a fault")


def broken(*_: Any, **__: Any) -> Any:
    raise LookupError("as if by a fault")


def engine(renderer: Renderer) -> ScriptedEngine:
    ids = renderer.tokenizer.encode("Hello.<|im_end|>")
    return ScriptedEngine(lambda _: deltas(ids))


def break_ending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SessionIndex, "remember", fail)


def break_parsing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplyParser, "add", fail)


def break_reading(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplyParser, "finish", fail)


def break_message(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplyParser, "reply", fail)


def break_closing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChatExchange, "closing", fail)
    patch.setattr(ChatExchange, "body", fail)


def break_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChatExchange, "events", fail)
    patch.setattr(ChatExchange, "body", fail)


FAULTS = [break_ending, break_parsing, break_reading, break_message, break_closing, break_events]


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sessions released, each time one is."""
    released: list[str] = []
    release = SessionIndex.release

    def counted(self: SessionIndex, session: Any) -> None:
        released.append(session.session_id)
        release(self, session)

    monkeypatch.setattr(SessionIndex, "release", counted)
    return released


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("break_it", FAULTS)
async def test_a_fault_of_ours_leaks_nothing_and_is_told_in_the_apis_shape(
    small: Renderer,
    monkeypatch: pytest.MonkeyPatch,
    releases: list[str],
    break_it: Callable[[pytest.MonkeyPatch], None],
    stream: bool,
) -> None:
    async with serve(small, engine(small)) as served:
        with monkeypatch.context() as patch:
            break_it(patch)
            status, _, answer = await post(
                served, "/v1/chat/completions", {**HI, "stream": stream}, **{"x-session-id": "s"}
            )
            await until(lambda: not served.collector.capture.running)
        if stream and break_it is not break_parsing:
            assert (status, "[DONE]" in answer) == (200, False)
            assert answer.rstrip().splitlines()[-1].startswith('data: {"error":{"message":"the collector failed')
        else:
            assert (status, answer["error"]["code"]) == (500, "internal_error")
        assert releases == ["s"]
        assert len(served.journal.turns) == 1
        assert (await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"}))[0] == 200
        assert served.collector.capture.running == 0


async def test_a_fault_in_reading_what_was_cut_off_still_leaves_a_record(
    small: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = ScriptedEngine(lambda _: [Delta(token_ids=[72], logprobs=[-0.5])])
    async with serve(small, cut) as served:
        monkeypatch.setattr(ReplyParser, "finish", fail)
        status, _, answer = await post(served, "/v1/chat/completions", HI)
        assert (status, answer["error"]["code"]) == (500, "internal_error")
        turn = served.journal.turns[0]
        assert (turn.completion_ids, turn.finish_reason, turn.trainable) == ([72], "error", False)
        assert served.collector.capture.running == 0


@pytest.mark.parametrize("path", ["/v1/feedback", "/v1/events"])
async def test_a_fault_outside_a_turn_is_told_in_the_apis_shape(
    small: Renderer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(SessionIndex, "known", broken)
    body = {"session_id": "s", "kind": "compaction" if path == "/v1/events" else "thumb", "value": 1, "turn": 1}
    if path == "/v1/feedback":
        del body["turn"]
    async with serve(small, engine(small)) as served:
        status, _, answer = await post(served, path, body)
        assert (status, answer["error"]["code"]) == (500, "internal_error")


async def test_a_fault_before_dispatch_is_told_in_the_apis_shape(
    small: Renderer, monkeypatch: pytest.MonkeyPatch, releases: list[str]
) -> None:
    async with serve(small, engine(small)) as served:
        with monkeypatch.context() as patch:
            patch.setattr("collector.capture.build_prompt", lambda *_, **__: 1 / 0)
            status, _, answer = await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"})
        assert (status, answer["error"]["code"]) == (500, "internal_error")
        assert (served.collector.capture.running, releases) == (0, ["s"])


@pytest.mark.parametrize("index", [-1, 2**31, 5000])
@pytest.mark.parametrize(("path", "body"), [("/v1/chat/completions", HI), ("/generate", IDS)])
async def test_an_id_that_the_vocabulary_does_not_have_is_the_engines_fault_and_never_kept(
    small: Renderer, path: str, body: dict[str, Any], index: int
) -> None:
    odd = ScriptedEngine(lambda _: [Delta(token_ids=[72], logprobs=[-0.5]), *deltas([index, 73])])
    async with serve(small, odd) as served:
        status, _, answer = await post(served, path, body)
        assert (status, answer["error"]["code"]) == (502, "engine_failed")
        assert f"sampled id {index}, expected one of the tokenizer's" in answer["error"]["message"]
        turn = served.journal.turns[0]
        assert (turn.completion_ids, turn.trainable, turn.untrainable_reason) == ([72], False, "error")


def odd_last(**change: Any) -> ScriptedEngine:
    whole = {"finish": Finish(type="stop", matched=73), "spans": [Span(version="default", start=0, end=2)]}
    return ScriptedEngine(
        lambda _: [
            Delta(token_ids=[72, 73], logprobs=change.pop("logprobs", [-0.5, -0.25])),
            Delta(token_ids=[], logprobs=[], **{**whole, **change}),
        ]
    )


@pytest.mark.parametrize(
    ("change", "field", "left"),
    [
        ({"cached_tokens": 2**63}, "cached_tokens", None),
        ({"logprobs": [-0.5, -1e39]}, "sampled_logprobs", []),
        ({"spans": [Span(version="v", start=0, end=2**40)]}, "weight_versions", []),
    ],
)
async def test_what_the_store_refuses_for_one_field_is_stored_without_it_and_is_untrainable(
    small: Renderer, tmp_path: Path, change: dict[str, Any], field: str, left: Any
) -> None:
    with Writer(tmp_path, "collector") as writer:
        async with serve(small, odd_last(**change), journal=writer) as served:
            status, headers, answer = await post(served, "/v1/chat/completions", HI)
            assert (status, answer["choices"][0]["message"]["content"]) == (200, "HI")
            assert "x-roundhouse-recorded" not in {name.lower() for name in headers}
    with Reader(tmp_path).snapshot(["turns"]) as snapshot:
        (row,) = snapshot.frame("turns").to_dicts()
    assert (row["completion_ids"], row["finish_reason"], row["complete"]) == ([72, 73], "error", False)
    assert (row["trainable"], row["untrainable_reason"], row[field]) == (False, "error", left)
    assert f"{field} could not be stored" in row["response"]


async def test_a_store_that_fails_is_not_asked_again(small: Renderer) -> None:
    journal = MemoryJournal()
    async with serve(small, engine(small), journal=journal) as served:
        journal.failure = "disk full"
        status, _, _ = await post(served, "/v1/chat/completions", HI)
        assert (status, journal.failed_total, served.collector.capture.running) == (200, 1, 0)
