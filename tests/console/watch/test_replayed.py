"""What is held of an earlier time is what was there then."""

import random
from datetime import timedelta
from pathlib import Path

import polars as pl

from checks.faults.importance_weight import importance_weight
from checks.measures.parts import as_parts, part
from collector.store.registry import Registry
from collector.store.writer import Writer
from console.watch.held import Origin, Tokens
from console.watch.holding import hold
from console.watch.source.store_source import StoreSource
from tests.benchmarks.synthetic_store import scores_of, session, step_of
from tests.console.watch.fake_source import AT
from tests.console.watch.source.test_store_source import written

ORIGIN = Origin(path="store", format="store")


def test_turns_steps_and_versions_recorded_later_are_gone(tmp_path: Path):
    source = random.Random(1)
    later = AT + timedelta(hours=1)
    with Writer(tmp_path, "collector") as collector, Writer(tmp_path, "trainer") as trainer:
        early, late = session(0, source, AT, version=0), session(2, source, later, version=0)
        written(collector, *early, *late)
        written(trainer, *scores_of(early, 3, 0), step_of("refund", 3, AT + timedelta(minutes=10), source))
        written(trainer, *scores_of(late, 8, 0), step_of("refund", 8, later + timedelta(minutes=10), source))
    with Registry(tmp_path) as registry:
        registry.register_adapter("refund", tenant="acme", base_model="base", actor="test", reason="made")
    held = StoreSource(tmp_path).poll()
    assert held is not None
    then = held.until(AT + timedelta(minutes=30))
    assert then.turns["session_id"].unique().to_list() == ["session-00000000"]
    assert then.steps["step"].to_list() == [3]
    assert (then.versions.height, then.audit) == (0, ())
    assert then.registry is not None
    assert then.registry.revision == 0
    assert then.newest_at == AT + timedelta(minutes=10)
    assert then.replayed_at == AT + timedelta(minutes=30)
    assert held.until(later + timedelta(days=9999)).turns.equals(held.turns)


def test_marks_of_a_step_that_had_not_ended_are_not_there_yet():
    turns = pl.DataFrame({"session_id": ["a", "b"], "turn": [1, 1], "adapter": "bot", "trainer_step": [1, 2]})
    turns = turns.with_columns(finished_at=pl.lit(AT))
    steps = pl.DataFrame({"adapter": "bot", "step": [1, 2], "at": [AT, AT + timedelta(seconds=9)]})
    signals = pl.DataFrame({"adapter": "bot", "step": [1, 2], "max_w": [1.0, 9.0]})
    cells = pl.DataFrame({"adapter": "bot", "trainer_step": [1, 2], "trainer_version": [None, None], "n": [4, 5]})
    weights = as_parts({"cells": cells, "positions": pl.DataFrame({"position": [0]})})
    tokens = Tokens(signals=signals, share=1.0, weights=weights)
    held = hold({"turns": turns, "steps": steps}, source=ORIGIN, tokens=tokens)
    then = held.until(AT + timedelta(seconds=1))
    assert then.turns["trainer_step"].to_list() == [1, None]
    assert then.tokens.signals["max_w"].to_list() == [1.0]
    assert part(then.tokens.weights, "cells")["n"].to_list() == [4]
    assert part(then.tokens.weights, "positions")["position"].to_list() == [0]


def test_before_the_first_trained_step_the_weights_are_those_of_no_token():
    steps = pl.DataFrame({"adapter": "bot", "step": [1], "at": [AT]})
    cells = pl.DataFrame({"adapter": "bot", "trainer_step": [1], "trainer_version": [None], "n": [4]})
    counts = pl.DataFrame({"sampled": [4], "scored": [4], "mismatched": [0], "not_finite": [0]})
    weights = as_parts({"cells": cells, "turns": cells, "counts": counts})
    held = hold({"steps": steps}, source=ORIGIN, tokens=Tokens(share=1.0, weights=weights))
    then = held.until(AT - timedelta(seconds=1))
    assert then.tokens.weights.columns == ["counts"]
    found = importance_weight(then.tokens.weights, then.versions, then.steps)
    assert found.status == "no_data"


def test_what_has_no_time_is_there_at_any_time():
    held = hold({"turns": pl.DataFrame({"session_id": ["a"], "turn": [1]})}, source=ORIGIN)
    assert held.newest_at is None
    assert held.until(AT).turns.height == 1
    assert not held.is_empty
    assert hold({}, source=ORIGIN).is_empty
