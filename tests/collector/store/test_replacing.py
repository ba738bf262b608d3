"""A file or folder that appears whole or not at all."""

import os
from pathlib import Path

import pytest

from collector.errors import UserError
from collector.store.replacing import replacing


def test_what_was_written_takes_the_name(tmp_path: Path) -> None:
    with replacing(tmp_path / "made", force=False, owned=()) as fresh:
        fresh.write_text("new")
        assert not (tmp_path / "made").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert (tmp_path / "made").read_text() == "new"


def test_what_a_killed_process_of_the_same_id_left_is_in_nobodys_way(tmp_path: Path) -> None:
    left = tmp_path / f".made.{os.getpid()}.tmp"
    left.mkdir()
    (left / "half").touch()
    with replacing(tmp_path / "made", force=False, owned=()) as fresh:
        fresh.mkdir()
        (fresh / "whole").touch()
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["made", "made/whole"]


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "made").write_text("old")

    def fill() -> None:
        with replacing(tmp_path / "made", force=True, owned=()) as fresh:
            fresh.write_text("half")
            raise OSError("no room")

    with pytest.raises(UserError, match=f"{tmp_path}/made: no room; nothing was written there"):
        fill()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert (tmp_path / "made").read_text() == "old"
