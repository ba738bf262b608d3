"""roundhouse.duckdb: what a tool that opens DuckDB files sees."""

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.errors import StoreError
from collector.store.views import rebuild_views
from collector.store.writer import Writer


def count(path: Path, table: str) -> int:
    with duckdb.connect(path, read_only=True) as connection:
        (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return found[0]


def test_views_show_sealed_rows_and_the_registry(small_store: Any):
    path = rebuild_views(small_store.path)
    assert path == small_store.path / "roundhouse.duckdb"
    assert count(path, "turns") == 6
    assert count(path, "steps") == 2
    assert count(path, "versions") == 2
    with duckdb.connect(path, read_only=True) as connection:
        query = "SELECT turn_id, prompt_prefix_tokens + len(new_prompt_ids) FROM turns ORDER BY seq"
        written = small_store.records["turns"][:6]
        assert connection.execute(query).fetchall() == [(turn.turn_id, len(turn.prompt_ids)) for turn in written]


def test_views_are_made_anew_and_nothing_is_left_beside_them(small_store: Any):
    rebuild_views(small_store.path)
    with Writer(small_store.path, "collector") as writer:
        writer.seal()
    before = sorted(path.name for path in small_store.path.iterdir())
    assert count(rebuild_views(small_store.path), "turns") == 9
    assert sorted(path.name for path in small_store.path.iterdir()) == before


def test_views_are_remade_after_a_move_even_to_a_name_with_a_quote(small_store: Any, tmp_path: Path):
    rebuild_views(small_store.path)
    moved = tmp_path / "bob's store"
    shutil.move(small_store.path, moved)
    assert count(rebuild_views(moved), "turns") == 6


def test_a_store_with_nothing_sealed_has_empty_views(tmp_path: Path):
    with Writer(tmp_path, "collector"):
        pass
    assert count(rebuild_views(tmp_path), "turns") == 0


def test_views_that_cannot_be_made_are_one_clear_line_and_the_old_ones_stay(small_store: Any):
    path = rebuild_views(small_store.path)
    before = path.read_bytes()
    shutil.rmtree(small_store.path / "segments" / "turns")
    with pytest.raises(StoreError, match=r"cannot be made \(.*\); check the disk"):
        rebuild_views(small_store.path)
    assert path.read_bytes() == before
    assert not list(small_store.path.glob(".*"))
