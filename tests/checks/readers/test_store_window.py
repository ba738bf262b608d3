"""A window over a live store: what is in it, that it moves on, and that what has left it is not read again."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from checks.readers.event_tail import EventTail
from checks.readers.store_window import StoreWindow, Window
from collector.records import Eval, Event, Feedback, Record, Reward, Score, Span, Step, Turn, VersionSpan
from collector.store.reader import Reader
from collector.store.snapshot import Snapshot
from collector.store.writer import Writer

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


def turn(number: int, at: float, *, session: str = "s", finished: bool = True) -> Turn:
    """A turn that extends the one before in its session."""
    return Turn(
        turn_id=f"{session}-{number}",
        session_id=session,
        turn=number,
        parent_turn_id=f"{session}-{number - 1}" if number > 1 else None,
        link="extends" if number > 1 else "root",
        tenant="t",
        api="chat",
        started_at=second(at - 1),
        finished_at=second(at) if finished else None,
        prompt_ids=list(range(10 * number)),
        completion_ids=list(range(10 * number, 10 * number + 10)),
        sampled_logprobs=[-0.5] * 10,
        weight_versions=[VersionSpan(version=1, start=0, end=10)],
    )


def write(store: Path, *records: Record, writer: str = "collector", seal: bool = False) -> None:
    with Writer(store, writer) as opened:
        for record in records:
            opened.append(record).result(10)
        if seal:
            opened.seal()


def seen(store: Path, window: StoreWindow, now: float) -> dict[str, list[Any]]:
    """What a window holds: the numbers of turns, of scored ones, and the rest of each table by a telling column."""
    with Reader(store).snapshot() as snapshot:
        log = window.log(snapshot, second(now))
        turns: list[int] = []
        scored: list[int] = []
        for batch in log.batches(["prompt_ids"], ["trainer_step"]):
            turns += batch.turns["turn"].to_list()
            scored += [batch.turns["turn"][row] for row in batch.scores["row"].to_list()]
            assert batch.turns["prompt_ids"].list.len().to_list() == [10 * n for n in batch.turns["turn"].to_list()]
        assert log.source().unreadable == 0
        tables = {"steps": "step", "spans": "kind", "events": "kind", "feedback": "feedback_id", "evals": "task_id"}
        rest = {table: log.table(table)[column].to_list() for table, column in tables.items()}
        return {"turns": turns, "scores": scored, "rewards": log.table("rewards")["value"].to_list()} | rest


@pytest.mark.parametrize("seal", [False, True])
def test_a_window_of_seconds_holds_the_turns_that_ended_in_it_and_what_is_theirs(tmp_path: Path, seal: bool) -> None:
    write(tmp_path, *[turn(number, 10 * number) for number in range(1, 7)], seal=seal)
    write(tmp_path, turn(1, 5, session="old"), turn(7, 38, finished=False), seal=seal)
    about = [
        Score(turn_id="s-2", trainer_step=1, trainer_logprobs=[-0.5] * 10),
        Score(turn_id="s-5", trainer_step=1, trainer_logprobs=[-0.5] * 10),
        Reward(session_id="old", value=0.0, parts={}, mapping_sha256="", closed_at=second(40)),
        Reward(session_id="s", value=1.0, parts={}, mapping_sha256="", closed_at=second(40)),
        Step(adapter="a", step=1, at=second(20)),
        Step(adapter="a", step=2, at=second(45)),
        Span(role="trainer", kind="wait", from_=second(0), to=second(29)),
        Span(role="trainer", kind="step", from_=second(0), to=second(30)),
        Eval(version=0, suite="x", task_id="task", sample=0),
        Event(at=second(1), kind="early"),
        Event(at=second(1), kind="compaction", session_id="s", turn=4),
        Event(at=second(50), kind="late"),
        Feedback(feedback_id="f4", tenant="t", turn_id="s-4", kind="thumb", at=second(41)),
        Feedback(feedback_id="f1", tenant="t", turn_id="s-1", kind="thumb", at=second(50)),
        Feedback(feedback_id="fs", tenant="t", session_id="s", kind="thumb", at=second(50)),
        Feedback(feedback_id="fo", tenant="t", session_id="old", kind="thumb", at=second(50)),
    ]
    write(tmp_path, *about, writer="trainer", seal=seal)
    # At 60 s the last 30 s begin at 30: turns 3 (ended at 30) to 6. Turn 7 never ended, it began at 37.
    assert seen(tmp_path, StoreWindow(tmp_path, Window(seconds=30)), 60) == {
        "turns": [3, 4, 5, 6, 7],
        "scores": [5],
        "rewards": [1.0],
        "steps": [2],
        "spans": ["step"],
        "events": ["compaction", "late"],
        "feedback": ["f4", "fs"],
        "evals": ["task"],
    }


def test_a_window_of_turns_holds_the_last_ones_by_their_end(tmp_path: Path) -> None:
    # Written in another order than they ended: turn 1 ended last.
    write(tmp_path, turn(2, 20), turn(3, 30), turn(4, 40), turn(1, 100))
    write(
        tmp_path, Step(adapter="a", step=1, at=second(28)), Step(adapter="a", step=2, at=second(29)), writer="trainer"
    )
    found = seen(tmp_path, StoreWindow(tmp_path, Window(turns=3)), 100)
    assert found["turns"] == [3, 4, 1]
    # The oldest of them began at 29.
    assert found["steps"] == [2]
    everything = seen(tmp_path, StoreWindow(tmp_path, Window(turns=5)), 100)
    assert (everything["turns"], everything["steps"]) == ([2, 3, 4, 1], [1, 2])


def test_a_window_moves_on_and_reads_nothing_again_that_has_left_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = StoreWindow(tmp_path, Window(seconds=25))
    write(tmp_path, *[turn(number, 10 * number) for number in range(1, 5)], seal=True)
    assert seen(tmp_path, window, 40)["turns"] == [2, 3, 4]
    write(tmp_path, turn(5, 50), turn(6, 60), seal=True)
    assert seen(tmp_path, window, 60)["turns"] == [4, 5, 6]
    asked: list[dict[str, int]] = []
    batches = Snapshot.batches

    def noted(self: Snapshot, table: str, **options: Any) -> Any:
        if table == "turns":
            asked.append(dict(options.get("since") or {}))
        return batches(self, table, **options)

    monkeypatch.setattr(Snapshot, "batches", noted)
    # 70 - 25 = 45: turn 5 is the first. What was known before is that nothing below turn 4 may be in it.
    assert seen(tmp_path, window, 70)["turns"] == [5, 6]
    assert asked[0] == {"collector": 4}
    assert asked[-1] == {"collector": 5}
    assert seen(tmp_path, window, 1000)["turns"] == []
    write(tmp_path, turn(7, 1010))
    assert seen(tmp_path, window, 1011)["turns"] == [7]


def test_a_window_of_an_empty_store_is_empty(tmp_path: Path) -> None:
    Writer(tmp_path, "collector").close()
    for window in (Window(seconds=30), Window(turns=5)):
        assert not any(seen(tmp_path, StoreWindow(tmp_path, window), 0).values())


@pytest.mark.parametrize(
    ("window", "name"),
    [
        (Window(seconds=3600), "the last 1 h"),
        (Window(seconds=5400), "the last 90 min"),
        (Window(seconds=86400), "the last 1 d"),
        (Window(seconds=2.5), "the last 2.5 s"),
        (Window(turns=12000), "the last 12,000 turns"),
    ],
)
def test_a_window_has_a_name(window: Window, name: str) -> None:
    assert window.name == name


def test_each_event_of_the_kinds_asked_for_comes_once_and_in_order(tmp_path: Path) -> None:
    tail = EventTail()

    def new() -> list[Event]:
        with Reader(tmp_path).snapshot(["events"]) as snapshot:
            return tail.new(snapshot, ("a", "b"))

    first = [Event(at=second(5), kind="a", detail={"x": [1, None]}), Event(at=second(1), kind="other")]
    write(tmp_path, *first, seal=True)
    write(tmp_path, Event(at=second(3), kind="b"), writer="console")
    assert new() == [Event(at=second(3), kind="b"), first[0]]
    assert new() == []
    write(tmp_path, Event(at=second(2), kind="b", actor="ana"), writer="console")
    assert new() == [Event(at=second(2), kind="b", actor="ana")]
