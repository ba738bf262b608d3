"""A version is routed to only where every worker has it loaded and its newest proofs hold."""

import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from collector.records import Version
from trainer.adapter_rules import Refused
from trainer.served_versions import refuse_unloaded, refuse_unproved

AT = datetime(2026, 1, 2, tzinfo=UTC)
BOT_3 = Version(adapter="bot", version=3, state="retired", created_at=AT, changed_at=AT)


def events(*told: tuple[int, str, str, int, dict[str, str]]) -> pl.DataFrame:
    """Minute, kind, adapter, version and detail of each."""
    rows = [(AT + timedelta(minutes=at), kind, name, n, json.dumps(detail)) for at, kind, name, n, detail in told]
    schema = {
        "at": pl.Datetime("us", "UTC"),
        "kind": pl.String,
        "adapter": pl.String,
        "version": pl.Int64,
        "detail": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_every_worker_must_have_it_loaded() -> None:
    refuse_unloaded(BOT_3, {"http://a": {"bot@3"}, "http://b": {"bot@2", "bot@3"}})
    with pytest.raises(Refused, match="bot@3 is not loaded by http://b, expected"):
        refuse_unloaded(BOT_3, {"http://a": {"bot@3"}, "http://b": {"bot@33"}})
    with pytest.raises(Refused, match="give --engine URL"):
        refuse_unloaded(BOT_3, {})


def test_the_newest_proof_of_each_worker_decides() -> None:
    good, bad = {"verdict": "proved", "worker": "a"}, {"verdict": "refuted", "worker": "a"}
    refuse_unproved(BOT_3, events((1, "proof", "bot", 3, bad), (2, "proof", "bot", 3, good)))
    with pytest.raises(Refused, match="the last proof of bot@3 on a says refuted"):
        refuse_unproved(BOT_3, events((2, "proof", "bot", 3, bad), (1, "proof", "bot", 3, good)))
    other = {"verdict": "undecided", "worker": "b"}
    with pytest.raises(Refused, match="the last proof of bot@3 on b says undecided"):
        refuse_unproved(BOT_3, events((1, "proof", "bot", 3, other), (2, "proof", "bot", 3, good)))
    with pytest.raises(Refused, match="the last probe of bot@3 says refuted"):
        refuse_unproved(BOT_3, events((1, "proof", "bot", 3, good), (2, "probe", "bot", 3, {"verdict": "refuted"})))


def test_proofs_of_others_prove_nothing() -> None:
    good = {"verdict": "proved"}
    for told in (
        [],
        [(1, "proof", "bot", 2, good)],
        [(1, "proof", "cat", 3, good)],
        [(1, "alert", "bot", 3, good)],
        [(1, "probe", "bot", 3, good)],
    ):
        with pytest.raises(Refused, match="never proved"):
            refuse_unproved(BOT_3, events(*told))
