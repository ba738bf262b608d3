"""A session under the glass while the store goes on: what came shows, and what nothing came to is not read again."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checks.log import Batch, MemoryLog
from checks.measure import Tools
from checks.measures.parts import as_parts
from collector.records import Feedback, Reward, Score
from collector.store.writer import Writer
from console.watch.held import Held, Tokens
from console.watch.source.store_source import StoreSource
from console.watch.trace.trace import Basis, RecentTraces, Trace
from console.watch.views.token import TOPIC, TokenAsk, TokenView
from tests.console.watch.drill.held_log import held_of, log_of
from tests.console.watch.drill.held_log import turn as row
from tests.console.watch.fake_feed import NOW
from tests.trainer.batch.captured import NOON, turn


class Counted(MemoryLog):
    """A log that counts how often it was read."""

    reads = 0

    def opened(self) -> MemoryLog:
        """Itself."""
        return self

    def batches(
        self, columns: Sequence[str], score_columns: Sequence[str] = (), *, sessions: Collection[str] | None = None
    ) -> Iterator[Batch]:
        """Counts once and reads."""
        self.reads += 1
        return super().batches(columns, score_columns, sessions=sessions)


class Followed:
    """A store and the screen of one turn, looked at again after each record."""

    def __init__(self, store: Path, writer: Writer) -> None:
        self._source = StoreSource(store)
        self._writer = writer

    def after(self, *records: Any) -> TokenView:
        """The view once these were written."""
        for future in [self._writer.append(record) for record in records]:
            future.result(30)
        held = self._source.poll()
        assert held is not None
        view = TOPIC.build(held, TokenAsk(session_id="s", turn=1), self._source.log)
        assert isinstance(view, TokenView)
        return view


def score(step: int, logprob: float) -> Score:
    """Of the turn's two tokens."""
    return Score(turn_id="s/1", adapter="a", trainer_step=step, trainer_logprobs=[logprob] * 2, advantages=[0.5] * 2)


def test_a_turn_that_is_open_shows_what_comes_of_it_and_nothing_else_has_to_come(tmp_path: Path):
    with Writer(tmp_path, "trainer") as writer:
        store = Followed(tmp_path, writer)
        view = store.after(turn("s"))
        assert (view.scorings, view.rows[-1].pi_old, view.rows[-1].advantage) == ((), None, None)
        view = store.after(score(3, -1.0))
        assert [each.step for each in view.scorings] == [3]
        assert (view.rows[-1].pi_old, view.rows[-1].pi_now, view.rows[-1].advantage) == (-1.0, None, 0.5)
        # A second score of the same turn changes nothing that is held but how many scores there are.
        view = store.after(score(5, -2.0))
        assert [each.step for each in view.scorings] == [3, 5]
        # It is shown first, since the weights are farther off in it: -2 + 0.5 against -1 + 0.5.
        assert (view.chosen, view.rows[-1].pi_old, view.rows[-1].log_w) == (1, -2.0, -1.5)
        assert view.credit is not None
        assert view.credit.given == ()
        given = Reward(session_id="s", turn_id="s/1", value=0.75, parts={}, mapping_sha256="", closed_at=NOON)
        view = store.after(given)
        assert view.credit is not None
        assert [each.value for each in view.credit.given] == [0.75]
        view = store.after(Feedback(feedback_id="f", tenant="acme", turn_id="s/1", kind="thumb", value=1.0, at=NOON))
        assert view.credit is not None
        assert [each.value for each in view.credit.judged] == [1.0]


TURNS = [
    row(1, prompt_ids=[1], completion_ids=[2], sampled_logprobs=[-1.0], trainer_logprobs=[-1.5], trainer_step=4),
    row(1, session_id="other", prompt_ids=[1], completion_ids=[2]),
]
STEPS = [{"step": step, "at": NOW + timedelta(seconds=step)} for step in (4, 5)]
NO_TOOLS = Tools()


def counted() -> Counted:
    """The turns and steps as a log."""
    log = log_of(TURNS, steps=STEPS)
    return Counted({name: log.table(name) for name in ("turns", "steps")})


def with_more(frame: pl.DataFrame, **columns: Any) -> pl.DataFrame:
    """One row more, of which only some columns are known."""
    return pl.concat([frame, pl.DataFrame([columns], schema_overrides=frame.schema)], how="diagonal_relaxed")


def with_cells(held: Held, tokens: int) -> Held:
    """With other weights folded."""
    cells = pl.DataFrame({"adapter": ["bot"], "n": [tokens]})
    return held._replace(tokens=Tokens(weights=as_parts({"cells": cells})))


CHANGES: dict[str, tuple[Callable[[Held], Held], bool]] = {
    "turns": (lambda held: held._replace(turns=held.turns.with_columns(trainer_step=pl.lit(5, pl.Int64))), True),
    "scores": (lambda held: held._replace(scores=1), True),
    "events": (lambda held: held._replace(events=with_more(held.events, session_id="s", kind="compaction")), True),
    "versions": (lambda held: held._replace(versions=with_more(held.versions, adapter="bot", version=1)), False),
    "cells": (lambda held: with_cells(held, 3), False),
    "then": (lambda held: held.until(NOW + timedelta(seconds=4)), True),
}
"""What changes each part of what a trace is made of, and whether the session is read again for it."""


@pytest.mark.parametrize("part", Basis._fields)
def test_whatever_a_trace_is_made_of_makes_another_one(part: str):
    change, read = CHANGES[part]
    log = counted()
    held, recent = with_cells(held_of(log), 2), RecentTraces()
    before_reads = log.reads

    def traced(held: Held) -> Trace:
        found = recent.of(held, "s", log.opened, NO_TOOLS)
        assert found is not None
        return found

    first = traced(held)
    again = traced(change(held))
    assert getattr(again.basis, part) is not getattr(first.basis, part)
    assert again is not first
    assert log.reads - before_reads == 1 + read
    assert again.breaks is first.breaks or read


def test_what_comes_of_other_sessions_leaves_a_trace_as_it_is():
    log = counted()
    held, recent = held_of(log), RecentTraces()
    first = recent.of(held, "s", log.opened, NO_TOOLS)
    reads = log.reads
    other = held._replace(
        turns=with_more(held.turns, session_id="third", turn=1),
        steps=with_more(held.steps, step=6),
        events=with_more(held.events, session_id="other", kind="note"),
        feedback=with_more(held.feedback, feedback_id="f", session_id="s"),
    )
    assert recent.of(other, "s", log.opened, NO_TOOLS) is first
    assert log.reads == reads
