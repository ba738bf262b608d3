"""Signals of tokens by step: against sums over the tokens of each step, one by one."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest

from checks.columns import SCHEMAS, completed, empty
from checks.log import MemoryLog, split_scores
from checks.measure import MeasureType, Tools
from checks.measures.entropies import Entropies
from checks.measures.importance_weights import ImportanceWeights
from checks.measures.token_lags import TokenLags
from checks.token_signals import SCHEMA, token_signals
from tests.checks.scored_turns import ScoredTurn, native, scored_turns


# Any: fields of records.
def signals(rows: list[dict[str, Any]], versions: pl.DataFrame | None = None, batch: int = 7) -> pl.DataFrame:
    names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
    log = MemoryLog({"turns": completed(pl.DataFrame(rows, schema=names), "turns")})

    def measured(kind: MeasureType) -> pl.DataFrame:
        measure = kind(Tools())
        for whole in log.batches(list(SCHEMAS["turns"])):
            for begin in range(0, whole.turns.height, batch):
                piece = whole.turns.slice(begin, batch)
                measure.add(split_scores(piece, kind.turn_columns, kind.score_columns))
        return measure.frame()

    tables = empty("versions") if versions is None else completed(versions, "versions")
    return token_signals(*(measured(kind) for kind in (ImportanceWeights, TokenLags, Entropies)), tables)


def turns() -> list[ScoredTurn]:
    return scored_turns(np.random.default_rng(1), 5, stale=3, skewed=4, turns=4, tokens=9)


def test_every_value_is_that_of_the_tokens_of_its_step() -> None:
    by_step: dict[int, list[ScoredTurn]] = defaultdict(list)
    for turn in turns():
        by_step[turn.step].append(turn)
    found = signals([native(turn, entropies=turn.entropies) for turn in turns()])
    assert dict(found.schema) == SCHEMA
    assert found["step"].to_list() == [1, 2, 3, 4, 5]
    for row in found.iter_rows(named=True):
        of_step = by_step[row["step"]]
        d = [old - mu for turn in of_step for old, mu in zip(turn.old, turn.mu, strict=True)]
        w = [math.exp(each) for each in d]
        entropies = [value for turn in of_step for value in turn.entropies]
        mu = [value for turn in of_step for value in turn.mu]
        expected = {
            "adapter": "bot",
            "step": row["step"],
            "max_w": max(w),
            "min_w": min(w),
            "kl_mu_old": -math.fsum(d) / len(d),
            "ess": math.fsum(w) ** 2 / len(w) / math.fsum(each**2 for each in w),
            "staleness_mean": sum(turn.step - turn.version for turn in of_step) / len(of_step),
            "entropy": math.fsum(entropies) / len(entropies),
            "entropy_sampled_estimate": -math.fsum(mu) / len(mu),
        }
        assert row == {name: value if name == "adapter" else pytest.approx(value) for name, value in expected.items()}


def test_masked_tokens_and_turns_without_a_step_count_nowhere() -> None:
    first, second = turns()[:2]
    masked = native(first, loss_mask=[1, 1] + [0] * 7)
    (row,) = signals([masked, native(second, trainer_step=None)]).iter_rows(named=True)
    w = [math.exp(old - mu) for old, mu in zip(first.old[:2], first.mu[:2], strict=True)]
    assert (row["max_w"], row["min_w"]) == (pytest.approx(max(w)), pytest.approx(min(w)))
    assert row["entropy_sampled_estimate"] == pytest.approx(-sum(first.mu[:2]) / 2)
    assert row["entropy"] is None


def test_a_turn_scored_twice_counts_in_both_steps() -> None:
    (turn,) = turns()[:1]
    again = {"trainer_step": 9, "trainer_logprobs": [value - 1.0 for value in turn.mu]}
    found = signals([native(turn, more_scores=[again])])
    assert found["step"].to_list() == [turn.step, 9]
    assert found["max_w"][1] == pytest.approx(math.exp(-1.0))
    assert found["staleness_mean"].to_list() == [turn.step - turn.version, 9 - turn.version]


def test_versions_are_steps_unless_they_have_steps_of_their_own() -> None:
    rows = [native(turn, trainer_step=None, trainer_version=turn.step) for turn in turns()]
    assert signals(rows)["step"].to_list() == [1, 2, 3, 4, 5]
    of_bot = pl.DataFrame({"adapter": ["bot"], "version": [1], "optimizer_step": [40]})
    assert signals(rows, of_bot).is_empty()
    assert signals(rows, of_bot.with_columns(adapter=pl.lit("other")))["step"].to_list() == [1, 2, 3, 4, 5]


def test_what_is_scored_at_a_step_of_its_own_is_trained_in_the_next() -> None:
    rows = [native(turn) for turn in turns()]
    of_bot = pl.DataFrame({"adapter": ["bot"], "version": [0], "optimizer_step": [0]})
    assert signals(rows)["step"].to_list() == [1, 2, 3, 4, 5]
    assert signals(rows, of_bot)["step"].to_list() == [2, 3, 4, 5, 6]
    assert signals(rows, of_bot)["max_w"].to_list() == signals(rows)["max_w"].to_list()


def test_a_step_of_turns_without_numbers_tells_nothing() -> None:
    (row,) = signals([{"session_id": "s", "trainer_step": 1}]).rows()
    assert row == (None, 1, *[None] * 7)
