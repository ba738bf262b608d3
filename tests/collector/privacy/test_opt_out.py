"""Opting out of training: by request or by tenant, for the turn and for what goes on from it, and for nobody else."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.config import CollectorConfig
from collector.fakes import ScriptedEngine, deltas
from collector.keys import sha256_of
from collector.past import StoredPast
from collector.privacy.config import OptOutConfig
from collector.privacy.withheld import inherited
from collector.rendering.renderer import Renderer
from collector.store.reader import Reader
from collector.store.writer import Writer
from tests.collector.loopback import Served, post, serve

END = "<|im_end|>"
NO = {"x-roundhouse-train": "no"}


def engine(renderer: Renderer, *texts: str) -> ScriptedEngine:
    ids = [renderer.tokenizer.encode(text + END) for text in texts or ("Hello.",)]
    return ScriptedEngine(*[lambda _, ids=each: deltas(ids, size=64) for each in ids])


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def say(served: Served, messages: list[dict[str, Any]], **headers: str) -> list[dict[str, Any]]:
    """The conversation with the reply."""
    body = {"model": "model", "messages": messages}
    status, _, answer = await post(served, "/v1/chat/completions", body, **{"x-session-id": "s", **headers})
    assert status == 200, answer
    return [*messages, {k: v for k, v in answer["choices"][0]["message"].items() if k != "refusal"}]


async def test_a_request_that_opts_out_and_what_goes_on_from_it_are_not_trained_on(small: Renderer) -> None:
    async with serve(small, engine(small, "One.", "Two.", "Three.", "Four.")) as served:
        first = await say(served, [user("Hi")])
        second = await say(served, [*first, user("my name is Ann")], **NO)
        await say(served, [*second, user("on")])
        await say(served, [*first, user("elsewhere")])
        turns = served.journal.turns
    assert [turn.untrainable_reason for turn in turns] == [None, "opted_out", "opted_out", None]
    assert [turn.trainable for turn in turns] == [True, False, False, True]
    assert [turn.link for turn in turns] == ["root", "extends", "extends", "extends"]
    # Kept whole by default: ids and texts are there.
    assert all(turn.completion_ids and turn.request is not None for turn in turns)


async def test_a_rewritten_history_of_an_opted_out_turn_is_not_trained_on_either(small: Renderer) -> None:
    async with serve(small, engine(small, "One.", "Two.")) as served:
        first = await say(served, [{"role": "system", "content": "a"}, user("Hi")], **NO)
        await say(served, [{"role": "system", "content": "b"}, *first[1:], user("on")])
        turns = served.journal.turns
    assert (turns[1].link, turns[1].untrainable_reason) == ("break", "opted_out")


async def test_opting_out_outlives_a_restart(small: Renderer, tmp_path: Path) -> None:
    messages = [user("Hi")]
    for headers in (NO, {}):
        with Writer(tmp_path, "collector") as writer:
            async with serve(small, engine(small), journal=writer, past=StoredPast(tmp_path)) as served:
                messages = [*await say(served, messages, **headers), user("on")]
    with Reader(tmp_path).snapshot() as snapshot:
        turns = snapshot.frame("turns")
    assert turns["link"].to_list() == ["root", "extends"]
    assert turns["untrainable_reason"].to_list() == ["opted_out"] * 2


async def test_a_bare_record_holds_no_text_and_no_ids_and_memory_still_splices(small: Renderer, tmp_path: Path) -> None:
    config = CollectorConfig(opt_out=OptOutConfig(keep="bare"))
    with Writer(tmp_path, "collector") as writer:
        fake = engine(small, "One.", "Two.")
        async with serve(small, fake, journal=writer, past=StoredPast(tmp_path), config=config) as served:
            first = await say(served, [user("Hi")], **NO)
            await say(served, [*first, user("on")])
    before = [*fake.requests[0].input_ids, *fake.given[0]]
    assert fake.requests[1].input_ids[: len(before)] == before
    with Reader(tmp_path).snapshot() as snapshot:
        assert snapshot.damage == ()
        turns = snapshot.frame("turns").to_dicts()
    for turn in turns:
        assert (turn["request"], turn["response"]) == (None, None)
        assert (turn["prompt_ids"], turn["completion_ids"], turn["sampled_logprobs"]) == ([], [], [])
        assert (turn["finish_reason"], turn["untrainable_reason"]) == ("stop", "opted_out")


async def test_a_tenant_opts_out_for_itself_alone(small: Renderer) -> None:
    config = CollectorConfig(
        keys={sha256_of("key-a"): "a", sha256_of("key-b"): "b"}, opt_out=OptOutConfig(tenants=["a"])
    )
    async with serve(small, engine(small), config=config) as served:
        mine, theirs = ({"authorization": f"Bearer {key}"} for key in ("key-a", "key-b"))
        said = await say(served, [user("Hi")], **mine, **{"x-roundhouse-train": "yes"})
        # The same session name and the same words, by another tenant: nothing of it is inherited.
        await say(served, [*said, user("on")], **theirs)
        await say(served, [user("Hi")], **theirs, **NO)
        await say(served, [*said, user("on")], **mine)
        turns = served.journal.turns
    assert [(turn.tenant, turn.untrainable_reason) for turn in turns] == [
        ("a", "opted_out"),
        ("b", None),
        ("b", "opted_out"),
        ("a", "opted_out"),
    ]


async def test_a_header_that_says_neither_is_refused(small: Renderer) -> None:
    async with serve(small, engine(small)) as served:
        body = {"model": "model", "messages": [user("Hi")]}
        status, _, answer = await post(served, "/v1/chat/completions", body, **{"x-roundhouse-train": "false"})
        assert (status, served.journal.turns) == (400, [])
        assert "x-roundhouse-train is 'false', expected yes or no" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("earlier", "link", "in_session", "lost", "found"),
    [
        ([None, "opted_out"], "extends", [], False, "opted_out"),
        (["opted_out", "redacted"], "extends", [], False, "redacted"),
        ([None], "extends", ["opted_out"], False, None),
        ([None], "break", ["opted_out"], False, "opted_out"),
        ([], "break", ["redacted"], False, None),
        ([], "break", ["redacted"], True, "redacted"),
        ([None], "extends", ["redacted"], True, "redacted"),
        ([], "root", ["redacted", "opted_out"], True, None),
        ([], "compaction", ["opted_out"], False, "opted_out"),
        ([], "subagent", ["opted_out"], True, None),
    ],
)
def test_what_a_turn_inherits(earlier: Any, link: Any, in_session: Any, lost: bool, found: str | None) -> None:
    assert inherited(earlier, link, in_session, lost=lost) == found


def test_settings_are_decoded() -> None:
    values = {"opt_out": {"tenants": ["a"], "keep": "bare"}}
    assert msgspec.convert(values, CollectorConfig).opt_out == OptOutConfig(tenants=["a"], keep="bare")
