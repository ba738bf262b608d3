"""A log whose beginning is broken is told by its first line that is not: that is counted, and the rest is read."""

import gzip
import json
from pathlib import Path

import pytest

from checks.columns import SCHEMAS
from checks.log import Log
from checks.readers.file_head import HEAD_BYTES, FileHead
from checks.readers.head_lines import MOST_BYTES, MOST_LINES
from checks.readers.open_log import open_log
from collector.errors import UserError
from tests.checks.readers.hostility import memory
from tests.checks.readers.seed_file import lines
from tests.checks.readers.seeds import NATIVE, SEEDS

BEGINNINGS = {
    "broken": ('{"session_id": bro\n', 1),
    "half a line": ('{"session_id": "s", "prompt_i\n', 1),
    "an open list": ('{"session_id": "s", "prompt_ids": [1, 2\n', 1),
    "the end of a line": ('1, 2, 3], "completion_ids": [4]}\n', 1),
    "a comment": ("# comment\n", 1),
    "a line of a log": ("[2026-01-01 10:00:00] INFO began\n", 1),
    "a number": ("17\n", 1),
    "blank lines": ("\n\n \n\n\t\n\r\n", 0),
    "many": ("# comment\n\n" * 300, 300),
    "a long end of a line": ("1, " * (HEAD_BYTES // 2) + "2]}\n", 1),
}
"""By name, and how many of their lines are counted."""
WEIRD = '{"record": "weird"}\n'


def read(log: Log) -> tuple[int, int]:
    """Its rows, and how many pieces could not be read."""
    rows = sum(batch.turns.height for batch in log.batches(["session_id"]))
    rows += sum(log.table(name).height for name in SCHEMAS if name != "turns")
    return rows, log.source().unreadable


def is_lines(path: Path) -> bool:
    """Whether it is a file of a JSON object on each line."""
    try:
        return path.suffix == ".jsonl" and all(
            isinstance(json.loads(line), dict) for line in path.read_bytes().splitlines()
        )
    except ValueError:
        return False


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("form", SEEDS)
def test_whatever_stands_before_the_first_line_of_a_format_hides_none(tmp_path: Path, form: str, beginning: str):
    text, counted = BEGINNINGS[beginning]
    for seed in SEEDS[form]:
        path = seed(tmp_path)
        if not is_lines(path):
            continue
        whole = open_log(path)
        rows, unreadable = read(whole)
        path.write_text(text + path.read_text())
        log = open_log(path)
        assert (log.source().format, read(log)) == (whole.source().format, (rows, unreadable + counted))


@pytest.mark.parametrize("packed", [False, True])
def test_a_record_that_no_reader_knows_is_counted_first_as_last(tmp_path: Path, packed: bool):
    good = "".join(json.dumps(each) + "\n" for each in NATIVE)
    for count, text in ((1, WEIRD + good), (1, good + WEIRD), (5, WEIRD * 4 + "# comment\n" + good)):
        path = tmp_path / f"log.jsonl{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        log = open_log(path)
        assert log.source().format == "native"
        # Two turns and a step.
        assert read(log) == (3, count)
        assert any("'weird'" in each.reason for each in log.source().unreadable_first)


def test_what_begins_with_more_than_can_be_passed_over_is_of_no_format(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    good = "".join(json.dumps(each) + "\n" for each in NATIVE)
    path.write_text("#\n" * (MOST_LINES - 1) + good)
    assert read(open_log(path)) == (3, MOST_LINES - 1)
    for text in ("#\n" * MOST_LINES, "#" * (MOST_BYTES + HEAD_BYTES) + "\n", WEIRD * 20):
        path.write_text(text + good)
        with pytest.raises(UserError, match="expected a store or a file of a known format"):
            open_log(path)
    # Whoever names the format is believed.
    assert read(open_log(path, reads="native")) == (3, 20)


@pytest.mark.parametrize(
    "text", ["hello\n", "# one\n# two\n", '{"a": bro\n', "[1, 2\n", '{"a": 1}\n' * 30, "\n" * 5000]
)
def test_a_file_of_no_format_is_refused_with_the_reason(tmp_path: Path, text: str):
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=r"no known format.*, expected a store or a file of a known format"):
        open_log(path)


@pytest.mark.parametrize("begins", ["x", "{", "[", '{"a": [', "\n", "[\n", "{}\n", "#\n"])
def test_a_hostile_gigabyte_is_refused_in_bounded_memory(tmp_path: Path, begins: str):
    path = tmp_path / "log.jsonl"
    content = begins.encode()
    with path.open("wb") as file:
        file.write(content)
        file.truncate(2**30)
    assert not content.startswith(b"\0")
    before = memory()
    with pytest.raises(UserError, match="no known format"):
        open_log(path)
    # A first line of 64 MiB is looked at whole.
    assert memory() - before < 500 * 2**20


def test_a_document_on_several_lines_is_seen_from_its_beginning(tmp_path: Path):
    path = tmp_path / "one.json"
    for text in (
        '[\n{"a": 1},\n{"b": 2}\n]\n',
        '{\n "a": [\n  {"b": 1}\n ]\n}',
        '\n\n{\n "a": NaN,\n "b": {"c": 1}\n}',
    ):
        path.write_text(text)
        head = FileHead.of(path)
        assert head.start.startswith(text.strip()[:3].encode())
        assert head.after_line() is None
    long = json.dumps([{"a": list(range(100))}] * 2000, indent=1)
    assert len(long) > 2 * HEAD_BYTES
    path.write_text(long)
    assert FileHead.of(path).at == 0


def test_a_head_says_where_in_the_file_it_begins(tmp_path: Path):
    path = lines(tmp_path / "log.jsonl", NATIVE)
    content = path.read_bytes()
    path.write_bytes(b"# one\n\n" + content)
    head = FileHead.of(path)
    assert (head.at, head.start) == (7, content)
    after = head.after_line()
    assert after is not None
    first = content.index(b"\n") + 1
    assert (after.at, after.start) == (7 + first, content[first:])
    assert after.first_json == NATIVE[1]
