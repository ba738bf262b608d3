"""Feedback and declared events: durable, idempotent, bound to their tenant, and welcome after a restart."""

import json
from pathlib import Path
from typing import Any

import pytest

from collector.caller import identify
from collector.config import CollectorConfig
from collector.fakes import MemoryJournal, MemoryPast, ScriptedEngine, deltas
from collector.feedback import FeedbackDesk
from collector.keys import sha256_of
from collector.past import StoredPast
from collector.receipts import Receipts
from collector.records import Event, Feedback
from collector.refusal import Refusal
from collector.rendering.renderer import Renderer
from collector.store.reader import Reader
from collector.store.writer import Writer
from tests.collector.loopback import Served, post, serve

HI = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}


def engine(renderer: Renderer) -> ScriptedEngine:
    ids = renderer.tokenizer.encode("Hello.<|im_end|>")
    return ScriptedEngine(lambda _: deltas(ids))


def feedback(served: Served) -> list[Feedback]:
    return [record for record in served.journal.records if isinstance(record, Feedback)]


async def test_feedback_by_response_id_is_on_record_with_its_turn(qwen3: Renderer) -> None:
    async with serve(qwen3, engine(qwen3)) as served:
        _, headers, reply = await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"})
        body = {"response_id": reply["id"], "kind": "thumb", "value": True, "user": "ann", "source": "ui"}
        status, _, answer = await post(served, "/v1/feedback", body)
        stored = feedback(served)[0]
        assert (status, answer["duplicate"], answer["turn_id"]) == (200, False, headers["x-roundhouse-turn"])
        assert (stored.turn_id, stored.session_id, stored.kind, stored.value) == (answer["turn_id"], "s", "thumb", 1.0)
        assert stored.user_hash is not None
        assert "ann" not in repr(stored)


async def test_feedback_by_session_and_by_turn_number(qwen3: Renderer) -> None:
    async with serve(qwen3, engine(qwen3)) as served:
        await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"})
        batch = [
            {"session_id": "s", "kind": "outcome", "value": 0.5},
            {"session_id": "s", "turn": 1, "kind": "edit", "text": "kept"},
        ]
        status, _, answer = await post(served, "/v1/feedback", {"feedback": batch})
        assert (status, len(answer["feedback"])) == (200, 2)
        assert [judgement.turn_id for judgement in feedback(served)] == [None, served.journal.turns[0].turn_id]
        assert (await post(served, "/v1/feedback", batch))[0] == 200
        assert (await post(served, "/v1/feedback", {**batch[1], "turn": 9}))[0] == 404


async def test_the_same_feedback_id_counts_once_and_another_meaning_is_a_conflict(qwen3: Renderer) -> None:
    async with serve(qwen3, engine(qwen3)) as served:
        await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"})
        body = {"session_id": "s", "kind": "score", "value": 3, "feedback_id": "f1"}
        assert [(await post(served, "/v1/feedback", body))[2]["duplicate"] for _ in range(2)] == [False, True]
        assert (await post(served, "/v1/feedback", {**body, "value": 4}))[0] == 409
        later = {**body, "feedback_id": "f2", "value": 4, "supersedes": "f1"}
        assert (await post(served, "/v1/feedback", later))[0] == 200
        assert [(judgement.feedback_id, judgement.supersedes) for judgement in feedback(served)] == [
            ("f1", None),
            ("f2", "f1"),
        ]


async def test_another_tenants_receipt_is_not_found(qwen3: Renderer) -> None:
    keys = {sha256_of("key-a"): "a", sha256_of("key-b"): "b"}
    async with serve(qwen3, engine(qwen3), config=CollectorConfig(keys=keys)) as served:
        mine, theirs = ({"authorization": f"Bearer {key}"} for key in ("key-a", "key-b"))
        _, headers, reply = await post(served, "/v1/chat/completions", HI, **mine, **{"x-session-id": "s"})
        session = headers["x-roundhouse-session"]
        for target in ({"response_id": reply["id"]}, {"session_id": "s"}, {"session_id": session}, {"turn_id": "no"}):
            body = {"kind": "thumb", "value": 1, **target}
            assert (await post(served, "/v1/feedback", body, **theirs))[0] == 404
        event = {"kind": "compaction", "session_id": session, "turn": 1}
        assert (await post(served, "/v1/events", event, **theirs))[0] == 404
        for target in ({"response_id": reply["id"]}, {"session_id": "s"}, {"session_id": session}):
            assert (await post(served, "/v1/feedback", {"kind": "thumb", "value": 1, **target}, **mine))[0] == 200
        # An id that the other tenant uses too is another id.
        assert {judgement.session_id for judgement in feedback(served)} == {"a/s"}


async def test_feedback_that_cannot_be_stored_is_not_accepted_and_can_be_sent_again(qwen3: Renderer) -> None:
    journal = MemoryJournal()
    async with serve(qwen3, engine(qwen3), journal=journal) as served:
        await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"})
        body = {"session_id": "s", "kind": "score", "value": 3, "feedback_id": "f1"}
        journal.failure = "disk full"
        status, headers, answer = await post(served, "/v1/feedback", body)
        assert (status, answer["error"]["code"]) == (503, "not_recorded")
        assert "Retry-After" in headers
        journal.failure = None
        assert (await post(served, "/v1/feedback", body))[2]["duplicate"] is False
        assert len(feedback(served)) == 1


async def test_late_feedback_finds_its_turn_after_a_restart_and_still_counts_once(qwen3: Renderer) -> None:
    async with serve(qwen3, engine(qwen3)) as served:
        _, _, reply = await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"})
        body = {"response_id": reply["id"], "kind": "score", "value": 3, "feedback_id": "f1"}
        await post(served, "/v1/feedback", body)
        past = MemoryPast(served.journal.records)
    async with serve(qwen3, engine(qwen3), past=past) as again:
        status, _, answer = await post(again, "/v1/feedback", body)
        assert (status, answer["duplicate"]) == (200, True)
        assert (await post(again, "/v1/feedback", {**body, "feedback_id": "f2"}))[2]["duplicate"] is False
        assert (await post(again, "/v1/feedback", {**body, "response_id": "chatcmpl-unknown"}))[0] == 404
        assert [judgement.feedback_id for judgement in feedback(again)] == ["f2"]


@pytest.mark.parametrize(
    "body",
    [
        {"session_id": "s", "kind": "applause", "value": 1},
        {"session_id": "s", "kind": "thumb"},
        {"kind": "thumb", "value": 1},
        {"session_id": "s", "response_id": "r", "kind": "thumb", "value": 1},
        {"session_id": "s", "kind": "thumb", "value": "much"},
        {"response_id": "r", "turn": 1, "kind": "thumb", "value": 1},
        {"session_id": "s", "kind": "thumb", "value": 1, "feedback_id": ""},
        {"session_id": "s", "kind": "thumb", "value": 1, "feedback_id": "f", "supersedes": "f"},
        {"session_id": "s", "kind": "thumb", "value": 1, "turn": 0},
        {"session_id": "s", "kind": "thumb", "value": 1, "turn": 2**63},
        {"session_id": "s", "kind": "thumb", "value": 1, "turn": 2**70},
        {"session_id": "s", "kind": "thumb", "value": 10**400},
        b'{"session_id": "s", "kind": "thumb", "value": 1e400}',
        b'{"session_id": "s", "kind": "thumb", "text": "\\ud800"}',
        3,
    ],
)
async def test_wrong_feedback_is_told_what_is_wrong(qwen3: Renderer, body: Any) -> None:
    async with serve(qwen3, engine(qwen3)) as served:
        await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"})
        status, _, answer = await post(served, "/v1/feedback", body)
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
        assert feedback(served) == []


async def test_a_declared_compaction_is_an_event_and_decides_over_what_would_be_believed(qwen3: Renderer) -> None:
    """Case 016: the client replaces its history by a summary and says so."""
    async with serve(qwen3, engine(qwen3)) as served:
        named = {"x-session-id": "s"}
        await post(served, "/v1/chat/completions", HI, **named)
        status, _, _ = await post(served, "/v1/events", {"kind": "compaction", "session_id": "s", "turn": 2})
        assert status == 200
        event = next(record for record in served.journal.records if isinstance(record, Event))
        assert (event.kind, event.session_id, event.turn) == ("compaction", "s", 2)
        summary = {"model": "model", "messages": [{"role": "user", "content": "Summary: greeted."}]}
        await post(served, "/v1/chat/completions", summary, **named)
        assert served.journal.turns[1].link == "compaction"
        for wrong in (
            {"kind": "party", "session_id": "s", "turn": 1},
            {"kind": "subagent", "session_id": "s", "turn": 0},
            {"kind": "subagent", "session_id": "s", "turn": 2**63},
            {"kind": "subagent", "session_id": "s", "turn": 2**70},
            {"kind": "subagent", "session_id": "s", "turn": -(2**70)},
        ):
            assert (await post(served, "/v1/events", wrong))[0] == 400


async def two_turns(served: Served) -> list[str]:
    """Response ids of two turns of one session."""
    return [(await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"}))[2]["id"] for _ in range(2)]


async def test_an_id_that_was_used_on_another_turn_is_a_conflict_after_a_restart_too(
    small: Renderer, tmp_path: Path
) -> None:
    """The same process and the next one answer alike: the stored judgement stands, the other is refused."""
    with Writer(tmp_path, "collector") as writer:
        async with serve(small, engine(small), journal=writer, past=StoredPast(tmp_path)) as served:
            first, second = await two_turns(served)
            body = {"response_id": first, "kind": "score", "value": 3, "feedback_id": "f1"}
            elsewhere = [{**body, "response_id": second}, {"session_id": "s", "kind": "score", "value": 3}]
            elsewhere[1]["feedback_id"] = "f1"
            assert (await post(served, "/v1/feedback", body))[0] == 200
            assert [(await post(served, "/v1/feedback", other))[0] for other in elsewhere] == [409, 409]
    with Writer(tmp_path, "collector") as writer:
        async with serve(small, engine(small), journal=writer, past=StoredPast(tmp_path)) as again:
            (new,) = (await two_turns(again))[1:]
            for other in [*elsewhere, {**body, "response_id": new}]:
                status, _, answer = await post(again, "/v1/feedback", other)
                assert (status, answer["error"]["code"]) == (409, "feedback_id_reused")
            status, _, answer = await post(again, "/v1/feedback", body)
            assert (status, answer["duplicate"]) == (200, True)
    with Reader(tmp_path).snapshot(["feedback"]) as snapshot:
        stored = snapshot.frame("feedback", columns=["feedback_id", "turn_id"]).rows()
    assert stored == [("f1", first.removeprefix("chatcmpl-"))]


async def test_an_id_counts_once_when_it_is_no_longer_remembered(small: Renderer, tmp_path: Path) -> None:
    with Writer(tmp_path, "collector") as writer:
        past = StoredPast(tmp_path)
        async with serve(small, engine(small), journal=writer, past=past) as served:
            first, second = await two_turns(served)
            desk = FeedbackDesk(
                journal=writer, past=past, receipts=Receipts(past), sessions=served.collector.sessions,
                metrics=served.collector.metrics, user_key=b"", screen=served.collector.screen, kept=1,
            )  # fmt: skip
            dev = identify({}, tenant="dev", key_sha256=None)

            async def said(**fields: Any) -> Any:
                posted = {"response_id": first, "kind": "score", "value": 1, **fields}
                return json.loads(await desk.accept(json.dumps(posted).encode(), dev))

            assert not (await said(feedback_id="a"))["duplicate"]
            assert not (await said(feedback_id="b"))["duplicate"]
            assert (await said(feedback_id="a"))["duplicate"]
            unnamed = (await said())["feedback_id"]
            assert not (await said(feedback_id="c"))["duplicate"]
            assert (await said(feedback_id=unnamed))["duplicate"]
            for moved in ({"response_id": second}, {"value": 2}):
                with pytest.raises(Refusal) as raised:
                    await said(feedback_id="b", **moved)
                assert raised.value.status == 409
    with Reader(tmp_path).snapshot(["feedback"]) as snapshot:
        assert snapshot.frame("feedback")["feedback_id"].to_list() == ["a", "b", unnamed, "c"]


async def test_the_same_id_of_two_tenants_is_two_ids_after_a_restart(small: Renderer) -> None:
    keys = {sha256_of("key-a"): "a", sha256_of("key-b"): "b"}
    config = CollectorConfig(keys=keys)
    body = {"session_id": "s", "kind": "score", "value": 3, "feedback_id": "f1"}
    async with serve(small, engine(small), config=config) as served:
        for key in ("key-a", "key-b"):
            headers = {"authorization": f"Bearer {key}"}
            await post(served, "/v1/chat/completions", HI, **headers, **{"x-session-id": "s"})
        await post(served, "/v1/feedback", body, authorization="Bearer key-a")
        past = MemoryPast(served.journal.records)
    async with serve(small, engine(small), config=config, past=past) as again:
        answers = [await post(again, "/v1/feedback", body, authorization=f"Bearer key-{name}") for name in "ab"]
        assert [answer[2]["duplicate"] for answer in answers] == [True, False]


async def test_declarations_are_read_back_after_a_restart_and_an_eviction(small: Renderer, tmp_path: Path) -> None:
    named = {"x-session-id": "s"}
    summary = {"model": "model", "messages": [{"role": "user", "content": "Summary: greeted."}]}

    async def declare(served: Served, kind: str, turn: int) -> None:
        assert (await post(served, "/v1/events", {"kind": kind, "session_id": "s", "turn": turn}))[0] == 200

    config = CollectorConfig(index_sessions=1)
    with Writer(tmp_path, "collector") as writer:
        async with serve(small, engine(small), journal=writer, past=StoredPast(tmp_path)) as served:
            await two_turns(served)
            await declare(served, "subagent", 3)
            await declare(served, "compaction", 3)
    with Writer(tmp_path, "collector") as writer:
        async with serve(small, engine(small), journal=writer, past=StoredPast(tmp_path), config=config) as again:
            await post(again, "/v1/chat/completions", summary, **named)
            await declare(again, "subagent", 4)
            await post(again, "/v1/chat/completions", HI, **{"x-session-id": "other"})
            assert len(again.collector.sessions) == 1
            await post(again, "/v1/chat/completions", summary, **named)
    with Reader(tmp_path).snapshot(["turns"]) as snapshot:
        turns = snapshot.frame("turns", session_id="s", columns=["turn", "link"]).rows()
    assert turns == [(1, "root"), (2, "root"), (3, "compaction"), (4, "subagent")]


async def test_a_batch_is_stored_whole_or_not_at_all(qwen3: Renderer) -> None:
    async with serve(qwen3, engine(qwen3)) as served:
        await post(served, "/v1/chat/completions", HI, **{"x-session-id": "s"})
        good = {"session_id": "s", "kind": "score", "value": 0.25}
        assert (await post(served, "/v1/feedback", {**good, "feedback_id": "used"}))[0] == 200
        for bad, expected in (
            ([{**good, "turn_id": "nope", "session_id": None}], 404),
            ([{**good, "session_id": "stranger"}], 404),
            ([{**good, "value": None}], 400),
            ([{**good, "turn": 2**63}], 400),
            ([{**good, "feedback_id": "used", "value": 1}], 409),
            ([{**good, "feedback_id": "new"}, {**good, "feedback_id": "new", "value": 1}], 409),
        ):
            assert (await post(served, "/v1/feedback", [good, *bad]))[0] == expected
            assert len(feedback(served)) == 1
        assert (await post(served, "/v1/feedback", [good, {**good, "feedback_id": "used"}]))[0] == 200
        assert len(feedback(served)) == 2
    async with serve(qwen3, engine(qwen3), past=MemoryPast(served.journal.records)) as again:
        answer = await post(again, "/v1/feedback", [good, {**good, "feedback_id": "used", "value": 1}])
        assert (answer[0], feedback(again)) == (409, [])
