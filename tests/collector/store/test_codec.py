"""The stored form of records."""

import struct
import zlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.records import Event, Reward, Run, Score, Span
from collector.store import codec
from collector.store.columns import stored_columns

NOW = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)


def stored(table: str, record: Any) -> list[Any]:
    row = codec.seal_row(table, 1, codec.plain_values(record, table))
    values = codec.open_row(row)
    assert values is not None
    return values


def test_the_crc32_is_that_of_the_uncompressed_msgpack() -> None:
    event = Event(at=NOW, kind="alert", detail={"text": "x" * 9000})
    row = codec.seal_row("events", 7, codec.plain_values(event, "events"))
    microseconds = (NOW - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    values = [microseconds, "alert", "info", None, None, None, None, None, None]
    plain = msgspec.msgpack.encode([*values, b'{"text":"' + b"x" * 9000 + b'"}'])
    assert row.packed == 1
    assert len(row.body) < 1000
    assert row.crc32 == zlib.crc32(plain)


def test_a_flipped_bit_makes_a_row_unreadable() -> None:
    row = codec.seal_row("events", 7, codec.plain_values(Event(at=NOW, kind="alert", text="hello"), "events"))
    for position in range(len(row.body)):
        flipped = bytearray(row.body)
        flipped[position] ^= 4
        assert codec.open_row(row._replace(body=bytes(flipped))) is None


def test_an_int_where_a_float_belongs_is_stored_as_a_float() -> None:
    value = stored("rewards", Reward(session_id="s", value=1, parts={}, mapping_sha256="", closed_at=NOW))[2]
    assert isinstance(value, float)
    assert value == 1.0


def test_times_of_other_zones_keep_their_instant() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert stored("events", Event(at=there, kind="k")) == stored("events", Event(at=NOW, kind="k"))


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (Event(at=datetime(2026, 1, 1), kind="k"), "no time zone"),
        (Event(at=NOW, kind=3), "Expected `str`, got `int`"),  # type: ignore[arg-type]
        (Event(at=NOW, kind="k", version=2**63), "Expected `int` <= "),
        (Event(at=NOW, kind="k", detail={"x": float("nan")}), "JSON cannot hold nan"),
        (Event(at=NOW, kind="k", severity="loud"), "Invalid enum value"),  # type: ignore[arg-type]
        (Reward(session_id="s", value=None, parts={"a": float("inf")}, mapping_sha256="", closed_at=NOW), "hold inf"),
        (Score(turn_id="t", trainer_step=1, trainer_logprobs=[1e39]), "does not fit in float32"),
    ],
)
def test_what_the_store_cannot_hold_is_refused(record: Any, says: str) -> None:
    table = codec.TABLE_OF[type(record)]
    with pytest.raises((ValueError, OverflowError, msgspec.ValidationError), match=says):
        codec.seal_row(table, 1, codec.plain_values(record, table))


@pytest.mark.parametrize("table", ["events", "scores", "rewards", "spans", "runs"])
def test_rows_come_back_from_arrow_byte_for_byte(table: str) -> None:
    nan = struct.unpack("f", b"\x01\x00\xc0\x7f")[0]
    records: dict[str, list[Any]] = {
        "events": [Event(at=NOW, kind="k", detail={"ü": [1, None, {"a": 2.5}]}), Event(at=NOW, kind="", text="")],
        "scores": [
            Score(turn_id="a", trainer_step=1, trainer_logprobs=[float("nan"), float("-inf"), -0.0, 1e-45, nan]),
            Score(turn_id="b", trainer_step=1, trainer_logprobs=[], entropies=[], advantages=None),
        ],
        "rewards": [Reward(session_id="s", value=float("nan"), parts={"a": 0.1}, mapping_sha256="", closed_at=NOW)],
        "spans": [Span(role="engine", kind="generate", from_=NOW, to=NOW)],
        "runs": [Run(at=NOW, batch={}, versions={"torch": "2"})],
    }
    rows = [codec.seal_row(table, seq, codec.plain_values(r, table)) for seq, r in enumerate(records[table], 1)]
    arrow = codec.to_arrow(table, "w", [(row.seq, row.crc32, codec.open_row(row) or ()) for row in rows])
    for before, after in zip(rows, codec.from_arrow(table, arrow), strict=True):
        assert zlib.crc32(after.body) == before.crc32 == after.crc32


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.floats(width=32, allow_nan=False)),
            st.none() | st.lists(st.floats(width=32)),
            st.integers(0, 2**40),
        ),
        max_size=6,
    )
)
def test_arrow_and_journal_hold_the_same_lists(rows: list[tuple[list[float], list[float] | None, int]]) -> None:
    values: list[tuple[int, int, list[Any]]] = []
    for seq, (logprobs, entropies, step) in enumerate(rows, 1):
        score = Score(turn_id=str(seq), trainer_step=step, trainer_logprobs=logprobs, entropies=entropies)
        values.append((seq, 0, codec.plain_values(score, "scores")))
    arrow = codec.to_arrow("scores", "w", values)
    assert arrow["trainer_logprobs"].to_pylist() == [logprobs for logprobs, _, _ in rows]
    assert [e is None for e in arrow["entropies"].to_pylist()] == [entropies is None for _, entropies, _ in rows]
    assert [list(msgspec.msgpack.decode(row.body)) for row in codec.from_arrow("scores", arrow)] == [
        list(row) for _, _, row in values
    ]
    assert len(arrow.schema.names) == len(stored_columns("scores")) + 3
