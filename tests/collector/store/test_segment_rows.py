"""A damaged segment gives the right rows or a refusal that names it, wherever the damage is."""

# pyright: reportAttributeAccessIssue=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# (pyarrow carries no types)

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from collector.config import StoreConfig
from collector.errors import StoreError, UserError
from collector.store import segments
from collector.store.export import export_store
from collector.store.reader import Reader
from collector.store.sql import run_query
from collector.store.writer import Writer

ROUNDS = 100
Rows = list[dict[str, Any]]


@pytest.fixture
def segment(tmp_path: Path, conversation: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sealed segment of 36 turns in four row groups, in tmp_path/store."""
    monkeypatch.setattr(segments, "ROW_GROUP_ROWS", 10)
    with Writer(tmp_path / "store", "collector", StoreConfig(seal_interval_s=1e9)) as writer:
        for session in "abc":
            for turn in conversation(session, 12):
                writer.append(msgspec.structs.replace(turn, trainable=True))
        writer.seal()
    (path,) = (tmp_path / "store/segments/turns").glob("collector.*.parquet")
    return path


def read(store: Path) -> list[Rows]:
    with Reader(store).snapshot(["turns"]) as snapshot:
        return [
            snapshot.frame("turns").to_dicts(),
            snapshot.frame("turns", session_id="b", columns=["turn_id", "seq"]).to_dicts(),
            snapshot.frame("turns", turn_id="c-5").to_dicts(),
            snapshot.frame("turns", columns=["trainable"]).to_dicts(),
        ]


def footer_start(content: bytes | bytearray) -> int:
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def flip_a_bit(content: bytearray, at: int, chance: random.Random) -> None:
    content[at] ^= 1 << chance.randrange(8)


def write_zeros(content: bytearray, at: int, _: random.Random) -> None:
    content[at : at + 9] = bytes(len(content[at : at + 9]))


def copy_from_elsewhere(content: bytearray, at: int, chance: random.Random) -> None:
    source, count = chance.randrange(footer_start(content), len(content)), chance.choice([1, 4, 32])
    piece = content[source : source + min(count, len(content) - at)]
    content[at : at + len(piece)] = piece


@pytest.mark.parametrize("only_footer", [True, False])
@pytest.mark.parametrize("damage", [flip_a_bit, write_zeros, copy_from_elsewhere])
def test_damage_gives_the_right_rows_or_names_the_segment(
    segment: Path, damage: Callable[[bytearray, int, random.Random], None], only_footer: bool
) -> None:
    store = segment.parents[2]
    good, right = segment.read_bytes(), read(store)
    assert [len(rows) for rows in right] == [36, 12, 1, 36]
    chance = random.Random(f"{damage.__name__}{only_footer}")
    refusals: list[str] = []
    for _ in range(ROUNDS):
        content = bytearray(good)
        damage(content, chance.randrange(footer_start(good) if only_footer else 0, len(good)), chance)
        segment.write_bytes(content)
        try:
            assert read(store) == right
        except StoreError as error:
            refusals.append(str(error))
    assert len(refusals) > ROUNDS / 10
    assert all(line.startswith(f"{segment}: ") for line in refusals)
    assert all(line.endswith("expected a whole segment; run roundhouse verify") for line in refusals)


def test_every_column_name_in_the_footer_is_guarded(segment: Path) -> None:
    good = segment.read_bytes()
    start = footer_start(good)
    for name in ("session_id", "prefix_seq", "sampled_logprobs", "trainable", "crc32"):
        content = bytearray(good)
        content[good.index(name.encode(), start)] ^= 1
        segment.write_bytes(content)
        with pytest.raises(StoreError, match="its columns are not those of turns, expected a whole segment"):
            read(segment.parents[2])


def test_a_statistic_that_was_altered_hides_no_row(segment: Path) -> None:
    good = segment.read_bytes()
    store, start = segment.parents[2], footer_start(good)
    right = read(store)
    statistics = [at for at in range(start, len(good)) if good[at : at + 2] in (b"a-", b"b-", b"c-")]
    assert len(statistics) >= 8
    for letter in b"Az":
        content = bytearray(good)
        for at in statistics:
            content[at] = letter
        segment.write_bytes(content)
        assert read(store) == right


@pytest.mark.parametrize("where", ["a page", "the footer"])
def test_sql_and_export_of_a_damaged_segment_are_refused_in_one_line(segment: Path, tmp_path: Path, where: str) -> None:
    content = bytearray(segment.read_bytes())
    at = content.index(b"completion_ids", footer_start(content))
    if where == "a page":
        column = next(
            column
            for index in range(pq.ParquetFile(segment).metadata.num_columns)
            if (column := pq.ParquetFile(segment).metadata.row_group(2).column(index)).path_in_schema
            == "completion_ids.list.element"
        )
        at = column.data_page_offset + column.total_compressed_size - 3
    content[at] ^= 1
    segment.write_bytes(content)
    store = segment.parents[2]
    with (
        pytest.raises(UserError, match=r"turns/collector.*parquet.*run roundhouse verify") as refused,
        run_query(store, "SELECT * FROM turns") as result,
    ):
        list(result.rows)
    assert "\n" not in str(refused.value)
    for name in ("log", "log.jsonl", "log.duckdb"):
        with pytest.raises(UserError, match=r"turns/collector.*parquet.*run roundhouse verify") as refused:
            export_store(store, tmp_path / name, force=False, on_rows=lambda table, rows: None)
        assert "\n" not in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
