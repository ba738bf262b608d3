"""Whatever a file holds, a reader gives rows, counts what it cannot read, or says in one line that it cannot."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.columns import SCHEMAS
from checks.readers.file_head import FileHead
from checks.readers.format import Format
from checks.readers.formats import FORMATS
from checks.readers.open_log import open_log
from collector.errors import UserError
from tests.checks.readers.hostility import (
    BY_NAME,
    JUNK,
    LINES,
    every_kind,
    json_texts,
    outcome,
    places,
    seed_of,
    with_junk,
)
from tests.checks.readers.seeds import SEEDS


@pytest.mark.parametrize("name", BY_NAME)
def test_every_format_has_a_seed(name: str) -> None:
    assert SEEDS.get(name), f"tests/checks/readers/seeds.py has no seed of {name}: add a small valid file of each kind"


@every_kind()
def test_a_seed_is_recognised_and_read_whole(name: str, index: int, tmp_path: Path) -> None:
    path = seed_of(name, index)(tmp_path)
    head = FileHead.of(path)
    assert next(form.name for form in FORMATS if form.recognise(head) is not None) == name
    rows, unreadable = outcome(BY_NAME[name], path)
    assert rows > 0
    assert unreadable == 0


@every_kind()
def test_a_file_cut_anywhere_is_read_up_to_there_or_counted(name: str, index: int, tmp_path: Path) -> None:
    path = seed_of(name, index)(tmp_path)
    whole = path.read_bytes()
    for cut in sorted({0, 1, 4, 15, 100, *(len(whole) * part // 12 for part in range(1, 12)), len(whole) - 1}):
        path.write_bytes(whole[:cut])
        try:
            rows, unreadable = outcome(BY_NAME[name], path)
        except (OSError, UserError):
            continue
        # What ends at a line's end is a whole file too.
        assert rows or unreadable or not whole[:cut].strip(), cut


@every_kind()
@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_changed_bytes_raise_nothing(name: str, index: int, data: st.DataObject, tmp_path_factory: Any) -> None:
    path = seed_of(name, index)(tmp_path_factory.mktemp("seed"))
    changed = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
        if not changed:
            return
    path.write_bytes(bytes(changed))
    try:
        FileHead.of(path).keys  # noqa: B018 - a recogniser looks at them
        [form.recognise(FileHead.of(path)) for form in FORMATS]
        outcome(BY_NAME[name], path)
    except (OSError, UserError):
        return


@every_kind()
def test_a_field_of_the_wrong_type_is_counted_or_left_out_and_the_other_lines_are_read(
    name: str, index: int, tmp_path: Path
) -> None:
    path = seed_of(name, index)(tmp_path)
    texts = json_texts(path)
    if texts is None:
        pytest.skip("its values are not JSON: bytes are changed instead")
    by_line = path.suffix == ".jsonl"
    good = outcome(BY_NAME[name], path)[0]
    for number, text in enumerate(texts):
        bad = [with_junk(text, way, junk) for way in places(json.loads(text)) for junk in JUNK]
        if by_line:
            path.write_text("\n".join([*texts, *bad, ""]), encoding="utf-8", errors="surrogatepass")
            rows, unreadable = outcome(BY_NAME[name], path)
            assert rows + unreadable >= good, number
            continue
        for each in bad:
            path.write_text(each)
            outcome(BY_NAME[name], path)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("content", [b" \n\t\n", b"[" * 100_000, b'{"a":' * 5000, b"null\n", b"1e999\n", b"\xff" * 999])
def test_a_forced_format_raises_nothing_on_what_is_none(form: Format, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    assert outcome(form, path)[0] == 0


@pytest.mark.parametrize("name", LINES)
def test_a_deep_value_is_counted_before_it_can_be_too_deep_elsewhere(name: str, tmp_path: Path) -> None:
    path = seed_of(name, 0)(tmp_path)
    good = outcome(BY_NAME[name], path)[0]
    first = path.read_text().splitlines()[0]
    deep = ["[" * depth + "]" * depth for depth in (300, *range(930, 1000), 100_000)]
    lines = [first.replace("{", f'{{"deep": {each}, "request": {{"messages": {each}}}, ', 1) for each in deep]
    path.write_text(path.read_text() + "\n".join(lines) + "\n")
    rows, unreadable = outcome(BY_NAME[name], path)
    assert rows >= good
    assert rows + unreadable == good + len(deep)


def test_native_turns_with_ids_that_are_none_are_counted(tmp_path: Path) -> None:
    good = {"session_id": "s", "prompt_ids": [1], "completion_ids": [2]}
    bad = [{**good, "prompt_ids": [junk]} for junk in (2**31, 2**70, 10**400, 1.5, "x")]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in [good, *bad]))
    assert outcome(BY_NAME["native"], path) == (1, 5)


def test_of_a_key_that_stands_twice_the_last_holds(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"session_id": "s", "prompt_ids": [9], "prompt_ids": [1], "completion_ids": [2]}\n')
    [batch] = open_log(path).batches(["prompt_ids"])
    assert batch.turns["prompt_ids"].to_list() == [[1]]


def test_the_frames_of_what_is_left_have_every_column(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"session_id": "s", "prompt_ids": [1], "completion_ids": [2]}\nnot json\n')
    [batch] = open_log(path).batches(list(SCHEMAS["turns"]))
    assert batch.turns.schema == pl.Schema({name: SCHEMAS["turns"][name] for name in batch.turns.columns})
