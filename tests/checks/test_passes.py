"""One pass over a log: every measure sees every batch in order, and an error of one is not lost."""

from collections.abc import Collection
from typing import ClassVar

import polars as pl
import pytest

from checks.check import Check
from checks.columns import IDS
from checks.finding import Finding
from checks.log import Batch, MemoryLog
from checks.measure import Tools
from checks.suite import run


class Remembers:
    """Keeps the sessions it was shown; asks to see one of them again."""

    name: ClassVar[str] = "remembers"
    turn_columns: ClassVar[tuple[str, ...]] = ("prompt_ids",)
    score_columns: ClassVar[tuple[str, ...]] = ("trainer_step",)
    needs_tokenizer: ClassVar[bool] = False

    def __init__(self, _: Tools) -> None:
        self.seen: list[str] = []

    def add(self, batch: Batch) -> None:
        self.seen += batch.turns["session_id"].to_list()

    def again(self) -> Collection[str]:
        return [] if "again" in self.seen else ["s7"]

    def add_again(self, batch: Batch) -> None:
        self.seen += ["again", *batch.turns["session_id"].to_list()]

    def frame(self) -> pl.DataFrame:
        return pl.DataFrame({"seen": self.seen})


class AlsoRemembers(Remembers):
    """Another one, so that two are at work."""

    name: ClassVar[str] = "also-remembers"


class Fails(Remembers):
    """Breaks at the third batch."""

    name: ClassVar[str] = "fails"

    def add(self, batch: Batch) -> None:
        super().add(batch)
        if len(self.seen) == 3:
            raise ArithmeticError("the third")


class TurnByTurn(MemoryLog):
    """A batch for each turn."""

    def batches(self, columns, score_columns=(), *, sessions=None):
        for turns, scores in super().batches(columns, score_columns, sessions=sessions):
            for row in range(turns.height):
                yield Batch(turns[row : row + 1], scores.head(0))


def log(sessions: int = 20) -> TurnByTurn:
    names = [f"s{n}" for n in range(sessions)]
    adapters = [f"a-long-adapter-name-{n % 2}" for n in range(sessions)]
    frame = pl.DataFrame(
        {"session_id": names, "adapter": adapters, "prompt_ids": [[1] * n for n in range(sessions)]},
        schema_overrides={"prompt_ids": IDS},
    )
    return TurnByTurn({"turns": frame})


def check(*measures: type[Remembers], columns: tuple[str, ...] = ()) -> tuple[Check, list[tuple[pl.DataFrame, ...]]]:
    """A check that keeps the frames it is given."""
    given: list[tuple[pl.DataFrame, ...]] = []

    def keep(*frames: pl.DataFrame) -> Finding:
        given.append(frames)
        return Finding(check="keep", status="ok", summary="kept")

    return Check("keep", keep, ("turns", *(kind.name for kind in measures)), columns, measures), given


def test_each_measure_sees_the_batches_in_order_and_what_it_asks_for_again():
    kept, given = check(Remembers, AlsoRemembers)
    counted: list[int] = []
    report = run(log(), checks=[kept], on_batch=counted.append)
    ((_, first, second),) = given
    expected = [*(f"s{n}" for n in range(20)), "again", "s7"]
    assert first["seen"].to_list() == second["seen"].to_list() == expected
    assert counted == [1] * 20
    assert (report.counts.turns, report.counts.sessions, report.counts.tokens) == (20, 20, 190)


def test_the_narrow_turns_keep_their_order_and_their_types():
    kept, given = check(columns=("adapter", "reward", "started_at", "place"))
    run(log(3), checks=[kept])
    ((turns,),) = given
    assert turns.select("session_id", "turn", "adapter", "reward", "prompt_tokens", "completion_tokens").rows() == [
        ("s0", 1, "a-long-adapter-name-0", None, 0, None),
        ("s1", 1, "a-long-adapter-name-1", None, 1, None),
        ("s2", 1, "a-long-adapter-name-0", None, 2, None),
    ]
    assert [turns.schema[name] for name in ("session_id", "adapter", "place")] == [pl.String] * 3


class ScoresApart(MemoryLog):
    """Scores in a table of their own: the second turn has two, the third none."""

    def batches(self, columns, score_columns=(), *, sessions=None):
        for turns, _ in super().batches(columns, score_columns, sessions=sessions):
            scores = pl.DataFrame(
                {"row": [0, 1, 1], "trainer_step": [None, 5, 6], "trainer_version": [None, 4, 5]},
                schema_overrides={"row": pl.UInt32, "trainer_step": pl.Int64, "trainer_version": pl.Int64},
            )
            yield Batch(turns, scores.select("row", *score_columns))


def test_the_narrow_turns_say_what_their_first_score_says_of_the_trainer_unless_they_say_it():
    kept, given = check(columns=("trainer_step", "trainer_version"))
    turns = pl.DataFrame(
        {"session_id": ["s", "t", "u"], "trainer_step": [None, None, 9], "trainer_version": [1, 2, None]}
    )
    run(ScoresApart({"turns": turns}), checks=[kept])
    ((narrow,),) = given
    assert narrow.select("session_id", "trainer_step", "trainer_version").rows() == [
        ("s", None, 1),
        ("t", 5, 2),
        ("u", 9, None),
    ]


def test_an_error_of_a_measure_is_raised():
    kept, _ = check(Remembers, Fails)
    with pytest.raises(ArithmeticError, match="the third"):
        run(log(), checks=[kept])
