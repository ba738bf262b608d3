"""Counters and throughput."""

import time
from pathlib import Path

import msgspec
import pytest

from trainer.engine.load import THROUGHPUT_WINDOW_S, Totals
from trainer.engine.running import load_engine
from trainer.engine_config import EngineConfig


def test_throughput_counts_the_last_seconds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    totals = Totals()
    totals.count_tokens(40)
    now = 104.0
    totals.count_tokens(10)
    assert totals.tokens_per_second() == (40 + 10) / THROUGHPUT_WINDOW_S
    now = 105.5
    assert totals.tokens_per_second() == 10 / THROUGHPUT_WINDOW_S
    assert totals.generated_tokens == 50


def test_an_old_picture_shows_no_throughput(llama: Path) -> None:
    load = msgspec.structs.replace(load_engine(EngineConfig(), str(llama)).load, at=50.0, tokens_per_second=3.0)
    assert load.aged(50.0 + THROUGHPUT_WINDOW_S).tokens_per_second == 3.0
    assert load.aged(50.1 + THROUGHPUT_WINDOW_S).tokens_per_second == 0.0
