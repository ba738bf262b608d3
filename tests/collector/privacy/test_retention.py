"""Retention: whole sessions expire by age and by size, beside a writer that goes on acknowledging."""

import asyncio
import os
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.caller import identify
from collector.config import CollectorConfig, StoreConfig
from collector.conversation import Call, Sampling
from collector.past import StoredPast
from collector.privacy.config import RetentionConfig
from collector.privacy.expiry import expired_sessions, store_bytes
from collector.privacy.retention import Retention
from collector.records import ChatRequest, Event, Feedback, Score, Turn
from collector.session_index import SessionIndex
from collector.store.erase import Erasure
from collector.store.journal import create
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer
from tests.collector.store.conftest import build_conversation
from tests.collector.store.test_forget import unpack

NOW = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)
CALM = StoreConfig(seal_interval_s=1e9, grace_s=0)
MONTH = RetentionConfig(max_age_days=30)


def conversation(name: str, turns: int, *, days_ago: float, tenant: str = "tenant") -> list[Turn]:
    at = NOW - timedelta(days=days_ago)
    return [
        msgspec.structs.replace(turn, started_at=at, finished_at=at, tenant=tenant, routed_experts=None)
        for turn in build_conversation(name, turns)
    ]


def index(store: Path) -> SessionIndex:
    return SessionIndex(StoredPast(store), most_sessions=100, most_tokens=10**6, stop_ids=frozenset())


def files_with(store: Path, needle: str) -> list[str]:
    found: list[str] = []
    for path in store.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if needle.encode() in content + b"".join(unpack(content)):
            found.append(path.name)
    return found


async def test_old_sessions_go_whole_and_leave_no_byte(tmp_path: Path) -> None:
    with Writer(tmp_path, "trainer", CALM) as trainer:
        trainer.append(Score(turn_id="old-session-2", trainer_step=1, trainer_logprobs=[-1.0]))
        trainer.append(Event(at=NOW, kind="alert", text="the first is old-session")).result(5)
    with Writer(tmp_path, "collector", CALM) as writer:
        # The newest turn counts: what began long ago and went on is not old.
        lasting = [*conversation("lasting", 2, days_ago=90)[:1], *conversation("lasting", 2, days_ago=1)[1:]]
        for turn in [*conversation("old-session", 3, days_ago=31), *lasting, *conversation("young", 2, days_ago=29)]:
            writer.append(turn)
        writer.seal()
        late = Feedback(feedback_id="f", tenant="tenant", session_id="old-session", kind="thumb", value=1, at=NOW)
        writer.append(late).result(5)
        gone = await Retention(MONTH, tmp_path, writer, index(tmp_path)).expire(NOW)
        assert [(each.session_id, len(each.turn_ids)) for each in gone] == [("old-session", 3)]
        with Reader(tmp_path).snapshot() as snapshot:
            turns = snapshot.frame("turns")
            assert snapshot.damage == ()
            assert snapshot.frame("scores").is_empty()
            assert snapshot.frame("feedback").is_empty()
            assert snapshot.frame("events")["text"].to_list() == [
                "the first is [forgotten]",
                "1 sessions of 3 turns expired",
            ]
        assert turns["session_id"].to_list() == ["lasting"] * 2 + ["young"] * 2
        assert turns["prompt_ids"].to_list()[2:] == [t.prompt_ids for t in conversation("young", 2, days_ago=29)]
    with Writer(tmp_path, "collector", CALM), Writer(tmp_path, "trainer", CALM):
        await asyncio.sleep(1)
    found = verify(tmp_path)
    assert found.clean, found
    assert found.erased == 5
    assert files_with(tmp_path, "old-session") == []


async def test_records_are_acknowledged_while_sessions_expire(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in conversation("old", 20, days_ago=31):
            writer.append(turn)
        writer.seal()
        expiring = asyncio.create_task(Retention(MONTH, tmp_path, writer, index(tmp_path)).expire(NOW))
        young = conversation("young", 50, days_ago=0)
        for turn in young:
            await asyncio.wrap_future(writer.append(turn))
        assert len(await expiring) == 1
        with Reader(tmp_path).snapshot() as snapshot:
            turns = snapshot.frame("turns")
        assert turns["prompt_ids"].to_list() == [turn.prompt_ids for turn in young]
    assert verify(tmp_path).clean


async def test_beyond_its_size_the_longest_idle_go_first_and_the_busy_never(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", CALM) as writer:
        for days in (5, 4, 3, 2, 0):
            for turn in conversation(f"s{days}", 40, days_ago=days):
                writer.append(turn)
        writer.seal()
        size = store_bytes(tmp_path)
        found = expired_sessions(tmp_path, "collector", RetentionConfig(max_bytes=size * 7 // 10), NOW)
        assert [each.session_id for each in found] == ["s5", "s4"]
        all_but_busy = expired_sessions(tmp_path, "collector", RetentionConfig(max_bytes=1), NOW)
        assert [each.session_id for each in all_but_busy] == ["s5", "s4", "s3", "s2"]
        assert expired_sessions(tmp_path, "collector", RetentionConfig(max_bytes=size), NOW) == []
        assert expired_sessions(tmp_path, "other", RetentionConfig(max_bytes=1), NOW) == []


async def test_a_session_that_is_continued_stays_and_an_expired_name_begins_anew(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in conversation("old", 2, days_ago=31):
            writer.append(turn).result(5)
        sessions = index(tmp_path)
        retention = Retention(MONTH, tmp_path, writer, sessions)
        caller = identify({"x-session-id": "old"}, tenant="tenant", key_sha256=None)
        call = Call(api="chat", chat=ChatRequest(messages=[{"role": "user", "content": "x"}]), sampling=Sampling())
        session = await sessions.find(caller, call)
        assert session.last_turn == 2
        assert await retention.expire(NOW) == []
        sessions.release(session)
        assert len(await retention.expire(NOW)) == 1
        assert (await sessions.find(caller, call)).last_turn == 0


async def test_a_session_name_that_two_tenants_use_does_not_expire_for_one_of_them(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in conversation("shared", 1, days_ago=31):
            writer.append(turn)
        other = msgspec.structs.replace(conversation("shared", 1, days_ago=1, tenant="other")[0], turn_id="theirs")
        writer.append(other).result(5)
        assert await Retention(MONTH, tmp_path, writer, index(tmp_path)).expire(NOW) == []


@pytest.mark.parametrize("values", [{"max_age_days": 0}, {"max_bytes": 0}, {"interval_s": 0}, {"idle_s": -1}])
def test_settings_that_would_erase_everything_are_refused(values: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"retention": values}, CollectorConfig)


def test_acknowledgements_go_on_while_free_pages_are_given_back(tmp_path: Path) -> None:
    """A journal of many free pages, where what was sealed lay, is shrunk in steps, with commits between them."""
    order: list[str] = []
    over = threading.Event()
    with Writer(tmp_path, "collector", CALM, hook=order.append) as writer:
        for turn in conversation("old", 2, days_ago=31):
            writer.append(turn)
        for number in range(120):
            filler = os.urandom(50_000).hex()
            writer.append(Event(at=NOW, kind="filler", text=filler, detail={"number": number}))
        writer.seal()
        acknowledged: list[int] = []

        def append() -> None:
            while not over.is_set():
                acknowledged.append(writer.append(Event(at=NOW, kind="young")).result(30).seq)

        appending = threading.Thread(target=append)
        appending.start()
        gone = expired_sessions(tmp_path, "collector", MONTH, NOW)
        erasure = Erasure(frozenset(["old"]), frozenset(gone[0].turn_ids), upto=writer.durable_seq)
        assert writer.expire(erasure) == 2
        over.set()
        appending.join()
        steps = [place for place, point in enumerate(order) if point == "shrunk"]
        assert len(steps) > 8
        between = order[steps[0] : steps[-1]].count("committed")
        assert between >= 3
        with Reader(tmp_path).snapshot() as snapshot:
            young = snapshot.frame("events").filter(kind="young")["seq"].to_list()
        assert young == acknowledged
    # 120 times 100 kB had been in it.
    assert (tmp_path / "journals/collector.sqlite").stat().st_size < 2**20
    assert verify(tmp_path).clean


def test_a_journal_that_keeps_no_account_of_free_pages_gets_one_when_sessions_expire(tmp_path: Path) -> None:
    path = tmp_path / "journals/collector.sqlite"
    path.parent.mkdir(parents=True)
    made = sqlite3.connect(path, isolation_level=None)
    create(made, path, "collector", auto_vacuum=0)
    made.close()
    assert accounted(path) == 0
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in conversation("old-session", 3, days_ago=31):
            writer.append(turn).result(5)
        (old,) = expired_sessions(tmp_path, "collector", MONTH, NOW)
        writer.expire(Erasure(frozenset(["old-session"]), frozenset(old.turn_ids)))
    assert accounted(path) == 2
    assert files_with(tmp_path, "old-session") == []
    assert verify(tmp_path).clean


def accounted(path: Path) -> int:
    db = sqlite3.connect(path)
    (mode,) = db.execute("PRAGMA auto_vacuum").fetchone()
    db.close()
    return mode
