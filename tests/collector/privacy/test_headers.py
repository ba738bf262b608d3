"""Headers: of those that are stored, no key and no secret gets into a record or a log; of the others nothing does."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.caller import STORED_HEADERS
from collector.config import CollectorConfig
from collector.fakes import MemoryJournal, ScriptedEngine, deltas
from collector.keys import sha256_of
from collector.past import StoredPast
from collector.privacy.config import RedactionConfig
from collector.privacy.detector import Secret
from collector.records import Feedback
from collector.rendering.renderer import Renderer
from collector.store.writer import Writer
from tests.collector.loopback import post, serve
from tests.collector.store.test_forget import unpack

KEY = "rh-0123456789abcdef"
SECRET = "tok-9876543210"
ASK = {"model": "model", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
ON = CollectorConfig(redaction=RedactionConfig(enabled=True))
CHAT = "/v1/chat/completions"


class Finder:
    """Finds one secret, and counts the texts it was given."""

    def __init__(self) -> None:
        self.searched: list[str] = []

    def find(self, texts: Sequence[str]) -> list[Secret]:
        self.searched += texts
        return [Secret(SECRET, "test-key")] if any(SECRET in text for text in texts) else []


def holding(store: Path, needles: list[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in store.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        whole = content + b"".join(unpack(content))
        found += [(path.name, needle) for needle in needles if needle.encode() in whole]
    return found


def engine(small: Renderer) -> ScriptedEngine:
    ids = small.tokenizer.encode("Hi.<|im_end|>")
    return ScriptedEngine(lambda _: deltas(ids))


async def test_headers_that_are_not_kept_are_in_no_file_and_no_log(
    small: Renderer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sent = {"authorization": f"Bearer {KEY}", "cookie": "crumb-1", "x-anything": "crumb-2", "anthropic-beta": "crumb-3"}
    config = CollectorConfig(keys={sha256_of(KEY): "tenant"})
    with Writer(tmp_path, "collector") as writer:
        async with serve(small, engine(small), journal=writer, past=StoredPast(tmp_path), config=config) as served:
            for path, status in ((CHAT, 200), ("/v1/feedback", 400), ("/nowhere", 404)):
                assert (await post(served, path, ASK, **sent))[0] == status
            wrong = {**sent, "authorization": f"Bearer {KEY}-wrong"}
            assert (await post(served, CHAT, ASK, **wrong))[0] == 401
        writer.seal()
    needles = [KEY, "crumb-"]
    assert holding(tmp_path, needles) == []
    assert [needle for needle in needles if needle in caplog.text] == []


@pytest.mark.parametrize("header", STORED_HEADERS)
@pytest.mark.parametrize("sent_as", ["authorization", "x-api-key"])
async def test_a_key_in_a_header_that_is_stored_is_refused(small: Renderer, header: str, sent_as: str) -> None:
    """Also where no keys are configured: a client may send one of another service's."""
    key = {sent_as: f"Bearer {KEY}" if sent_as == "authorization" else KEY}
    async with serve(small, engine(small)) as served:
        status, _, answer = await post(served, CHAT, ASK, **key, **{header: f"a {KEY} b"})
        assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "key_in_header", header)
        assert KEY not in str(answer)
        assert served.journal.records == []
        assert (await post(served, CHAT, ASK, **key, **{header: "a name"}))[0] == 200


async def test_a_secret_in_a_stored_header_becomes_a_marker_and_the_turn_is_trained(small: Renderer) -> None:
    journal = MemoryJournal()
    said = {"user-agent": f"agent {SECRET}", "x-roundhouse-task": f"t {SECRET}", "x-roundhouse-group": "g"}
    finder = Finder()
    async with serve(small, engine(small), journal=journal, config=ON, detector=finder) as served:
        for _ in range(3):
            assert (await post(served, CHAT, ASK, **said))[0] == 200
    assert [(turn.client, turn.task_id, turn.group_id) for turn in journal.turns] == [
        ("agent [redacted:test-key]", "t [redacted:test-key]", "g")
    ] * 3
    assert [turn.untrainable_reason for turn in journal.turns] == [None] * 3
    # What holds no secret is searched once.
    assert finder.searched.count("g") == 1


async def test_a_session_named_by_a_secret_is_refused_before_anything_is_sampled(small: Renderer) -> None:
    fake, journal = engine(small), MemoryJournal()
    async with serve(small, fake, journal=journal, config=ON, detector=Finder()) as served:
        status, _, answer = await post(served, CHAT, ASK, **{"x-session-id": SECRET})
        assert (status, answer["error"]["code"]) == (400, "secret_in_name")
        assert (fake.requests, journal.records) == ([], [])
        assert SECRET not in str(answer)


async def test_the_source_of_a_judgement_is_searched_too(small: Renderer) -> None:
    journal = MemoryJournal()
    async with serve(small, engine(small), journal=journal, config=ON, detector=Finder()) as served:
        _, _, reply = await post(served, CHAT, ASK)
        judgement = {"kind": "thumb", "value": 1, "response_id": reply["id"], "source": f"by {SECRET}"}
        assert (await post(served, "/v1/feedback", judgement))[0] == 200
    stored = next(record for record in journal.records if isinstance(record, Feedback))
    assert stored.source == "by [redacted:test-key]"
