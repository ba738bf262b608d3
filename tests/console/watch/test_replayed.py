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


def evals_then(minutes: float, evals: dict[str, list[object]], **frames: pl.DataFrame) -> list[object]:
    """The scores of the evaluations of a log that stand there so many minutes later."""
    table = pl.DataFrame({"task_id": ["t"] * len(evals["score"]), **evals})
    held = hold({"evals": table, **frames}, source=Origin(path="log.jsonl", format="native"))
    return held.until(AT + timedelta(minutes=minutes)).evals["score"].to_list()


def steps_at(minutes: dict[int, int | None], adapter: str | None = "bot") -> pl.DataFrame:
    """Steps by when they ended."""
    ended = [None if minute is None else AT + timedelta(minutes=minute) for minute in minutes.values()]
    return pl.DataFrame(
        {"adapter": [adapter] * len(minutes), "step": [*minutes], "at": ended},
        schema_overrides={"adapter": pl.String, "at": pl.Datetime("us", "UTC")},
    )


def test_an_evaluation_without_a_time_is_there_when_its_step_has_ended():
    evals: dict[str, list[object]] = {"adapter": ["bot"] * 4, "step": [0, 4, 6, 9], "score": [0.0, 0.4, 0.6, 0.9]}
    steps = steps_at({1: 1, 2: 2, 4: 4, 5: 5, 7: 7})
    # Of step 0 and of step 6 there is no record: the one after it tells that they had ended. None tells it of step 9.
    found = {minutes: evals_then(minutes, evals, steps=steps) for minutes in (0, 1, 3.9, 4, 6, 7, 999)}
    assert found == {
        0: [],
        1: [0.0],
        3.9: [0.0],
        4: [0.0, 0.4],
        6: [0.0, 0.4],
        7: [0.0, 0.4, 0.6],
        999: [0.0, 0.4, 0.6],
    }


def test_an_evaluation_of_a_version_is_there_when_that_was_registered():
    registered = [AT + timedelta(minutes=5), None]
    versions = pl.DataFrame({"adapter": "bot", "version": [1, 2], "optimizer_step": [3, 6], "created_at": registered})
    evals: dict[str, list[object]] = {"adapter": ["bot"] * 3, "version": [1, 2, 3], "score": [0.1, 0.2, 0.3]}
    steps = steps_at({1: 1, 3: 3, 6: 6})
    # Version 2 is of step 6; of version 3 nothing is known but its number, which stands for a step then.
    found = {minutes: evals_then(minutes, evals, steps=steps, versions=versions) for minutes in (3, 5, 6)}
    assert found == {3: [0.3], 5: [0.1, 0.3], 6: [0.1, 0.2, 0.3]}


def test_an_evaluation_is_dated_by_steps_of_its_own_adapter():
    other = steps_at({4: 1}, "other")
    evals: dict[str, list[object]] = {"adapter": ["bot", "other"], "step": [4, 4], "score": [0.4, 0.5]}
    assert evals_then(2, evals, steps=pl.concat([steps_at({4: 4}), other])) == [0.5]
    # One that names no adapter may be of any: it is there when all of them had ended that step.
    unnamed: dict[str, list[object]] = {"step": [4], "score": [0.4]}
    assert evals_then(2, unnamed, steps=pl.concat([steps_at({4: 4}), other])) == []
    assert evals_then(4, unnamed, steps=pl.concat([steps_at({4: 4}), other])) == [0.4]
    assert evals_then(4, unnamed, steps=steps_at({4: 4}, None)) == [0.4]


def test_an_evaluation_of_which_nothing_tells_when_it_was_is_in_no_replay():
    evals: dict[str, list[object]] = {"adapter": ["bot"] * 3, "step": [4, None, 1], "score": [0.4, 0.5, 0.1]}
    assert evals_then(9999, evals) == []
    # A step without a time tells of none before it.
    assert evals_then(9999, evals, steps=steps_at({1: 1, 4: None})) == [0.1]


def test_an_evaluation_with_a_time_of_its_own_needs_no_step():
    written = [AT + timedelta(minutes=2), None]
    evals: dict[str, list[object]] = {
        "adapter": ["bot"] * 2,
        "step": [9, 1],
        "score": [0.9, 0.1],
        "written_at": written,
    }
    steps = steps_at({1: 3})
    assert [evals_then(minutes, evals, steps=steps) for minutes in (1, 2, 3)] == [[], [0.9], [0.9, 0.1]]
