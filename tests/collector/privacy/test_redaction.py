"""Redaction: a secret is in no file of the store, what holds it is not trained on, and the session goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.config import CollectorConfig
from collector.fakes import ScriptedEngine, deltas
from collector.keys import sha256_of
from collector.past import StoredPast
from collector.privacy.config import RedactionConfig
from collector.privacy.detector import Secret
from collector.rendering.renderer import Renderer
from collector.store.arrays import IDS, to_bytes
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer
from tests.collector.loopback import Served, post, serve
from tests.collector.store.test_forget import unpack

END = "<|im_end|>"
SECRET = 'tok"en-1234567890'
ON = CollectorConfig(redaction=RedactionConfig(enabled=True))


class Finder:
    """Finds what follows `key=`, up to a blank or a token of the template."""

    def __init__(self) -> None:
        self.searched: list[str] = []

    def find(self, texts: Sequence[str]) -> list[Secret]:
        self.searched += texts
        return [Secret(SECRET, "test-key") for text in texts if f"key={SECRET}" in text][:1]


class Broken:
    """Cannot say."""

    def find(self, texts: Sequence[str]) -> list[Secret]:
        raise ValueError(f"cannot read {texts}")


def engine(renderer: Renderer, *texts: str) -> ScriptedEngine:
    ids = [renderer.tokenizer.encode(text + END) for text in texts or ("Hello.",)]
    return ScriptedEngine(*[lambda _, ids=each: deltas(ids, size=64) for each in ids])


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def say(served: Served, messages: list[dict[str, Any]], **headers: str) -> list[dict[str, Any]]:
    body = {"model": "model", "messages": messages}
    status, _, answer = await post(served, "/v1/chat/completions", body, **{"x-session-id": "s", **headers})
    assert status == 200, answer
    return [*messages, {k: v for k, v in answer["choices"][0]["message"].items() if k != "refusal"}]


def files_with(store: Path, renderer: Renderer, secret: str = SECRET) -> list[str]:
    """Files that hold the secret as text, as JSON spells it, or as token ids; compressed parts unpacked."""
    needles = [secret.encode(), secret.replace('"', '\\"').encode(), to_bytes(renderer.tokenizer.encode(secret), IDS)]
    found: list[str] = []
    for path in store.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            whole = content + b"".join(unpack(content))
            found += [str(path) for needle in needles if needle in whole][:1]
    return found


async def test_a_secret_is_in_no_file_and_the_session_goes_on_token_by_token(small: Renderer, tmp_path: Path) -> None:
    fake = engine(small, "Sure.", f"It was {SECRET}.", "Bye.", "Clean.")
    with Writer(tmp_path, "collector") as writer:
        async with serve(
            small, fake, journal=writer, past=StoredPast(tmp_path), config=ON, detector=Finder()
        ) as served:
            first = await say(served, [user("Hi")])
            said = await say(served, [*first, user(f"use key={SECRET} now")])
            said = await say(served, [*said, user("thanks")])
            await say(served, [*first, user("something else")])
            assert SECRET in said[3]["content"]
            writer.seal()
            # Some of it hot, in the log, when the files are searched.
            await say(served, [*said, user("and on")])
            assert files_with(tmp_path, small) == []
    assert files_with(tmp_path, small) == []
    for earlier, later in ((0, 1), (1, 2)):
        before = [*fake.requests[earlier].input_ids, *fake.given[earlier]]
        assert fake.requests[later].input_ids[: len(before)] == before
    with Reader(tmp_path).snapshot() as snapshot:
        turns, events = snapshot.frame("turns"), snapshot.frame("events")
        assert snapshot.damage == ()
    assert verify(tmp_path).clean
    assert turns["untrainable_reason"].to_list() == [None, "redacted", "redacted", None, "redacted"]
    assert turns["link"].to_list() == ["root", "extends", "extends", "extends", "extends"]
    held = turns.row(1, named=True)
    assert "use key=[redacted:test-key] now" in held["request"]
    assert "It was [redacted:test-key]." in held["response"]
    for turn in turns.filter(untrainable_reason="redacted").to_dicts():
        assert (turn["prompt_ids"], turn["completion_ids"], turn["sampled_logprobs"]) == ([], [], [])
        assert turn["weight_versions"] == []
    assert turns["prompt_ids"].list.len().to_list()[0] > 0
    assert events["kind"].to_list() == ["redacted"] * 3
    assert events["turn"].to_list() == [2, 3, 5]
    assert events["text"][0] == "redacted: 1 test-key"


async def test_after_a_restart_the_turn_after_a_redacted_one_is_a_break(small: Renderer, tmp_path: Path) -> None:
    said = [user(f"key={SECRET}")]
    for text in ("One.", "Two.", "Three."):
        with Writer(tmp_path, "collector") as writer:
            async with serve(
                small, engine(small, text), journal=writer, past=StoredPast(tmp_path), config=ON, detector=Finder()
            ) as served:
                said = [*await say(served, said), user("on")]
    with Reader(tmp_path).snapshot() as snapshot:
        turns = snapshot.frame("turns")
        assert snapshot.damage == ()
    assert turns["turn"].to_list() == [1, 2, 3]
    assert turns["link"].to_list() == ["root", "break", "break"]
    assert turns["break_kind"].to_list() == [None, "other", "other"]
    assert turns["untrainable_reason"].to_list() == ["redacted"] * 3
    assert files_with(tmp_path, small) == []


async def test_a_secret_in_ids_alone_is_found_and_dropped(small: Renderer) -> None:
    finder = Finder()
    async with serve(small, engine(small), config=ON, detector=finder) as served:
        ids = small.tokenizer.encode(f"key={SECRET}")
        body = {"input_ids": ids, "sampling_params": {"max_new_tokens": 64}}
        status, _, answer = await post(served, "/generate", body)
        assert status == 200, answer
        turn = served.journal.turns[0]
    assert (turn.prompt_ids, turn.completion_ids, turn.untrainable_reason) == ([], [], "redacted")


async def test_a_secret_in_arguments_of_a_tool_call_is_marked_as_json_spells_it(small: Renderer) -> None:
    call = {"name": "run", "arguments": '{"env": "key=' + SECRET.replace('"', '\\"') + '"}'}
    messages = [
        user(f"key={SECRET}"),
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]
    async with serve(small, engine(small), config=ON, detector=Finder()) as served:
        await say(served, messages)
        turn = served.journal.turns[0]
    assert turn.request is not None
    assert turn.request.messages[1]["tool_calls"][0]["function"]["arguments"] == (  # type: ignore[index]
        '{"env": "key=[redacted:test-key]"}'
    )


async def test_secrets_of_one_tenant_are_not_looked_for_in_anothers_text(small: Renderer) -> None:
    config = CollectorConfig(
        keys={sha256_of("key-a"): "a", sha256_of("key-b"): "b"}, redaction=RedactionConfig(enabled=True)
    )
    async with serve(small, engine(small), config=config, detector=Finder()) as served:
        mine, theirs = ({"authorization": f"Bearer {key}"} for key in ("key-a", "key-b"))
        await say(served, [user(f"key={SECRET}")], **mine)
        await say(served, [user(f"again {SECRET}")], **mine)
        await say(served, [user(f"again {SECRET}")], **theirs)
        turns = served.journal.turns
    # A marker there would tell one tenant what another one's secret is.
    assert [turn.untrainable_reason for turn in turns] == ["redacted", "redacted", None]


async def test_what_cannot_be_searched_is_not_stored(small: Renderer, caplog: pytest.LogCaptureFixture) -> None:
    async with serve(small, engine(small), config=ON, detector=Broken()) as served:
        await say(served, [user(f"key={SECRET}")])
        turn = served.journal.turns[0]
        body = {"session_id": "s", "kind": "edit", "value": 1, "text": f"key={SECRET}"}
        assert (await post(served, "/v1/feedback", body))[0] == 200
        assert served.journal.records[-1].text is None
    assert (turn.request, turn.response, turn.prompt_ids) == (None, None, [])
    assert turn.untrainable_reason == "redacted"
    assert SECRET not in caplog.text


async def test_feedback_and_declarations_are_searched_too(small: Renderer) -> None:
    async with serve(small, engine(small), config=ON, detector=Finder()) as served:
        await say(served, [user("Hi")])
        body = {"session_id": "s", "kind": "edit", "text": f"key={SECRET}", "feedback_id": "f"}
        assert [(await post(served, "/v1/feedback", body))[2]["duplicate"] for _ in range(2)] == [False, True]
        event = {"kind": "subagent", "session_id": "s", "turn": 1, "text": f"key={SECRET}"}
        assert (await post(served, "/v1/events", event))[0] == 200
        texts = [record.text for record in served.journal.records[-2:]]
    assert texts == ["key=[redacted:test-key]"] * 2


async def test_nothing_is_searched_unless_it_is_enabled(small: Renderer) -> None:
    finder = Finder()
    async with serve(small, engine(small), detector=finder) as served:
        await say(served, [user(f"key={SECRET}")])
        assert (served.journal.turns[0].trainable, finder.searched) == (True, [])
