"""A store under watch: what was read piece by piece is what is there, whatever happened to the files meanwhile."""

import math
import os
import random
import select
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from collector.errors import StoreError
from collector.records import Eval, Event, Reward
from collector.store.erase import Erasure
from collector.store.layout import Layout
from collector.store.registry import Registry
from collector.store.writer import Writer
from console.watch.held import TABLES, Held
from console.watch.source.folder_notices import FolderNotices
from console.watch.source.store_source import StoreSource
from tests.benchmarks.synthetic_store import scores_of, session, step_of
from tests.console.watch.fake_source import AT


def whole(store: Path) -> Held:
    """What a source finds that was opened just now."""
    held = StoreSource(store).poll()
    assert held is not None
    return held


def same(followed: Held, opened: Held) -> None:
    """The same rows in every table, in whatever order the writers' records came."""
    for name in TABLES:
        keys = [key for key in ("writer", "seq", "adapter", "version") if key in TABLES[name]]
        one, other = (getattr(held, name).sort(keys) for held in (followed, opened))
        if name == "evals":
            one, other = one.drop("written_at"), other.drop("written_at")
        assert_frame_equal(one, other)
    assert followed.newest_at == opened.newest_at
    assert followed.registry == opened.registry


def written(writer: Writer, *records: object) -> None:
    """Durably."""
    for future in [writer.append(record) for record in records]:  # pyright: ignore[reportArgumentType]
        future.result(30)


def test_numbers_that_no_measure_holds_are_infinite_as_for_the_checks(tmp_path: Path):
    source, random_source = StoreSource(tmp_path), random.Random(1)
    with Writer(tmp_path, "trainer") as trainer:
        step = step_of("refund", 1, AT, random_source)
        scores = {"adapter": "refund", "version": 1, "suite": "s", "sample": 0}
        written(trainer, msgspec.structs.replace(step, grad_norm=1e300), Eval(task_id="a", score=-1e300, **scores))
        for sealed in (False, True):
            if sealed:
                trainer.seal()
            held = source.poll() if not sealed else whole(tmp_path)
            assert held is not None
            assert (held.steps["grad_norm"].to_list(), held.evals["score"].to_list()) == ([math.inf], [-math.inf])


def test_a_store_followed_as_it_grows_is_the_store_opened_at_the_end(tmp_path: Path):
    source, random_source = StoreSource(tmp_path), random.Random(1)
    with Writer(tmp_path, "collector") as collector, Writer(tmp_path, "trainer") as trainer:
        turns = [session(number, random_source, AT, version=0) for number in range(6)]
        written(collector, *turns[0])
        held = source.poll()
        assert held is not None
        assert held.turns.select("turn", "prompt_tokens", "completion_tokens").rows()[:2] == [(1, 64, 48), (2, 144, 48)]
        assert held.turns["trainer_step"].null_count() == 8
        written(collector, *turns[1], Event(at=AT, kind="retry"))
        written(trainer, *scores_of(turns[0], 3, 1), step_of("refund", 4, AT, random_source))
        held = source.poll()
        assert held is not None
        assert held.turns["trainer_step"].to_list() == [3] * 8 + [None] * 8
        written(collector, *turns[2])
        collector.seal()
        trainer.seal()
        written(collector, *turns[3])
        held = source.poll()
        assert held is not None
        assert held.turns.height == 32
        written(trainer, *scores_of(turns[0], 9, 2), *scores_of(turns[3], 9, 2))
        with Registry(tmp_path) as registry:
            registry.register_adapter("refund", tenant="acme", base_model="base", actor="test", reason="made")
        held = source.poll()
        assert held is not None
        assert held.turns["trainer_step"].to_list() == [3] * 8 + [None] * 16 + [9] * 8
        assert held.versions.select("adapter", "version", "state").rows() == [("refund", 0, "live")]
        assert [change.action for change in held.audit] == ["register_adapter"]
        same(held, whole(tmp_path))
    held = source.poll() or held
    same(held, whole(tmp_path))
    assert held.damage == ()


def test_a_time_ahead_of_this_clock_is_no_standing_and_what_comes_is_noticed_by_itself(tmp_path: Path):
    day, now = timedelta(days=1), datetime.now(UTC)
    source = StoreSource(tmp_path)
    with Writer(tmp_path, "collector") as collector:
        written(collector, Event(at=AT, kind="retry"))
        opened = source.poll()
        assert opened is not None
        assert (opened.newest_at, opened.ahead_at, opened.came_at) == (AT, None, None)
        written(collector, Event(at=now + day, kind="retry"), Event(at=AT + day, kind="retry"))
        ahead = source.poll()
        assert ahead is not None
        assert (ahead.newest_at, ahead.ahead_at) == (AT + day, now + day)
        assert ahead.came_at is not None
        assert now <= ahead.came_at <= ahead.read_at
        again = whole(tmp_path)
        assert (again.newest_at, again.ahead_at) == (AT + day, now + day)
        assert again.came_at is not None
        assert now - timedelta(seconds=5) <= again.came_at <= again.read_at


def test_a_store_whose_records_are_all_ahead_was_written_when_its_files_were(tmp_path: Path):
    newest, before = datetime.now(UTC) + timedelta(days=1), time.time() - 7200
    with Writer(tmp_path, "collector") as collector:
        written(collector, Event(at=newest, kind="retry"))
    for path in [*Layout(tmp_path).journals.iterdir(), *tmp_path.glob("registry.sqlite*")]:
        os.utime(path, (before, before))
    held = whole(tmp_path)
    assert (held.newest_at, held.ahead_at) == (newest, newest)
    assert held.came_at == datetime.fromtimestamp(before, UTC)


def test_a_score_that_is_read_before_its_turn_marks_it_when_it_comes(tmp_path: Path):
    source, random_source = StoreSource(tmp_path), random.Random(2)
    early, late = (session(number, random_source, AT, version=0) for number in range(2))
    with Writer(tmp_path, "collector") as collector, Writer(tmp_path, "trainer") as trainer:
        written(collector, *early)
        source.poll()
        written(trainer, *scores_of(late, 5, 1))
        source.poll()
        written(trainer, *scores_of(late, 9, 2))
        written(collector, *late)
        held = source.poll()
        assert held is not None
        assert held.turns.sort("seq")["trainer_step"].to_list() == [None] * 8 + [5] * 8
        same(held, whole(tmp_path))


def test_a_look_at_a_store_that_was_not_touched_finds_nothing_and_opens_no_file(tmp_path: Path):
    with Writer(tmp_path, "collector") as collector:
        written(collector, Event(at=AT, kind="retry"))
    os.utime(tmp_path / "journals" / "collector.sqlite", (1, 1))
    os.utime(tmp_path / "journals" / "collector.mark", (1, 1))
    source = StoreSource(tmp_path)
    assert source.poll() is not None
    shutil.move(tmp_path / "segments", tmp_path / "away")
    assert [source.poll() for _ in range(5)] == [None] * 5


def test_tables_that_did_not_change_stay_the_same_frames(tmp_path: Path):
    source = StoreSource(tmp_path)
    with Writer(tmp_path, "collector") as collector:
        written(collector, *session(0, random.Random(1), AT, version=0))
        before = source.poll()
        written(collector, Event(at=AT, kind="retry"))
        after = source.poll()
    assert before is not None
    assert after is not None
    assert after.events.height == 1
    assert [name for name in TABLES if getattr(before, name) is not getattr(after, name)] == ["events"]


def test_erased_turns_vanish_and_what_was_rewritten_is_read_anew(tmp_path: Path):
    source = StoreSource(tmp_path)
    with Writer(tmp_path, "collector") as collector:
        for number in range(3):
            written(collector, *session(number, random.Random(number), AT, version=0))
        held = source.poll()
        assert held is not None
        assert held.turns.height == 24
        gone = frozenset(held.turns.filter(pl.col("session_id") == "session-00000001")["turn_id"])
        collector.erase(Erasure(frozenset(["session-00000001"]), gone))
        held = source.poll()
    assert held is not None
    assert held.turns["session_id"].unique().sort().to_list() == ["session-00000000", "session-00000002"]
    same(held, whole(tmp_path))


def test_a_copy_that_nobody_may_write_is_read_and_is_not_written(tmp_path: Path):
    with Writer(tmp_path / "live", "collector") as collector:
        written(collector, *session(0, random.Random(1), AT, version=0))
        shutil.copytree(tmp_path / "live", tmp_path / "copy")
    copy = tmp_path / "copy"
    for path in (*copy.rglob("*"), copy):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(str(path) for path in copy.rglob("*") if not path.name.endswith("-shm"))
    held = whole(copy)
    after = sorted(str(path) for path in copy.rglob("*") if not path.name.endswith("-shm"))
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755)
    assert held.turns.height == 8
    assert before == after


def test_a_damaged_segment_is_named_and_the_rest_is_there(tmp_path: Path):
    with Writer(tmp_path, "collector") as collector:
        for number in range(3):
            written(collector, *session(number, random.Random(number), AT, version=0))
            collector.seal()
        written(collector, Event(at=AT, kind="retry"))
    damaged = sorted((tmp_path / "segments" / "turns").glob("collector*"))[1]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.write_bytes(content)
    held = whole(tmp_path)
    assert held.turns["session_id"].unique().sort().to_list() == ["session-00000000", "session-00000002"]
    assert held.events.height == 1
    assert len(held.damage) == 1
    assert damaged.name in held.damage[0]


def test_a_store_that_vanishes_is_an_error_and_is_read_again_when_it_is_back(tmp_path: Path):
    store = tmp_path / "store"
    with Writer(store, "collector") as collector:
        written(collector, Event(at=AT, kind="retry"))
    source = StoreSource(store)
    assert source.poll() is not None
    shutil.move(store, tmp_path / "away")
    with pytest.raises(StoreError, match="is it still there"):
        source.poll()
    shutil.move(tmp_path / "away", store)
    assert whole(store).events.height == 1


def test_a_journal_that_is_no_journal_is_an_error(tmp_path: Path):
    with Writer(tmp_path, "collector") as collector:
        written(collector, Event(at=AT, kind="retry"))
    (tmp_path / "journals" / "collector.sqlite").write_bytes(b"nothing of the kind" * 1_000)
    with pytest.raises(StoreError, match=r"collector\.sqlite"):
        StoreSource(tmp_path).poll()


def test_a_journal_that_another_one_replaced_is_read_anew(tmp_path: Path):
    for name, events in (("one", 3), ("two", 1)):
        with Writer(tmp_path / name, "collector") as collector:
            written(collector, *[Event(at=AT, kind="retry")] * events)
    source = StoreSource(tmp_path / "one")
    held = source.poll()
    assert held is not None
    assert held.events.height == 3
    for suffix in ("sqlite", "mark"):
        (tmp_path / "two" / "journals" / f"collector.{suffix}").rename(
            tmp_path / "one" / "journals" / f"collector.{suffix}"
        )
    held = source.poll()
    assert held is not None
    assert held.events.height == 1


def test_an_evaluation_is_dated_by_what_its_writer_wrote_next(tmp_path: Path):
    sample = Eval(adapter="refund", version=1, suite="held-out", task_id="a", sample=0, score=1.0)
    source = StoreSource(tmp_path)
    with Writer(tmp_path, "trainer") as trainer:
        written(trainer, Event(at=AT, kind="cycle"), sample, Event(at=AT + timedelta(seconds=9), kind="gate"), sample)
        closed = AT + timedelta(seconds=20)
        written(trainer, Reward(session_id="s", value=1.0, parts={}, mapping_sha256="0", closed_at=closed))
        held = source.poll()
        assert held is not None
        assert held.evals["written_at"].to_list() == [AT + timedelta(seconds=9), closed]
        written(trainer, sample)
        held = source.poll()
        assert held is not None
        # Nothing tells yet, but it was there when it was read.
        assert held.evals["written_at"][2] == held.read_at or abs(
            held.evals["written_at"][2] - held.read_at
        ) < timedelta(seconds=60)
    assert whole(tmp_path).evals["written_at"].to_list() == [AT + timedelta(seconds=9), closed, closed]


def test_notices_are_relied_on_until_a_write_comes_without_one(tmp_path: Path):
    with Writer(tmp_path, "collector") as collector:
        written(collector, Event(at=AT, kind="first"))
        source = StoreSource(tmp_path)
        try:
            assert source.poll() is not None
            (descriptor,) = source.signals()
            written(collector, Event(at=AT, kind="second"))
            assert select.select([descriptor], [], [], 30)[0]
            held = source.poll()
            assert held is not None
            assert held.events["kind"].to_list() == ["first", "second"]
            assert source.signals() == (descriptor,)
            # As on a network's disk, whose writes the kernel here knows nothing of.
            elsewhere = tmp_path / "elsewhere"
            elsewhere.mkdir()
            source._notices = FolderNotices([elsewhere])
            for kind in ("third", "fourth"):
                written(collector, Event(at=AT, kind=kind))
                assert source.poll() is not None
            assert source.signals() == ()
        finally:
            source.close()
