"""Files that change between two passes over a log, and the reason a folder was recognised by."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.readers.file_mark import FileMark
from checks.readers.open_log import open_log
from checks.readers.walk import walk
from collector.errors import UserError
from tests.checks.readers.reading import write_lines

TURN = {"session_id": "x", "prompt_ids": [1], "completion_ids": [2]}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def replaced(path: Path) -> None:
    other = write_lines(path.with_name("other"), [TURN] * 5)
    os.replace(other, path)


def written_over(path: Path) -> None:
    """With other content of the same size, in place."""
    size = path.stat().st_size
    path.write_text(path.read_text().replace('"x"', '"y"'))
    assert path.stat().st_size == size


def written_over_at_the_end(path: Path) -> None:
    """With more content, of which only the last bytes that were read differ."""
    path.write_text(path.read_text()[:-3] + "3]}" + "\n" + json.dumps(TURN) + "\n")


def written_over_and_longer(path: Path) -> None:
    """With other and more content, in place."""
    path.write_text(path.read_text().replace('"x"', '"y"') + json.dumps(TURN) + "\n")


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (cut, "replaced or cut while it was read .* bytes, now "),
        (replaced, "replaced or cut while it was read .another file now"),
        (written_over, "replaced or cut while it was read .other bytes where it was read"),
        (written_over_and_longer, "replaced or cut while it was read .other bytes where it was read"),
        (written_over_at_the_end, "replaced or cut while it was read .other bytes where it was read"),
        (gone, "was there when the log was opened: No such file"),
    ],
)
def test_a_file_that_is_another_in_the_second_pass_is_refused(
    change: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "log.jsonl", [TURN, TURN])
    log = open_log(path)
    assert sum(batch.turns.height for batch in log.batches(())) == 2
    change(path)
    with pytest.raises(UserError, match=said):
        list(log.batches(()))


def test_a_file_may_grow_while_it_is_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", [TURN, TURN])
    log = open_log(path)
    assert sum(batch.turns.height for batch in log.batches(())) == 2
    with path.open("a") as file:
        file.write(json.dumps(TURN) + "\n" + json.dumps(TURN)[:9])
    assert sum(batch.turns.height for batch in log.batches(())) == 3
    assert log.source().unreadable == 1


def test_a_touched_file_is_the_same_and_one_changed_in_its_middle_is_not(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", [TURN] * 2_000)
    mark, whole = FileMark.of(path), path.read_bytes()
    os.utime(path, ns=(1, 1))
    assert mark.why_another(path) is None
    middle = len(whole) // 2
    path.write_bytes(whole[: middle - 30_000] + b" " * 60_000 + whole[middle + 30_000 :])
    assert mark.why_another(path) == "other bytes where it was read"
    path.write_bytes(whole + b"{}\n")
    assert mark.why_another(path) is None


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="a pipe or a device, expected a file, which is read more than once"):
        walk(tmp_path / "pipe")
    assert walk(tmp_path).files == []


def test_the_reason_of_a_format_is_that_of_its_largest_file(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"record": "step", "step": 1}])
    write_lines(tmp_path / "b.jsonl", [TURN] * 9)
    write_lines(tmp_path / "c.jsonl", [{"record": "eval", "step": 1}])
    assert open_log(tmp_path).source().reason == "native: lines with session_id, prompt_ids and completion_ids"


def test_what_sqlite_keeps_beside_a_database_is_no_file_of_its_own(tmp_path: Path) -> None:
    for name in ("a.db", "a.db-wal", "a.db-shm", "b.db-wal", "notes-wal", "-wal"):
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in walk(tmp_path).files] == ["-wal", "a.db", "b.db-wal", "notes-wal"]
