"""The end of a log, read alone, holds the last rows that the whole reader gives, or is refused."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checks.columns import SCHEMAS
from checks.log import Log
from checks.readers.file_log import FileLog
from checks.readers.log_end import NotAlone, log_end
from checks.readers.native_json import NATIVE_JSON
from checks.readers.open_log import open_log
from collector.errors import UserError
from tests.checks.readers.seed_file import Seed, lines
from tests.checks.readers.seeds import SEEDS

COPIES = 40
NAMES = {
    *("id", "idx", "session_id", "run_id", "rollout_id", "trace_id", "turn_id", "export_sequence_idx", "traj_idx"),
    *("_ng_rollout_index", "uid", "task_id", "sample_index"),
}
"""What tells the copies of a seed's line apart, wherever it stands."""
READ = {
    ("marin", 0),
    ("nemo-gym", 0),
    ("nemo-rl", 0),
    ("openclaw-rl", 0),
    ("openclaw-rl", 1),
    ("polar", 0),
    ("prime-rl", 0),
    ("prime-rl", 2),
    ("prime-rl", 3),
    ("tinker", 0),
    ("tinker", 1),
    ("tinker", 2),
    ("verifiers", 0),
}
"""Kinds of files, by their format and their place among its seeds, whose end can be read alone."""
TABLES = ("steps", "rewards", "events", "feedback", "spans", "runs", "versions")


# Any: a JSON value.
def renamed(value: Any, copy: int) -> Any:
    """The value with the names in it those of a copy."""
    if isinstance(value, list):
        return [renamed(each, copy) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: (100 * copy + each if isinstance(each, int) else f"{each}-{copy}")
        if key in NAMES and isinstance(each, int | str)
        else renamed(each, copy)
        for key, each in value.items()
    }


def objects_of(path: Path) -> list[dict[str, Any]] | None:
    """The objects of a file of JSON lines; None for any other file."""
    try:
        found = [json.loads(line) for line in path.read_text().splitlines()]
    except ValueError:
        return None
    return found if found and all(isinstance(each, dict) for each in found) else None


def turns_of(log: Log) -> pl.DataFrame:
    """Every turn with every column, but for where it stands."""
    columns = [name for name in SCHEMAS["turns"] if name != "place"]
    frames = [batch.turns.select(columns) for batch in log.batches(columns)]
    return pl.concat([pl.DataFrame(schema={name: SCHEMAS["turns"][name] for name in columns}), *frames])


def assert_last_rows(end: FileLog, whole: Log) -> int:
    """Holds what the end gives against the last rows of the whole; how many rows those are."""
    some, every = turns_of(end), turns_of(whole)
    assert some.equals(every.tail(some.height))
    rows = some.height
    for name in TABLES:
        table = end.table(name)
        assert table.equals(whole.table(name).tail(table.height)), name
        rows += table.height
    return rows


@pytest.mark.parametrize(
    ("form", "kind", "seed"),
    [(form, kind, seed) for form, seeds in SEEDS.items() for kind, seed in enumerate(seeds)],
    ids=lambda each: each if isinstance(each, str | int) else "",
)
def test_the_end_of_every_kind_of_lines_is_that_of_the_whole_or_is_not_read(
    tmp_path: Path, form: str, kind: int, seed: Seed
):
    path = seed(tmp_path)
    held = None if path.suffix in (".db", ".parquet", ".pt", ".zst", ".zip") else objects_of(path)
    if held is None:
        assert log_end(path, most_bytes=10) is None
        return
    lines(path, [renamed(each, copy) for copy in range(COPIES) for each in held])
    whole = open_log(path)
    size = path.stat().st_size
    found: list[int] = []
    for most_bytes in (size // 3, size // 3 + 7, size // 2):
        end = log_end(path, most_bytes=most_bytes)
        try:
            found += [] if end is None else [assert_last_rows(end, whole)]
        except NotAlone:
            end = None
        assert (end is not None and any(found)) == ((form, kind) in READ)
    assert not found or max(found) < COPIES * 6


def native(path: Path, count: int, *, ending: str = "\n", pad: int = 0) -> Path:
    """Numbered turns of eight each a session, a step after each session."""
    with path.open("w", newline="") as file:
        for number in range(count):
            turn = {
                "session_id": f"s{number // 8}",
                "turn": number % 8 + 1,
                "prompt_ids": [1] * (5 + pad),
                "completion_ids": [number],
                "started_at": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z",
            }
            file.write(json.dumps(turn) + ending)
            if number % 8 == 7:
                file.write(json.dumps({"record": "step", "step": number // 8 + 1, "grad_norm": 0.5}) + ending)
    return path


def end_of(path: Path, most_bytes: int, *, reads: str | None = None) -> FileLog:
    """The end, which there must be."""
    end = log_end(path, reads=reads, most_bytes=most_bytes)
    assert end is not None
    return end


def completions(log: Log) -> list[int]:
    """The number that `native` gives each turn."""
    return [ids[0] for batch in log.batches(["completion_ids"]) for ids in batch.turns["completion_ids"].to_list()]


def test_lines_that_begin_within_the_last_bytes_are_given_and_no_other(tmp_path: Path):
    path = native(tmp_path / "log.jsonl", 80)
    content = path.read_bytes()
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    length = len(content) - last
    # The last line is the step of session 10; the one before it is turn 79.
    assert json.loads(content[last:]) == {"record": "step", "step": 10, "grad_norm": 0.5}
    assert completions(end_of(path, length)) == []
    before = content[: last - 1].rfind(b"\n") + 1
    assert completions(end_of(path, len(content) - before)) == [79]
    assert completions(end_of(path, len(content) - before - 1)) == []
    assert completions(end_of(path, len(content) - before + 1)) == [79]


def test_a_file_no_longer_than_the_end_is_the_whole(tmp_path: Path):
    path = native(tmp_path / "log.jsonl", 20)
    for most_bytes in (path.stat().st_size, 10**9):
        assert completions(end_of(path, most_bytes)) == list(range(20))


def test_carriage_returns_are_no_part_of_lines(tmp_path: Path):
    path = native(tmp_path / "log.jsonl", 80, ending="\r\n")
    assert b"\r\n" in path.read_bytes()
    assert assert_last_rows(end_of(path, path.stat().st_size // 2), open_log(path)) > 30


def test_a_torn_last_line_is_left_out_as_by_the_whole_reader(tmp_path: Path):
    path = native(tmp_path / "log.jsonl", 80)
    path.write_bytes(path.read_bytes() + b'{"session_id": "s10", "turn": 1, "prompt_i')
    end = end_of(path, 2000)
    assert completions(end)[-1] == 79
    assert assert_last_rows(end, open_log(path)) > 10


def test_a_last_line_longer_than_the_end_is_none(tmp_path: Path):
    path = native(tmp_path / "log.jsonl", 4)
    with path.open("a") as file:
        file.write(json.dumps({"session_id": "long", "turn": 1, "prompt_ids": [7] * 50_000, "completion_ids": [4]}))
    assert log_end(path, most_bytes=1000) is None
    path.write_bytes(path.read_bytes() + b"\n")
    assert log_end(path, most_bytes=1000) is None


def test_nothing_is_taken_for_an_end_that_is_none(tmp_path: Path):
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    assert log_end(empty, most_bytes=100) is None
    document = tmp_path / "traces.json"
    document.write_text(
        "[\n"
        + ",\n".join(json.dumps({"prompt_ids": [1], "response_ids": [2], "loss_mask": [1]}) for _ in range(50))
        + "\n]\n"
    )
    assert open_log(document).source().format == "polar"
    assert log_end(document, most_bytes=500) is None
    assert log_end(tmp_path, most_bytes=500) is None
    assert log_end(tmp_path / "gone", most_bytes=500) is None
    wide = tmp_path / "wide.jsonl"
    wide.write_text(native(tmp_path / "log.jsonl", 80).read_text(), "utf-16")
    assert completions(open_log(wide)) == list(range(80))
    assert log_end(wide, most_bytes=500) is None


def test_turns_without_a_number_are_counted_from_the_first_so_their_end_is_not_read(tmp_path: Path):
    path = lines(
        tmp_path / "log.jsonl", [{"session_id": "s", "prompt_ids": [1], "completion_ids": [n]} for n in range(9)]
    )
    with pytest.raises(NotAlone):
        completions(end_of(path, 200))


def test_a_format_that_is_named_is_read_as_that(tmp_path: Path):
    path = native(tmp_path / "log.jsonl", 80)
    assert completions(end_of(path, 1000, reads="native"))[-1] == 79
    assert log_end(path, reads="verifiers", most_bytes=1000) is None


def test_of_a_score_that_stands_before_the_end_nothing_is_known(tmp_path: Path):
    turns = [
        {"session_id": "s", "turn": n, "turn_id": f"t{n}", "prompt_ids": [1], "completion_ids": [n]}
        for n in range(1, 40)
    ]
    score = {"record": "score", "turn_id": "t39", "trainer_step": 5, "trainer_logprobs": [-0.5]}
    path = lines(tmp_path / "log.jsonl", [score, *turns])
    (batch,) = end_of(path, 300).batches(["turn_id"], ["trainer_step"])
    assert batch.turns["turn_id"][-1] == "t39"
    assert batch.scores.is_empty()
    path = lines(tmp_path / "log.jsonl", [*turns, score])
    (batch,) = end_of(path, 300).batches(["turn_id"], ["trainer_step"])
    assert batch.scores["trainer_step"].to_list() == [5]


def test_memory_is_that_of_the_end_whatever_the_file(tmp_path: Path):
    path = native(tmp_path / "log.jsonl", 10_000, pad=2_000)
    assert path.stat().st_size > 60_000_000
    tracemalloc.start()
    try:
        end = end_of(path, 2**20)
        heights = [batch.turns.height for batch in end.batches(["session_id"])]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(heights) > 150
    # 100,000 tokens of a batch as Python holds them take 3.2 MB, and the head of the file 0.25 MB.
    assert most < 16_000_000


def test_the_share_read_is_of_the_files_bytes(tmp_path: Path):
    path = native(tmp_path / "log.jsonl", 400, pad=50)
    log = FileLog(path, [(NATIVE_JSON, (path,))], "", batch_tokens=2_000)
    assert log.share_read() is None
    shares: list[float | None] = []
    for _ in log.batches([]):
        shares.append(log.share_read())
    assert shares[-1] == 1.0
    # 56 tokens a turn: 36 of the 400 turns a batch.
    assert shares[0] == pytest.approx(36 / 400, abs=0.01)


def test_another_log_than_lines_is_refused_as_ever(tmp_path: Path):
    path = tmp_path / "noise.bin"
    path.write_bytes(bytes(range(256)) * 10)
    assert log_end(path, most_bytes=100) is None
    with pytest.raises(UserError):
        open_log(path)
