"""Native Parquet of other writers: part files, partitions, other integer widths, missing and wrong columns."""

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.columns import FLOATS, IDS, SPANS, TIME
from checks.readers.batching import BATCH_TOKENS
from checks.readers.open_log import open_log
from checks.suite import run
from collector.errors import UserError


def turns(sessions: list[str], **columns: Any) -> pa.Table:
    """Turns with the required columns and some others."""
    ids = pa.array([[1, 2, 3]] * len(sessions), pa.list_(pa.int32()))
    return pa.table({"session_id": sessions, "prompt_ids": ids, "completion_ids": ids, **columns})


def read(path: Path, *columns: str) -> pl.DataFrame:
    """All turns."""
    return pl.concat([batch.turns for batch in open_log(path).batches(columns)])


def test_three_columns_are_enough(tmp_path: Path):
    pq.write_table(turns(["s", "s", "r"]), tmp_path / "anything.parquet")
    frame = read(tmp_path / "anything.parquet", "prompt_ids", "reward", "started_at")
    assert frame.select("session_id", "turn", "reward").rows() == [("s", 1, None), ("s", 2, None), ("r", 1, None)]
    assert frame.schema["started_at"] == TIME
    report = run(open_log(tmp_path / "anything.parquet"))
    assert (report.counts.turns, report.counts.tokens) == (3, 18)
    assert report.finding("truncation").status == "no_data"
    assert report.finding("truncation").check_next[0] == "write finish_reason into the native log's turns"


def test_numbers_are_counted_on_from_file_to_file(tmp_path: Path):
    for part, names in enumerate((["s", "r"], ["s"], ["r", "s"])):
        pq.write_table(turns(names), tmp_path / f"turns-{part:04d}.parquet")
    assert read(tmp_path).rows() == [("s", 1), ("r", 1), ("s", 2), ("r", 2), ("s", 3)]


def test_only_missing_numbers_are_given(tmp_path: Path):
    pq.write_table(turns(["s", "s", "s"], turn=pa.array([7, None, 9])), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet")["turn"].to_list() == [7, 2, 9]


def test_partitions_and_parts_of_several_tables(tmp_path: Path):
    for day, names in (("dt=2026-01-01", ["a"]), ("dt=2026-01-02", ["b"])):
        (tmp_path / "turns" / day).mkdir(parents=True)
        pq.write_table(turns(names, turn_id=names), tmp_path / "turns" / day / "0.parquet")
        (tmp_path / "scores" / day).mkdir(parents=True)
        scores = pa.table({"turn_id": names[::-1], "trainer_logprobs": [[-0.5, -0.5, -0.5]]})
        pq.write_table(scores, tmp_path / "scores" / day / "0.parquet")
    pq.write_table(pa.table({"step": [3], "grad_norm": [0.5]}), tmp_path / "steps.parquet")
    log = open_log(tmp_path)
    (first, second) = log.batches(["turn_id"], ["trainer_logprobs"])
    assert (first.turns["session_id"].to_list(), first.scores.height) == (["a"], 1)
    assert (second.turns["session_id"].to_list(), second.scores["row"].to_list()) == (["b"], [0])
    assert log.table("steps").select("step", "grad_norm", "loss").rows() == [(3, 0.5, None)]
    assert log.source().files == 5


def test_a_file_without_a_column_that_another_has_reads_as_null(tmp_path: Path):
    pq.write_table(turns(["a"], finish_reason=["stop"]), tmp_path / "turns-1.parquet")
    pq.write_table(turns(["b"]), tmp_path / "turns-2.parquet")
    assert read(tmp_path, "finish_reason")["finish_reason"].to_list() == ["stop", None]


def test_a_folder_named_like_a_table_above_the_log_says_nothing(tmp_path: Path):
    folder = tmp_path / "steps" / "x"
    folder.mkdir(parents=True)
    pq.write_table(turns(["a"]), folder / "part-0.parquet")
    pq.write_table(pa.table({"x": [1]}), folder / "other.parquet")
    source = open_log(folder).source()
    assert (source.files, source.skipped) == (1, 1)
    assert source.skipped_first[0].reason == "Parquet with columns of no known format"


def test_every_width_and_list_type_becomes_that_of_the_checks(tmp_path: Path):
    spans = [[{"end": 3, "start": 0, "version": 5, "more": True}]]
    table = pa.table(
        {
            "session_id": pa.array([12], pa.int64()),
            "prompt_ids": pa.array([[1, 2]], pa.large_list(pa.int64())),
            "completion_ids": pa.array([[3, 4, 5]], pa.list_(pa.uint32(), 3)),
            "turn": pa.array([1.0]),
            "sampled_logprobs": pa.array([[-1.0, -2.0, -0.5]], pa.large_list(pa.float16())),
            "loss_mask": pa.array([[True, False, True]]),
            "weight_versions": pa.array(spans),
            "adapter": pa.array(["bot"]).dictionary_encode(),
            "reward": pa.array([1], pa.int8()),
            "started_at": pa.array([1_000], pa.timestamp("ms")),
            "finished_at": pa.array([2], pa.timestamp("s", "Asia/Tokyo")),
            "request": pa.array([{"messages": [{"role": "user"}]}]),
            "group_id": pa.nulls(1),
            "invented": [object.__name__],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    names = [name for name in table.schema.names if name != "invented"]
    frame = read(tmp_path / "t.parquet", *names)
    assert frame.schema["prompt_ids"] == frame.schema["completion_ids"] == IDS
    assert frame.schema["sampled_logprobs"] in (FLOATS, pl.List(pl.Float32))
    assert (frame.schema["weight_versions"], frame.schema["finished_at"]) == (SPANS, TIME)
    row = frame.row(0, named=True)
    assert (row["session_id"], row["turn"], row["reward"], row["adapter"]) == ("12", 1, 1.0, "bot")
    assert (row["prompt_ids"], row["completion_ids"], row["loss_mask"]) == ([1, 2], [3, 4, 5], [1, 0, 1])
    assert row["weight_versions"] == [{"version": "5", "start": 0, "end": 3}]
    assert (row["started_at"].timestamp(), row["finished_at"].timestamp()) == (1.0, 2.0)
    assert (row["request"], row["group_id"]) == ('{"messages":[{"role":"user"}]}', None)


def test_versions_may_be_labels(tmp_path: Path):
    columns = {"trainer_version": pa.array(["step_12", "default", None]), "trainer_step": pa.array(["3", "4", "5"])}
    table = turns(["a", "b", "c"])
    for name, values in columns.items():
        table = table.append_column(name, values)
    pq.write_table(table, tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet", *columns).select(list(columns)).rows() == [(12, 3), (None, 4), (None, 5)]


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("prompt_ids", [["a"]], r"turns\.prompt_ids holds List\(String\), expected lists of integers that fit int32"),
        ("prompt_ids", [[2**31]], r"turns\.prompt_ids: .*2147483648.*expected lists of integers that fit int32"),
        ("completion_ids", [[1.0]], r"turns\.completion_ids holds List\(Float64\)"),
        ("sampled_logprobs", [["-1"]], r"turns\.sampled_logprobs holds List\(String\), expected lists of numbers"),
        ("loss_mask", [[300]], r"turns\.loss_mask: it has numbers other than 0 and 1; expected lists of 0 and 1"),
        ("turn", [1.5], r"turns\.turn: it has fractions; expected integers"),
        ("reward", ["good"], r"turns\.reward holds String, expected numbers"),
        ("started_at", ["today"], r"turns\.started_at holds String, expected timestamps"),
        ("complete", [2], r"turns\.complete: it has numbers other than 0 and 1; expected true or false"),
        ("weight_versions", [["v"]], r"turns\.weight_versions holds List\(String\), expected lists of \{version"),
    ],
)
def test_a_wrong_type_is_refused_by_its_column(tmp_path: Path, column: str, values: list[Any], says: str):
    table = turns(["s"])
    if column in table.schema.names:
        table = table.drop_columns(column)
    pq.write_table(table.append_column(column, pa.array(values)), tmp_path / "t.parquet")
    with pytest.raises(UserError, match=says):
        read(tmp_path / "t.parquet", column)


def test_a_column_nobody_asks_for_may_be_anything(tmp_path: Path):
    pq.write_table(turns(["s"], reward=["good"]), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet", "prompt_ids").height == 1


def test_a_file_cut_short_is_counted_and_the_others_are_read(tmp_path: Path):
    for part in range(3):
        pq.write_table(turns([f"s{part}"]), tmp_path / f"turns-{part}.parquet")
    whole = (tmp_path / "turns-1.parquet").read_bytes()
    (tmp_path / "turns-1.parquet").write_bytes(whole[: len(whole) // 2])
    log = open_log(tmp_path)
    assert [b.turns["session_id"].to_list() for b in log.batches(())] == [["s0"], ["s2"]]
    assert log.source().skipped == 1


def test_pages_that_cannot_be_decoded_are_counted_and_the_others_are_read(tmp_path: Path):
    for part in range(3):
        pq.write_table(turns([f"s{part}"] * 500), tmp_path / f"turns-{part}.parquet", compression="zstd")
    content = bytearray((tmp_path / "turns-1.parquet").read_bytes())
    content[4:60] = b"\xff" * 56
    (tmp_path / "turns-1.parquet").write_bytes(content)
    log = open_log(tmp_path)
    assert [b.turns["session_id"][0] for b in log.batches(())] == ["s0", "s2"]
    assert log.source().unreadable == 1
    assert log.source().unreadable_first[0].place == "turns-1.parquet"


def test_scores_in_the_turn_and_beside_it_both_come(tmp_path: Path):
    inline = pa.array([[-0.5] * 3, None], pa.list_(pa.float64()))
    table = turns(["a", "b"], turn_id=["1", "2"], trainer_logprobs=inline, trainer_version=[4, 4], adapter=["x", "y"])
    pq.write_table(table, tmp_path / "turns.parquet")
    beside = pa.table({"turn_id": ["2", "1", "9"], "trainer_logprobs": [[-1.0] * 3] * 3, "trainer_version": [5, 6, 7]})
    pq.write_table(beside, tmp_path / "scores.parquet")
    log = open_log(tmp_path)
    (batch,) = log.batches((), ["trainer_logprobs", "trainer_version", "adapter"])
    assert batch.scores.select("row", "trainer_version", "adapter").rows() == [(0, 4, "x"), (0, 6, None), (1, 5, None)]
    assert log.source().unreadable == 1
    assert log.source().unreadable_first[0].reason.startswith("1 scores of turns that the log does not hold")


def test_scores_in_the_turn_need_not_be_all_there_are(tmp_path: Path):
    pq.write_table(turns(["a"], trainer_logprobs=[[-0.5] * 3]), tmp_path / "turns.parquet")
    (batch,) = open_log(tmp_path).batches((), ["trainer_step", "trainer_logprobs", "reference_logprobs"])
    assert batch.scores.rows() == [(0, None, [-0.5] * 3, None)]


def test_batches_are_bounded_by_tokens_and_lose_none(tmp_path: Path):
    lengths = [10, BATCH_TOKENS // 2, BATCH_TOKENS + 5, 3, 3]
    ids = pa.array([list(range(length)) for length in lengths], pa.list_(pa.int32()))
    empty = pa.array([[]] * 5, pa.list_(pa.int32()))
    table = pa.table({"session_id": list("abcde"), "prompt_ids": ids, "completion_ids": empty})
    pq.write_table(table, tmp_path / "t.parquet")
    batches = list(open_log(tmp_path / "t.parquet").batches(["prompt_ids"]))
    sizes = [batch.turns["prompt_ids"].list.len().to_list() for batch in batches]
    assert [length for size in sizes for length in size] == lengths
    assert all(len(size) == 1 or sum(size) <= BATCH_TOKENS for size in sizes)


def test_row_groups_without_the_sessions_are_not_read(tmp_path: Path):
    table = turns(["a"] * 100 + ["b"] * 100 + ["a", "c"] * 50, turn=list(range(300)))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100, compression="none")
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    group = pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(1)
    column = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema.startswith("prompt_ids"))
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    (tmp_path / "t.parquet").write_bytes(content)
    log = open_log(tmp_path / "t.parquet")
    found = pl.concat([batch.turns for batch in log.batches(["prompt_ids"], sessions={"a", "c"})])
    assert found["turn"].to_list() == [*range(100), *range(200, 300)]
    assert log.source().unreadable == 0, "what is broken is in a row group that nobody asked for"


def test_turns_expected_comes_from_the_footers(tmp_path: Path):
    for part in range(2):
        pq.write_table(turns(["s"] * 7), tmp_path / f"turns-{part}.parquet")
    assert open_log(tmp_path).turns_expected() == 14
