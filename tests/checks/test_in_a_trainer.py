"""The suite in somebody's training loop: frames of a step go in, findings come out, in the lines the README shows."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from checks import suite
from checks.report import Report
from collector.errors import UserError


def test_a_training_loop_checks_its_own_rollouts() -> None:
    rollouts = [
        {"session_id": "a", "prompt_ids": [1, 2], "completion_ids": [3, 4], "finish_reason": "length"},
        {"session_id": "b", "prompt_ids": [1, 2], "completion_ids": [5, 6], "finish_reason": "stop"},
    ]
    said: list[str] = []

    report = suite.run({"turns": pl.DataFrame(rollouts)})
    for finding in report.findings:
        if finding.status in ("warn", "fail"):
            said.append(f"{finding.check}: {finding.summary}")

    assert "truncation: 1 of 2 turns were cut by the length limit" in said
    assert report.finding("truncation").evidence[0].session_id == "a"
    assert report.metrics["truncated_share"] == 0.5
    assert report.counts.tokens == 8


# Any: columns as a trainer may have them.
def rollouts(**columns: Any) -> pl.DataFrame:
    """Two turns of one session that have their first ids in common."""
    held = {
        "session_id": ["a", "a"],
        "turn": [1, 2],
        "prompt_ids": [[1, 2, 3], [1, 2, 9]],
        "completion_ids": [[4, 5], [6, 7]],
        "sampled_logprobs": [[-0.5, -0.25], [-1.0, -0.125]],
        "trainer_logprobs": [[-0.5, -0.25], [-1.0, -0.125]],
    }
    return pl.DataFrame(held | columns).drop([name for name, column in columns.items() if column is None])


def what_is_found(report: Report) -> list[Any]:
    return [[(each.check, each.status, each.value, each.evidence) for each in report.findings], report.metrics]


@pytest.mark.parametrize(
    "columns",
    [
        {"prompt_ids": np.array([[1, 2, 3], [1, 2, 9]]), "completion_ids": np.array([[4, 5], [6, 7]], np.uint16)},
        {"prompt_ids": [np.array([1, 2, 3], np.int32), np.array([1, 2, 9], np.int32)]},
        {"completion_ids": pl.Series([[4, 5], [6, 7]], dtype=pl.Array(pl.Int64, 2))},
        {"sampled_logprobs": np.array([[-0.5, -0.25], [-1.0, -0.125]], np.float32)},
        {"trainer_logprobs": pl.Series([[-0.5, -0.25], [-1.0, -0.125]], dtype=pl.List(pl.Float32))},
        {"session_id": pl.Series(["a", "a"], dtype=pl.Categorical)},
        {"turn": np.array([1, 2], np.int32)},
        {"turn": None},
    ],
    ids=["2-d arrays", "arrays in a list", "fixed width", "2-d floats", "float32", "categories", "int32", "no numbers"],
)
def test_columns_of_other_types_say_the_same(columns: dict[str, Any]) -> None:
    report = suite.run({"turns": rollouts(**columns)})
    assert what_is_found(report) == what_is_found(suite.run({"turns": rollouts()}))
    assert report.finding("prefix-break").status == "ok"
    assert report.metrics["max_w"] == 1.0


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"turns": rollouts(session_id=None)}, "turns has no column session_id, found turn, prompt_ids"),
        ({"turns": rollouts(session_id=["a", None])}, "turns.session_id is null in row 1"),
        ({"steps": pl.DataFrame({"grad_norm": [1.0]})}, "steps has no column step, found grad_norm"),
        (
            {"turns": rollouts(prompt_ids=[["1"], ["2"]])},
            r"turns.prompt_ids holds List\(String\), expected lists of int",
        ),
        ({"turns": rollouts(prompt_ids=[[2**40], [2]])}, "turns.prompt_ids: .*; expected lists of integers that fit"),
        ({"turns": rollouts(weight_versions=[[1, 1], [1, 1]])}, r"holds List\(Int64\), expected lists of {version, "),
        ({"turns": rollouts().lazy()}, "turns is a polars.LazyFrame, expected a polars DataFrame"),
        ({"turns": rollouts().to_dict()}, "turns is a builtins.dict, expected a polars DataFrame"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:40],  # pyright: ignore[reportUnknownLambdaType]
)
def test_frames_that_are_no_table_are_refused_by_name(tables: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        suite.run(tables)


def test_frames_without_rows_need_no_columns() -> None:
    assert suite.run({"turns": pl.DataFrame(), "steps": pl.DataFrame()}).counts.turns == 0
