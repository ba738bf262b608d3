"""What tokens tell, cut down to one adapter or to a time: where nothing is left, the checks see a log without any."""

import argparse
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from checks.measures.parts import as_parts, narrowed, part
from collector.errors import UserError
from console.commands import watch
from console.watch.frame.typed_time import step_asked, typed_time
from console.watch.options import Options
from console.watch.views.signals import SignalsAsk, SignalsBuilder
from tests.console.watch.drill.held_log import held_of, log_of, turn
from tests.console.watch.fake_feed import NOW, no_log

LOGPROBS = {"completion_ids": [5, 6], "sampled_logprobs": [-0.5, -0.6], "trainer_logprobs": [-0.5, -0.7]}
TRAINED = {**LOGPROBS, "prompt_ids": [1], "trainer_step": 2, "trainer_version": 2, "adapter_version": 1}


def test_a_part_that_is_left_empty_is_not_there_and_nothing_was_counted() -> None:
    cells = pl.DataFrame({"adapter": ["a", "b"], "n": [4, 5]})
    parts = as_parts({"counts": pl.DataFrame({"scored": [9]}), "cells": cells, "bad": pl.DataFrame({"turn": [1]})})
    one = narrowed(parts, "adapter", lambda rows: rows.filter(pl.col("adapter") == "b"))
    assert [part(one, name).to_dicts() for name in one.columns] == [
        [{"scored": 9}], [{"adapter": "b", "n": 5}], [{"turn": 1}],
    ]  # fmt: skip
    none = narrowed(parts, "adapter", lambda rows: rows.filter(pl.col("adapter") == "c"))
    assert none.columns == ["counts"]
    assert part(none, "counts").to_dicts() == [{"scored": 0}]


def test_signals_of_a_time_before_anything_was_trained_are_not_observed() -> None:
    steps = [{"adapter": "bot", "step": step, "at": NOW + timedelta(seconds=step)} for step in (1, 2)]
    held = held_of(log_of([turn(adapter="bot", **TRAINED)], steps=steps))
    of = {lane.check: lane for lane in SignalsBuilder().build(held, SignalsAsk(), no_log).lanes}
    assert of["importance-weight"].status not in (None, "no_data")
    before = SignalsBuilder().build(held.until(NOW - timedelta(days=1)), SignalsAsk(), no_log)
    assert {lane.status for lane in before.lanes} == {"no_data"}


def test_signals_of_an_adapter_without_a_trained_token_are_not_those_of_another() -> None:
    steps = [{"adapter": name, "step": step, "at": NOW, "grad_norm": 1.0} for name in ("bot", "new") for step in (1, 2)]
    held = held_of(log_of([turn(adapter="bot", **TRAINED)], steps=steps))
    of = {lane.check: lane for lane in SignalsBuilder().build(held, SignalsAsk(adapter="new"), no_log).lanes}
    assert of["importance-weight"].status == "no_data"


@pytest.mark.parametrize(
    "text", ["-99999999999999d", "-999999d", "0001-01-01T00:00+14:00", "25:00", "12:59:59.9999999", "@" + "9" * 5000]
)
def test_what_is_no_time_is_refused_in_words(text: str) -> None:
    assert step_asked(text) is None
    with pytest.raises(UserError, match="is no time, expected"):
        typed_time(text, NOW)


def test_a_value_that_begins_with_a_dash_reaches_the_console_of_the_browser() -> None:
    parser = argparse.ArgumentParser()
    watch.add_arguments(parser)
    words = watch._words(Options(path=Path("/s"), at="-5m", adapter="-bot"), "256")
    assert vars(parser.parse_args(words))["at"] == "-5m"
    assert vars(parser.parse_args(words))["adapter"] == "-bot"
    assert vars(parser.parse_args(words))["color"] == "256"
