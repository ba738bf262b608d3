"""What `e` writes can be read again, and never over another file."""

import csv
import io
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from collector.errors import UserError
from console.watch.frame.export import as_csv, as_json, file_name, write_new
from console.watch.topic import View


class Place(msgspec.Struct, frozen=True, kw_only=True):
    turn: int
    text: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    w: float | None
    places: tuple[Place, ...] = ()


class Rows(View, frozen=True, kw_only=True):
    at: datetime
    rows: tuple[Row, ...]


VIEW = Rows(
    at=datetime(2026, 11, 29, 11, 31, 2, tzinfo=UTC),
    rows=(
        Row(session_id='a,"b"\x1b[31m', w=8.32, places=(Place(turn=4, text="né"),)),
        Row(session_id="c\nd", w=None),
    ),
)


def test_json_is_read_again_as_the_same_view() -> None:
    assert msgspec.json.decode(as_json(VIEW), type=Rows) == VIEW


def test_csv_has_a_line_for_each_row_and_nothing_where_nothing_was_observed() -> None:
    read = [*csv.DictReader(io.StringIO(as_csv(VIEW.rows)))]
    assert read == [
        {"session_id": 'a,"b"\x1b[31m', "w": "8.32", "places": '[{"turn":4,"text":"né"}]'},
        {"session_id": "c\nd", "w": "", "places": "[]"},
    ]


def test_a_view_without_rows_has_no_csv() -> None:
    with pytest.raises(UserError, match=r"this view has no rows for csv; json has all of it"):
        as_csv(())


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "view.json"
    assert write_new("one", path) == path
    with pytest.raises(UserError, match=r"is there already; give another name"):
        write_new("two", path)
    assert path.read_text() == "one"
    with pytest.raises(UserError, match=r"cannot be written"):
        write_new("two", tmp_path / "nowhere" / "view.json")


def test_a_file_is_named_for_its_screen_and_the_time_that_it_shows() -> None:
    assert file_name("prefix_diff", VIEW.at, "csv") == "roundhouse-prefix-diff-20261129T113102Z.csv"
    assert file_name("signals", None, "json") == "roundhouse-signals.json"
