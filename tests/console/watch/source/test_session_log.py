"""Single sessions of a store are what the ordinary reader finds of them."""

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from checks.readers.open_log import open_log
from collector.store.writer import Writer
from console.watch.source.session_log import SessionLog
from tests.benchmarks.synthetic_store import session, write_store
from tests.console.watch.fake_source import AT
from tests.console.watch.source.test_store_source import written

COLUMNS = ["turn_id", "prompt_ids", "completion_ids", "sampled_logprobs"]
SCORES = ["trainer_step", "trainer_logprobs", "entropies"]


@pytest.mark.parametrize("sessions", [["session-00000003"], ["session-00000002", "session-00000005"]])
def test_turns_and_scores_are_those_that_the_whole_log_gives(tmp_path: Path, sessions: list[str]):
    write_store(tmp_path, turns=64, steps=16)
    one = [*SessionLog(tmp_path).batches(COLUMNS, SCORES, sessions=sessions)]
    other = [*open_log(tmp_path).batches(COLUMNS, SCORES, sessions=sessions)]
    for part in ("turns", "scores"):
        read, expected = (pl.concat([getattr(batch, part) for batch in batches]) for batches in (one, other))
        assert_frame_equal(read.drop("row", strict=False), expected.drop("row", strict=False))
        assert read.height == 8 * len(sessions)


def test_a_session_that_went_on_is_read_anew(tmp_path: Path):
    import random

    with Writer(tmp_path, "collector") as collector:
        turns = session(0, random.Random(1), AT, version=0)
        written(collector, *turns[:3])
        log = SessionLog(tmp_path)
        assert [batch.turns.height for batch in log.batches(COLUMNS, sessions=["session-00000000"])] == [3]
        written(collector, *turns[3:])
        assert [batch.turns.height for batch in log.batches(COLUMNS, sessions=["session-00000000"])] == [8]


def test_without_sessions_it_is_the_whole_log(tmp_path: Path):
    write_store(tmp_path, turns=32, steps=8)
    log, other = SessionLog(tmp_path), open_log(tmp_path)
    assert sum(batch.turns.height for batch in log.batches([])) == 32
    assert log.turns_expected() == other.turns_expected() == 32
    assert log.source() == other.source()
    assert log.table("steps").equals(other.table("steps"))
    assert log.advice("turns.completion_ids") == other.advice("turns.completion_ids")
    assert [*log.batches(COLUMNS, sessions=["nobody"])] == []
