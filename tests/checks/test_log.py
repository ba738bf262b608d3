"""Turns with their scores: several of one turn, none of another."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from checks.columns import SCHEMAS
from checks.log import MemoryLog, split_scores
from checks.readers.batching import frame_of
from checks.readers.file_log import FileLog
from checks.readers.format import Format, Unit
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, ScoreRow, TurnRow
from collector.errors import UserError


def test_a_turn_that_was_scored_twice_has_two_scores_next_to_each_other() -> None:
    more = [ScoreRow(trainer_step=7, trainer_version=6, trainer_logprobs=[-3.0])]
    turns = [
        TurnRow(session_id="a", turn=1, adapter="x", trainer_step=5, trainer_logprobs=[-2.0], more_scores=more),
        TurnRow(session_id="b", turn=1),
        TurnRow(session_id="c", turn=1, trainer_step=5, trainer_logprobs=[-4.0]),
    ]
    batch = split_scores(frame_of(turns, "turns"), ["turn"], ["trainer_step", "trainer_logprobs", "adapter"])
    assert batch.scores.rows() == [(0, 5, [-2.0], "x"), (0, 7, [-3.0], "x"), (2, 5, [-4.0], None)]
    assert split_scores(frame_of(turns, "turns"), [], []).scores.height == 0


def test_frames_without_further_scores_are_read() -> None:
    frame = pl.DataFrame({"session_id": ["a"], "trainer_logprobs": [[-1.0]]})
    (batch,) = MemoryLog({"turns": frame}).batches([], ["trainer_logprobs"])
    assert batch.scores.rows() == [(0, [-1.0])]
    assert "more_scores" in SCHEMAS["turns"]


def test_turns_of_text_are_given_before_they_are_too_many(tmp_path: Path) -> None:
    request: dict[str, object] = {"messages": [{"role": "user", "content": "x" * 2**20}]}

    def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
        return (TurnRow(session_id="s", request=request) for _ in range(9))

    form = Format(name="text", about="", recognise=lambda head: None, read=read)
    path = tmp_path / "x"
    path.touch()
    log = FileLog(path, [(form, (path,))], "")
    assert [batch.turns.height for batch in log.batches(["request"])] == [8, 1]


def test_numbers_that_name_a_session_are_read_as_names_and_0_and_1_as_no_and_yes() -> None:
    turns = pl.DataFrame({"session_id": [7, 8], "complete": [0, 1]})
    (batch,) = MemoryLog({"turns": turns}).batches(["complete"])
    assert batch.turns.select("session_id", "turn", "complete").rows() == [("7", 1, False), ("8", 1, True)]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"prompt_ids": ["abc"]}, "turns.prompt_ids holds String, expected lists of integers that fit int32"),
        ({"prompt_ids": [5]}, "turns.prompt_ids holds Int64, expected lists of integers that fit int32"),
        ({"prompt_ids": [["5"]]}, r"turns.prompt_ids holds List\(String\), expected lists of integers that fit int32"),
        ({"complete": [2]}, "turns.complete: it has numbers other than 0 and 1; expected true or false"),
        ({"reward": ["1.0"]}, "turns.reward holds String, expected numbers"),
        (
            {"weight_versions": [[3]]},
            r"turns.weight_versions holds List\(Int64\), expected lists of {version, start, end}",
        ),
        ({"more_scores": [[3]]}, r"turns.more_scores holds List\(Int64\), expected lists of {adapter, trainer_step"),
    ],
)
def test_a_column_of_another_type_is_refused_by_name(columns: dict[str, list[object]], said: str) -> None:
    with pytest.raises(UserError, match=said):
        MemoryLog({"turns": pl.DataFrame({"session_id": ["a"], **columns})})


def test_turns_that_name_no_session_are_refused() -> None:
    with pytest.raises(UserError, match="turns has no column session_id, found sesion_id"):
        MemoryLog({"turns": pl.DataFrame({"sesion_id": ["a"]})})


def test_a_mask_of_floats_is_a_mask_and_other_floats_are_refused() -> None:
    frame = pl.DataFrame({"session_id": ["s"], "completion_ids": [[1, 2]], "loss_mask": [[1.0, 0.0]]})
    (batch,) = MemoryLog({"turns": frame}).batches(["loss_mask"])
    assert batch.turns["loss_mask"].to_list() == [[1, 0]]
    with pytest.raises(UserError, match=r"turns.loss_mask: it has numbers other than 0 and 1"):
        MemoryLog({"turns": frame.with_columns(loss_mask=pl.lit([0.5, 0.0]))})
