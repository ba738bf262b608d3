"""Numbers that no measure can hold are infinite in every frame that checks read."""

import polars as pl

from checks.bounded import LARGEST, bounded
from checks.log import MemoryLog
from checks.readers.batching import frame_of
from checks.rows import ScoreRow, StepRow, TurnRow

INF = float("inf")


def test_only_what_is_beyond_becomes_infinite() -> None:
    values = [1.0, None, -1e308, 1e308, LARGEST, -LARGEST, INF, -INF, 0.0]
    expected = [1.0, None, -INF, INF, LARGEST, -LARGEST, INF, -INF, 0.0]
    lists = [values, None, [], [2.0]]
    frame = bounded(pl.DataFrame({"value": values, "texts": "a"}))
    assert frame["value"].to_list() == expected
    assert bounded(pl.DataFrame({"lists": lists}))["lists"].to_list() == [expected, None, [], [2.0]]


def test_nan_stays_what_it_is() -> None:
    frame = bounded(pl.DataFrame({"value": [float("nan"), 1e300], "lists": [[float("nan")], [-1e300]]}))
    assert frame.select(pl.col("value").is_nan()).to_series().to_list() == [True, False]
    assert frame.select(pl.col("lists").list.first().is_nan()).to_series().to_list() == [True, False]


def test_float32_lists_stay_as_they_are() -> None:
    least = -3.4028234663852886e38
    frame = pl.DataFrame({"lists": [[least]]}, schema={"lists": pl.List(pl.Float32)})
    assert bounded(frame)["lists"].to_list() == [[least]]


def test_rows_of_readers_and_frames_of_others_are_bounded_alike() -> None:
    lists = {name: [-1e200] for name in ("sampled_logprobs", "trainer_logprobs", "advantages")}
    of_rows = frame_of([TurnRow(session_id="s", reward=1e200, **lists)], "turns")
    assert of_rows.select("reward", *lists).rows() == [(INF, [-INF], [-INF], [-INF])]
    given = pl.DataFrame({"session_id": "s", "reward": 1e200, **{name: [value] for name, value in lists.items()}})
    batch = next(MemoryLog({"turns": given}).batches(["reward", "sampled_logprobs"], ["trainer_logprobs"]))
    assert batch.turns.select("reward", "sampled_logprobs").rows() == [(INF, [-INF])]
    assert batch.scores["trainer_logprobs"].to_list() == [[-INF]]
    assert frame_of([StepRow(step=1, grad_norm=1e200)], "steps")["grad_norm"].to_list() == [INF]


def test_further_scores_are_bounded_too() -> None:
    row = TurnRow(
        session_id="s",
        turn=1,
        trainer_logprobs=[-1.0],
        more_scores=[ScoreRow(trainer_step=2, trainer_logprobs=[-1e200])],
    )
    batch = next(MemoryLog({"turns": frame_of([row], "turns")}).batches([], ["trainer_logprobs"]))
    assert batch.scores["trainer_logprobs"].to_list() == [[-1.0], [-INF]]
