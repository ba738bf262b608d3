"""A turn whose prompt is lost is not trainable, however it is read; every other turn is what was written."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars as pl
import pytest

from collector.config import StoreConfig
from collector.records import Turn
from collector.store.erase import SCRUB_DUE
from collector.store.export import export_store
from collector.store.journal import Journal
from collector.store.layout import Layout
from collector.store.reader import Reader
from collector.store.sql import run_query
from collector.store.turn_columns import PROMPT_LOST
from collector.store.verify import verify
from collector.store.writer import Writer
from collector.trainable import REASONS

CALM = StoreConfig(seal_interval_s=1e9)
Verdicts = dict[str, tuple[bool, str | None]]


def store_of_two_sessions(store: Path, conversation: Any) -> list[Turn]:
    """Sessions a and b in turns; a-1 and a-2, b-1 and b-2 are sealed, a-5 is untrainable by itself."""
    pairs = zip(conversation("a", 6), conversation("b", 6), strict=True)
    turns = [msgspec.structs.replace(turn, trainable=True) for pair in pairs for turn in pair]
    turns = [
        msgspec.structs.replace(turn, trainable=False, untrainable_reason="top_p") if turn.turn_id == "a-5" else turn
        for turn in turns
    ]
    with Writer(store, "collector", CALM) as writer:
        for number, turn in enumerate(turns, 1):
            writer.append(turn)
            if number == 4:
                writer.seal()
    return turns


def lose_the_segment(store: Path) -> Verdicts:
    """Sets all four sealed turns aside."""
    (segment,) = (store / "segments/turns").glob("collector.*.parquet")
    segment.write_bytes(segment.read_bytes()[:-1])
    assert not verify(store).clean
    lost: Verdicts = {f"{session}-{n}": (False, PROMPT_LOST) for session in "ab" for n in range(3, 7)}
    return lost | {"a-5": (False, "top_p")}


def damage_a_hot_row(store: Path) -> Verdicts:
    """Turn a-3, which nobody has set aside yet, fails its crc32."""
    with sqlite3.connect(store / "journals/collector.sqlite") as db:
        assert db.execute("UPDATE hot_turns SET crc32 = crc32 + 1 WHERE seq = 5").rowcount == 1
    db.close()
    lost: Verdicts = {"a-4": (False, PROMPT_LOST), "a-5": (False, "top_p"), "a-6": (False, PROMPT_LOST)}
    return {"a-1": (True, None), "a-2": (True, None), **{f"b-{n}": (True, None) for n in range(1, 7)}, **lost}


def cut_an_erasure_short(store: Path) -> Verdicts:
    """Turn a-3 was erased when the process died."""
    journal = Journal(Layout(store), "collector")
    journal.note(SCRUB_DUE, "1")
    journal.bury("turns", [5])
    journal.close()
    lost: Verdicts = {"a-4": (False, PROMPT_LOST), "a-5": (False, "top_p"), "a-6": (False, PROMPT_LOST)}
    return {"a-1": (True, None), "a-2": (True, None), **{f"b-{n}": (True, None) for n in range(1, 7)}, **lost}


@pytest.mark.parametrize("damage", [lose_the_segment, damage_a_hot_row, cut_an_erasure_short])
@pytest.mark.parametrize("more", [[], ["prompt_ids"], ["request"], ["new_prompt_ids"]])
def test_a_turn_with_a_lost_prompt_is_not_trainable(
    tmp_path: Path, conversation: Any, damage: Callable[[Path], Verdicts], more: list[str]
) -> None:
    turns = {turn.turn_id: turn for turn in store_of_two_sessions(tmp_path, conversation)}
    expected = damage(tmp_path)
    with Reader(tmp_path).snapshot() as snapshot:
        frame = snapshot.frame("turns", columns=["turn_id", "trainable", "untrainable_reason", *more])
        lost = [turn_id for turn_id in expected if expected[turn_id] != (True, None)]
        assert sum(
            "the turn its prompt extends is lost; its prompt is null" in line for line in snapshot.damage
        ) == len(lost)
        alone = snapshot.frame("turns", columns=["untrainable_reason"])
        one = snapshot.frame("turns", columns=["trainable"], turn_id="b-6")
    assert verdicts(frame) == expected
    assert alone["untrainable_reason"].to_list() == frame["untrainable_reason"].to_list()
    assert one["trainable"].to_list() == [expected["b-6"][0]]
    if more == ["prompt_ids"]:
        for turn_id, prompt in frame.select("turn_id", "prompt_ids").iter_rows():
            assert prompt == (None if turn_id in lost else turns[turn_id].prompt_ids)


@pytest.mark.parametrize("damage", [lose_the_segment, damage_a_hot_row])
def test_sql_and_every_export_give_the_same_verdict(
    tmp_path: Path, conversation: Any, damage: Callable[[Path], Verdicts]
) -> None:
    store = tmp_path / "store"
    store_of_two_sessions(store, conversation)
    expected = damage(store)
    trainable = sorted(turn_id for turn_id, (verdict, _) in expected.items() if verdict)
    with run_query(store, "SELECT turn_id FROM turns WHERE trainable ORDER BY 1") as result:
        assert [row[0] for row in result.rows] == trainable
        assert any("its prompt is null" in line for line in result.damage())
    with run_query(store, "SELECT turn_id, trainable, untrainable_reason FROM turns") as result:
        assert {row[0]: row[1:] for row in result.rows} == expected
    for name in ("log", "log.jsonl", "log.duckdb"):
        assert export_store(store, tmp_path / name, force=False, on_rows=lambda table, rows: None), name
    assert verdicts(pl.read_parquet(tmp_path / "log/turns.parquet")) == expected
    lines = [msgspec.json.decode(line) for line in (tmp_path / "log.jsonl").read_bytes().splitlines()]
    found = {line["turn_id"]: (line["trainable"], line["untrainable_reason"]) for line in lines}
    assert found == expected
    with duckdb.connect(tmp_path / "log.duckdb", read_only=True) as db:
        rows = db.execute("SELECT turn_id, trainable, untrainable_reason FROM turns").fetchall()
    assert {row[0]: row[1:] for row in rows} == expected


def test_an_undamaged_store_is_read_without_its_prompts(tmp_path: Path, conversation: Any) -> None:
    turns = store_of_two_sessions(tmp_path, conversation)
    with Reader(tmp_path).snapshot() as snapshot:
        frame = snapshot.frame("turns", columns=["turn_id", "trainable", "untrainable_reason"])
        assert snapshot.damage == ()
    assert verdicts(frame) == {turn.turn_id: (turn.trainable, turn.untrainable_reason) for turn in turns}


def test_the_reason_is_one_of_those_that_are_documented() -> None:
    assert PROMPT_LOST in REASONS


def verdicts(frame: pl.DataFrame) -> Verdicts:
    return {row[0]: row[1:] for row in frame.select("turn_id", "trainable", "untrainable_reason").iter_rows()}
