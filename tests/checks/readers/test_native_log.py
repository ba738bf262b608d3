"""Every form of the native log gives the checks the same frames: the store itself, and its three exports."""

import gzip
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from checks.columns import SCHEMAS, TABLES
from checks.log import Log
from checks.readers.open_log import open_log
from checks.suite import run
from collector.store.writer import Writer
from tests.checks.readers.conftest import FORMS, turns_of
from tests.checks.readers.frames import whole

forms = pytest.mark.parametrize("form", FORMS)


@forms
def test_turns_are_those_that_were_written(exported: Any, form: str):
    turns, _ = whole(exported.folder / form)
    assert turns["turn_id"].to_list() == [turn.turn_id for turn in exported.turns]
    assert turns["prompt_ids"].to_list() == [turn.prompt_ids for turn in exported.turns]
    assert turns["completion_ids"].to_list() == [turn.completion_ids for turn in exported.turns]
    assert turns["started_at"].to_list() == [turn.started_at for turn in exported.turns]
    assert turns["weight_versions"][0].to_list() == [
        {"version": "3", "start": 0, "end": 2},
        {"version": "step-4", "start": 2, "end": 4},
    ]
    mu = pl.Series(exported.turns[0].sampled_logprobs, dtype=pl.Float32).cast(pl.Float64)
    assert turns["sampled_logprobs"][0].to_list() == mu.to_list()
    assert (
        turns["request"][1]
        == '{"messages":[{"role":"user","content":"hé 0"}],"tools":[{"name":"ls"}],"chat_template_kwargs":null}'
    )


@forms
def test_each_turn_has_its_scores_in_the_order_they_were_made(exported: Any, form: str):
    _, scores = whole(exported.folder / form)
    expected = sorted(
        ((s.turn_id, s.trainer_step) for s in exported.scores),
        key=lambda pair: [turn.turn_id for turn in exported.turns].index(pair[0]),
    )
    assert scores.select("turn_id", "trainer_step").rows() == expected
    assert scores["trainer_logprobs"][0].to_list() == [-0.25, float("-inf"), -0.5, -5 / 64]
    assert scores.filter(pl.col("adapter") != "bot").select("turn_id", "trainer_step").rows() == [("b-3", 6)]
    assert scores["advantages"].null_count() == scores.height


@forms
def test_every_form_gives_what_the_store_gives(exported: Any, form: str):
    reference, log = open_log(exported.folder / "store"), open_log(exported.folder / form)
    for ours, theirs in zip(whole(log), whole(reference), strict=True):
        assert_frame_equal(ours, theirs)
    for table in TABLES:
        if table != "turns":
            assert_frame_equal(log.table(table), reference.table(table))
            assert dict(log.table(table).schema) == dict(pl.DataFrame(schema=SCHEMAS[table]).schema)
            assert log.table(table).height, table
    found, expected = run(log), run(reference)
    assert found.counts == expected.counts
    assert found.metrics == expected.metrics


@forms
def test_the_version_says_the_step_it_was_saved_at(exported: Any, form: str):
    versions = open_log(exported.folder / form).table("versions")
    assert versions.filter(pl.col("version") == 1).select("adapter", "optimizer_step", "parent").rows() == [
        ("bot", 4, 0)
    ]


@forms
def test_the_source_says_native_and_why(exported: Any, form: str):
    source = open_log(exported.folder / form).source()
    assert source.format == "native"
    assert {"store": "a store", "log": "Parquet", "log.duckdb": "DuckDB", "log.jsonl": "lines"}[form] in source.reason
    assert (source.unreadable, source.skipped) == (0, 0)


@forms
def test_some_sessions_come_with_their_own_scores(exported: Any, form: str):
    batches = list(open_log(exported.folder / form).batches(["turn_id"], ["trainer_step"], sessions=["b", "c"]))
    turns = pl.concat([batch.turns for batch in batches])
    assert turns["session_id"].unique(maintain_order=True).to_list() == ["b", "c"]
    owners = [name for batch in batches for name in batch.turns["turn_id"].gather(batch.scores["row"])]
    assert owners == ["b-0", "b-1", "b-2", "b-3", "b-3"]


@forms
def test_only_the_columns_asked_for_come(exported: Any, form: str):
    (batch, *_) = open_log(exported.folder / form).batches(["finish_reason"])
    assert batch.turns.columns == ["session_id", "turn", "finish_reason"]
    assert batch.scores.columns == ["row"]


def test_a_copy_of_a_store_that_cannot_be_written_is_read(exported: Any, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(exported.folder / "store", copy)
    for path in copy.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert_frame_equal(whole(copy)[0], whole(exported.folder / "store")[0])


def test_a_store_that_is_written_meanwhile_stays_as_it_was_when_opened(tmp_path: Path):
    with Writer(tmp_path / "store", "collector") as writer:
        for turn in turns_of("a", 4):
            writer.append(turn).result(10)
        log: Log = open_log(tmp_path / "store")
        for turn in turns_of("b", 4):
            writer.append(turn).result(10)
        writer.seal()
        first, _ = whole(log)
        again, _ = whole(log)
        assert log.turns_expected() == 4
        assert first["turn_id"].to_list() == again["turn_id"].to_list() == ["a-0", "a-1", "a-2", "a-3"]
        assert whole(tmp_path / "store")[0].height == 8


def test_damage_of_a_store_is_counted_and_the_rest_is_read(tmp_path: Path):
    import sqlite3

    with Writer(tmp_path / "store", "collector") as writer:
        for turn in turns_of("a", 1) + turns_of("b", 1):
            writer.append(turn).result(10)
    with sqlite3.connect(tmp_path / "store/journals/collector.sqlite") as db:
        db.execute("UPDATE hot_turns SET crc32 = crc32 + 1 WHERE seq = 1")
    db.close()
    log = open_log(tmp_path / "store")
    assert whole(log)[0]["turn_id"].to_list() == ["b-0"]
    assert log.source().unreadable == 1
    assert "crc32" in log.source().unreadable_first[0].reason


def test_a_compressed_export_reads_the_same(exported: Any, tmp_path: Path):
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress((exported.folder / "log.jsonl").read_bytes()))
    for ours, theirs in zip(whole(packed), whole(exported.folder / "log.jsonl"), strict=True):
        assert_frame_equal(ours, theirs)


def test_a_missing_column_is_answered_with_where_it_belongs(exported: Any):
    log = open_log(exported.folder / "log")
    assert log.advice("turns.reward") == "write reward into the native log's turns"
    assert "the trainer's to record" in (log.advice("scores.trainer_logprobs") or "")


@forms
@pytest.mark.parametrize("sessions", [["b"], ["a", "c"], ["nobody"], []])
def test_turns_of_some_sessions_come_in_the_order_of_the_log(exported: Any, form: str, sessions: list[str]):
    batches = list(open_log(exported.folder / form).batches(["turn_id", "prompt_ids"], sessions=sessions))
    found = [turn for batch in batches for turn in batch.turns.select("turn_id", "prompt_ids").rows()]
    assert found == [(one.turn_id, one.prompt_ids) for one in exported.turns if one.session_id in sessions]
