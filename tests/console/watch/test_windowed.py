"""A window holds what `roundhouse check --watch` takes of the same store at the same time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from checks.readers.store_window import StoreWindow, Window
from collector.store.reader import Reader
from console.watch.adapter_names import adapter_names
from console.watch.source.store_source import StoreSource
from console.watch.windowed import held_within
from tests.benchmarks.synthetic_store import write_store
from tests.console.watch.fake_feed import NOW, held
from tests.console.watch.small_held import frame, turn

END = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize("window", [Window(seconds=43_200.0), Window(turns=30), Window(turns=1_000)])
def test_the_rows_of_every_table_are_those_of_check(tmp_path: Path, window: Window):
    write_store(tmp_path, turns=160, steps=40, end=END)
    whole = StoreSource(tmp_path).poll()
    assert whole is not None
    now = END + timedelta(minutes=3)
    with Reader(tmp_path).snapshot() as snapshot:
        log = StoreWindow(tmp_path, window).log(snapshot, now)
        turns = [row for batch in log.batches(["turn_id"]) for row in batch.turns["turn_id"].to_list()]
        tables = {name: log.table(name) for name in ("rewards", "feedback", "steps", "spans", "events", "evals")}
    cut = held_within(whole, window, now)
    assert sorted(cut.turns["turn_id"]) == sorted(turns)
    for name, rows in tables.items():
        one, other = (sorted(frame.select(rows.columns).rows(), key=str) for frame in (getattr(cut, name), rows))
        assert one == other, name
    assert 0 < cut.turns.height <= whole.turns.height
    assert cut.source.window == window.name


def test_an_adapter_without_records_in_the_window_is_known_all_the_same() -> None:
    turns = frame("turns", [turn("s", 1, 9_000, adapter="refund"), turn("t", 1, 5, adapter="triage")])
    within = held_within(held(turns=turns), Window(600, None), NOW)
    assert within.turns["adapter"].to_list() == ["triage"]
    assert adapter_names(within) == ("refund", "triage")
