"""The process that reads tokens: what it finds equals what `roundhouse check` prints."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from checks.readers.open_log import open_log
from checks.report import as_json
from checks.suite import run
from collector.store.erase import Erasure
from collector.store.writer import Writer
from console.watch.held import Held
from console.watch.source.log_source import LogSource
from console.watch.source.source import Source
from console.watch.source.store_source import StoreSource
from console.watch.source.token_news import News, Order, frame_bytes, frame_of, packed, unpacked
from console.watch.source.token_process import TokenProcess
from tests.benchmarks.synthetic_store import scores_of, session, step_of, write_store
from tests.console.watch.source.test_store_source import written

SAMPLES = Path(__file__).parents[4] / "samples"


def held_when(source: Source, wanted: Callable[[Held], bool]) -> Held:
    """What is held once it is as wanted; a test that waits for ever is ended by its timeout."""
    held = None
    while held is None or not wanted(held):
        held = source.poll() or held
        time.sleep(0.02)
    return held


def of_check(path: Path) -> dict[str, float | None]:
    """The numbers of a report that tokens tell."""
    return json.loads(as_json(run(open_log(path))))["metrics"]


def test_the_signals_of_a_store_equal_those_of_check_and_follow_it(tmp_path: Path):
    write_store(tmp_path, turns=64, steps=16)
    source = StoreSource(tmp_path, tokens=TokenProcess(Order(path=str(tmp_path))))
    try:
        held = held_when(source, lambda held: held.tokens.share == 1)
        assert held.tokens.signals.height == 8
        said = of_check(tmp_path)
        assert held.tokens.signals["max_w"].max() == pytest.approx(said["max_w"], rel=1e-12)
        assert held.tokens.signals.sort("step")["ess"].max() == pytest.approx(said["ess"], rel=1e-9)
        with Writer(tmp_path, "collector") as collector, Writer(tmp_path, "trainer") as trainer:
            turns = session(900, random.Random(1), datetime.now(UTC), version=0)
            written(collector, *turns)
            written(trainer, *scores_of(turns, 99, 0), step_of("refund", 100, datetime.now(UTC), random.Random(1)))
        held = held_when(source, lambda held: held.tokens.signals["step"].max() == 100)
        assert held.tokens.share == 1
    finally:
        source.close()


def test_the_tokens_of_erased_turns_vanish(tmp_path: Path):
    write_store(tmp_path, turns=16, steps=4)
    source = StoreSource(tmp_path, tokens=TokenProcess(Order(path=str(tmp_path))))
    try:
        held = held_when(source, lambda held: held.tokens.share == 1)
        assert held.tokens.signals["adapter"].unique().sort().to_list() == ["refund", "triage"]
        gone = frozenset(held.turns.filter(pl.col("adapter") == "triage")["turn_id"])
        sessions = frozenset(held.turns.filter(pl.col("adapter") == "triage")["session_id"])
        for name in ("collector", "trainer"):
            with Writer(tmp_path, name) as writer:
                writer.erase(Erasure(sessions, gone))
        held = held_when(source, lambda held: held.tokens.signals["adapter"].unique().to_list() == ["refund"])
        assert held.turns["adapter"].unique().to_list() == ["refund"]
    finally:
        source.close()


def test_a_window_of_turns_measures_these_only(tmp_path: Path):
    write_store(tmp_path, turns=64, steps=16)
    source = StoreSource(tmp_path, tokens=TokenProcess(Order(path=str(tmp_path), window_turns=8)))
    try:
        held = held_when(source, lambda held: held.tokens.share == 1)
        assert held.tokens.signals.height == 1
    finally:
        source.close()


def test_a_window_of_time_measures_what_ended_in_it(tmp_path: Path):
    write_store(tmp_path, turns=64, steps=16, end=datetime.now(UTC) - timedelta(minutes=5))
    source = StoreSource(tmp_path, tokens=TokenProcess(Order(path=str(tmp_path), window_s=1.0)))
    try:
        held = held_when(source, lambda held: held.tokens.share == 1)
        assert held.tokens.signals.is_empty()
    finally:
        source.close()


def test_a_log_is_read_once_with_what_only_all_of_it_tells():
    path = SAMPLES / "prefix-break" / "fires.jsonl"
    source = LogSource(path, short=True, reading=lambda: TokenProcess(Order(path=str(path))))
    try:
        held = held_when(source, lambda held: held.tokens.share == 1)
        assert held.tokens.breaks is not None
        assert held.tokens.drift is None
        assert source.poll() is None
        assert held.turns.height == sum(batch.turns.height for batch in open_log(path).batches([]))
    finally:
        source.close()


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(tmp_path: Path):
    write_store(tmp_path, turns=16, steps=4)
    for segment in (tmp_path / "segments" / "scores").glob("trainer*"):
        segment.write_bytes(segment.read_bytes()[:-9])
    source = StoreSource(tmp_path, tokens=TokenProcess(Order(path=str(tmp_path))))
    try:
        held = held_when(source, lambda held: held.tokens.error is not None)
        assert "run roundhouse verify" in str(held.tokens.error)
        assert held.turns.height == 16
    finally:
        source.close()


def error_of(process: TokenProcess) -> str:
    """What it says is wrong, once it does."""
    while process.tokens.error is None:
        process.poll()
        time.sleep(0.02)
    process.close()
    return process.tokens.error


def test_a_log_that_is_not_there_is_said(tmp_path: Path):
    path = tmp_path / "nothing"
    assert error_of(TokenProcess(Order(path=str(path)))).startswith(f"{path} does not exist; give a log file")


def test_a_process_that_ends_says_so():
    before = children()
    process = TokenProcess(Order(path=str(SAMPLES / "prefix-break" / "fires.jsonl")))
    (child,) = children() - before
    os.kill(child, signal.SIGKILL)
    assert error_of(process) == "the process that reads tokens ended with -9"


def children() -> set[int]:
    """Processes that this one started."""
    tasks = Path("/proc/self/task").iterdir()
    return {int(child) for task in tasks for child in (task / "children").read_text().split()}


def test_news_come_out_of_the_pipe_as_they_went_in_whatever_the_pieces():
    frame = pl.DataFrame({"step": [1, 2], "parts": [[1.5], []]})
    sent = packed(News(share=0.5, frames={"a": frame_bytes(frame)})) + packed(News(share=1.0, error="gone"))
    received, found = bytearray(), []
    for byte in sent:
        received.append(byte)
        while (news := unpacked(received)) is not None:
            found.append(news)
    assert [news.share for news in found] == [0.5, 1.0]
    assert frame_of(found[0].frames["a"]).equals(frame)
    assert found[1].error == "gone"
