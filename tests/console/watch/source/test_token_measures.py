"""Tokens read piece by piece, and again once they are scored, measure as one pass over the whole store does."""

import random
from collections.abc import Mapping
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

from checks.measure import Tools
from checks.measures.parts import part
from checks.readers.native_log import NativeLog
from checks.readers.open_log import open_log
from checks.token_signals import token_signals
from collector.records import Score
from collector.store.reader import Reader
from collector.store.writer import Writer
from console.watch.source.token_measures import KINDS, SCORE_COLUMNS, TURN_COLUMNS, TokenMeasures
from console.watch.source.token_tables import Known, Portion
from tests.benchmarks.synthetic_store import scores_of, session
from tests.console.watch.fake_source import AT
from tests.console.watch.source.test_store_source import written

NO_VERSIONS = pl.DataFrame(schema={"adapter": pl.String, "version": pl.Int64, "optimizer_step": pl.Int64})
_WEIGHTS, _LAGS, _ENTROPIES = (kind.name for kind in KINDS)


class Following:
    """Reads a store piece by piece."""

    def __init__(self, store: Path) -> None:
        self._reader = Reader(store)
        self._measures = TokenMeasures()
        self._known = Known()

    def read(self) -> Mapping[str, pl.DataFrame]:
        """What is new, and what is measured then."""
        with self._reader.snapshot() as snapshot:
            portion = Portion(snapshot, self._known)
            for batch in NativeLog(portion).batches(TURN_COLUMNS, SCORE_COLUMNS):
                self._measures.add(batch, portion.late)
        self._known = portion.known
        return self._measures.frames()


def once(store: Path) -> Mapping[str, pl.DataFrame]:
    """One pass over all of it."""
    measures = {kind.name: kind(Tools()) for kind in KINDS}
    for batch in open_log(store).batches(TURN_COLUMNS, SCORE_COLUMNS):
        for measure in measures.values():
            measure.add(batch)
    return {name: measure.frame() for name, measure in measures.items()}


def signals(frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """By step."""
    return token_signals(frames[_WEIGHTS], frames[_LAGS], frames[_ENTROPIES], NO_VERSIONS)


def agree(followed: Mapping[str, pl.DataFrame], passed: Mapping[str, pl.DataFrame]) -> None:
    """Signals and counts are the same, and so is every sum."""
    assert_frame_equal(signals(followed), signals(passed), rel_tol=1e-12)
    for name in followed:
        # How many candidates for evidence there were depends on how the log fell into batches.
        counts = [part(frames[name], "counts").select(pl.exclude("candidates")) for frames in (followed, passed)]
        assert_frame_equal(*counts, check_dtypes=False)
    for name, of, keys in (
        (_WEIGHTS, "cells", ["adapter", "trainer_step"]),
        (_LAGS, "cells", ["adapter", "trainer_step"]),
        (_ENTROPIES, "steps", ["adapter", "trainer_step"]),
    ):
        one, other = (part(frames[name], of).sort(keys) for frames in (followed, passed))
        assert_frame_equal(one, other, rel_tol=1e-12, check_dtypes=False)


def test_turns_that_are_scored_later_count_once(tmp_path: Path):
    source = random.Random(3)
    with Writer(tmp_path, "collector") as collector, Writer(tmp_path, "trainer") as trainer:
        turns = [session(number, source, AT, version=0) for number in range(4)]
        written(collector, *turns[0], *turns[1])
        following = Following(tmp_path)
        assert signals(following.read()).is_empty()
        written(trainer, *scores_of(turns[0], 5, 0))
        found = following.read()
        # Scored 0.001 above what was sampled, all 8 x 48 tokens.
        assert signals(found).select("adapter", "step", "entropy").rows() == [("refund", 5, 0.6000000238418579)]
        agree(found, once(tmp_path))
        written(collector, *turns[2])
        collector.seal()
        written(trainer, *scores_of(turns[2], 6, 0), *scores_of(turns[1], 6, 0))
        trainer.seal()
        agree(following.read(), once(tmp_path))
        written(collector, *turns[3])
        agree(following.read(), once(tmp_path))


def test_a_turn_that_is_scored_twice_is_summed_as_one_pass_sums_it(tmp_path: Path):
    source = random.Random(4)
    with Writer(tmp_path, "collector") as collector, Writer(tmp_path, "trainer") as trainer:
        turns = session(0, source, AT, version=0)
        written(collector, *turns)
        following = Following(tmp_path)
        following.read()
        written(trainer, *scores_of(turns, 5, 0))
        following.read()
        written(trainer, *scores_of(turns[:3], 6, 0))
        agree(following.read(), once(tmp_path))
        written(trainer, *scores_of(turns[:1], 7, 0), *scores_of(turns[1:2], 7, 0))
        agree(following.read(), once(tmp_path))


def test_log_probabilities_above_zero_are_evidence_once(tmp_path: Path):
    with Writer(tmp_path, "collector") as collector, Writer(tmp_path, "trainer") as trainer:
        (turn, *_) = session(0, random.Random(5), AT, version=0)
        broken = type(turn)(
            **{**{name: getattr(turn, name) for name in turn.__struct_fields__}, "sampled_logprobs": [0.5] * 48}
        )
        written(collector, broken)
        following = Following(tmp_path)
        following.read()
        ids = [-0.25] * 48
        written(trainer, Score(turn_id=turn.turn_id, adapter="refund", trainer_step=1, trainer_logprobs=ids))
        found = following.read()
    assert part(found[_ENTROPIES], "above").select("turn", "column", "tokens").rows() == [(1, "sampled_logprobs", 48)]
    agree(found, once(tmp_path))
