"""Retries that come after a restart of the collector: linked to the first attempt, and trained on once at most."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.errors import EngineError
from collector.fakes import ScriptedEngine, deltas
from collector.past import StoredPast
from collector.rendering.renderer import Renderer
from collector.store.reader import Reader
from collector.store.writer import Writer
from tests.collector.loopback import post, serve
from tests.collector.store.conftest import build_conversation

END = "<|im_end|>"
ASK: dict[str, Any] = {"model": "model", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
NAMED = {"x-claude-code-session-id": "s"}
AGAIN = {"x-stainless-retry-count": "1"}


async def restarted(small: Renderer, store: Path, *asked: tuple[dict[str, Any], dict[str, str], bool]) -> list[Any]:
    """One collector for each request; whether it breaks off is said by the last of the three. The stored turns."""
    ids = small.tokenizer.encode(f"Hello.{END}")
    for body, headers, breaks in asked:
        steps = [*deltas(ids)[:2], EngineError("broke")] if breaks else deltas(ids)
        with Writer(store, "collector") as writer:
            async with serve(
                small, ScriptedEngine(lambda _, steps=steps: steps), journal=writer, past=StoredPast(store)
            ) as served:
                await post(served, "/v1/messages", body, **headers)
    with Reader(store).snapshot() as snapshot:
        return snapshot.frame("turns").sort("seq").to_dicts()


def links(store: Path) -> list[tuple[str, str]]:
    with Reader(store).snapshot() as snapshot:
        details = snapshot.frame("events").filter(kind="retry")["detail"].to_list()
    decoded = [msgspec.json.decode(detail) for detail in details]
    return [(detail["turn_id"], detail["retry_of"]) for detail in decoded]


def trained(turns: list[Any]) -> list[str | None]:
    return [turn["untrainable_reason"] for turn in turns]


@pytest.mark.parametrize("headers", [NAMED, {}], ids=["named", "unnamed"])
async def test_a_retry_that_the_client_counts_is_linked_across_a_restart(
    small: Renderer, tmp_path: Path, headers: dict[str, str]
) -> None:
    streamed = {**ASK, "stream": True}
    turns = await restarted(
        small, tmp_path, (streamed, headers, False), (streamed, headers | AGAIN, False), (ASK, headers | AGAIN, False)
    )
    first, second, third = turns
    assert links(tmp_path) == [(second["turn_id"], first["turn_id"]), (third["turn_id"], first["turn_id"])]
    assert trained(turns) == [None, "retried", "retried"]


async def test_what_broke_off_before_a_restart_is_linked_and_its_retry_is_trained_once(
    small: Renderer, tmp_path: Path
) -> None:
    streamed = {**ASK, "stream": True}
    turns = await restarted(small, tmp_path, (streamed, NAMED, True), (streamed, NAMED, False), (ASK, NAMED, False))
    first, second, third = turns
    assert links(tmp_path) == [(second["turn_id"], first["turn_id"]), (third["turn_id"], first["turn_id"])]
    assert trained(turns) == ["error", None, "retried"]


async def test_a_fallback_that_is_no_stream_is_linked_though_no_record_says_what_was_one(
    small: Renderer, tmp_path: Path
) -> None:
    turns = await restarted(small, tmp_path, ({**ASK, "stream": True}, NAMED, False), (ASK, NAMED, False))
    assert links(tmp_path) == [(turns[1]["turn_id"], turns[0]["turn_id"])]
    assert trained(turns) == [None, "retried"]


async def test_another_sample_another_session_or_other_words_are_no_retry(small: Renderer, tmp_path: Path) -> None:
    streamed = {**ASK, "stream": True}
    other = {**ASK, "messages": [{"role": "user", "content": "Ho"}]}
    turns = await restarted(
        small,
        tmp_path,
        (streamed, NAMED, False),
        (streamed, NAMED, False),
        (ASK, {"x-claude-code-session-id": "t"} | AGAIN, False),
        (other, NAMED | AGAIN, False),
    )
    assert links(tmp_path) == []
    assert trained(turns) == [None] * 4


async def test_what_was_asked_long_ago_is_nobodys_first_attempt(small: Renderer, tmp_path: Path) -> None:
    """Stored turns of a quarter of an hour and more ago are not even read whole; those after it are."""
    now = datetime.now(UTC)
    with Writer(tmp_path, "collector") as writer:
        for minutes, turn in zip((40, 16, 14, 1), build_conversation("s", 4), strict=True):
            at = now - timedelta(minutes=minutes)
            writer.append(msgspec.structs.replace(turn, started_at=at, routed_experts=None)).result(5)
        writer.seal()
        found = StoredPast(tmp_path).attempts(now - timedelta(minutes=15))
    expected = build_conversation("s", 4)[2:]
    assert [each.turn_id for each in found] == [turn.turn_id for turn in expected]
    assert [each.chat for each in found] == [turn.request for turn in expected]
