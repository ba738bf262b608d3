"""Completions as one flat row: lengths, masks and pieces of one version."""

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.columns import SCHEMAS, completed
from checks.measures.sampled_tokens import UNKNOWN, counted_tokens, lengths, mask_fits, pieces


def turns(rows: list[dict[str, Any]]) -> pl.DataFrame:
    names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
    return completed(pl.DataFrame(rows, schema=names), "turns")


def span(version: str, start: int, end: int) -> dict[str, Any]:
    return {"version": version, "start": start, "end": end}


def offsets(*tokens: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64)


def test_a_completion_is_as_long_as_the_first_thing_that_says_so() -> None:
    frame = turns(
        [
            {"completion_ids": [1, 2], "sampled_logprobs": [-1.0]},
            {"sampled_logprobs": [-1.0, -2.0, -3.0]},
            {"stated_completion_tokens": 9},
            {"weight_versions": [span("1", 0, 4), span("2", 4, 6)]},
            {"session_id": "s"},
        ]
    )
    assert lengths(frame)["tokens"].to_list() == [2, 3, 9, 6, None]


@pytest.mark.parametrize("stated", [-1, 2**31, 2**63 - 1])
def test_what_counts_no_completion_says_no_length(stated: int) -> None:
    rows = [{"stated_completion_tokens": stated}, {"stated_completion_tokens": 7}]
    frame = turns([{**row, "weight_versions": [span("1", 0, stated)]} for row in rows])
    assert lengths(frame)["tokens"].to_list() == [None, 7]


def test_a_mask_fits_the_completion_or_prompt_and_completion() -> None:
    frame = turns(
        [
            {"prompt_ids": [1, 1], "completion_ids": [1], "loss_mask": mask}
            for mask in ([1], [0, 0, 1], [1, 1], None, [])
        ]
    )
    assert lengths(frame).select(mask_fits()).to_series().to_list() == [True, True, False, True, False]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.booleans(), max_size=5), st.sampled_from(["none", "own", "whole"])),
        min_size=1,
        max_size=6,
    )
)
def test_masks_of_any_turns_equal_a_loop(rows: list[tuple[int, list[bool], str]]) -> None:
    masks: list[list[int] | None] = []
    expected: list[bool] = []
    for prompt, kept, form in rows:
        own = [int(flag) for flag in kept]
        masks.append(None if form == "none" else own if form == "own" else [1] * prompt + own)
        expected += [True] * len(kept) if form == "none" else kept
    found = counted_tokens(pl.Series(masks, dtype=pl.List(pl.Int8)), offsets(*(len(kept) for _, kept, _ in rows)))
    assert (np.ones(len(expected), bool) if found is None else found).tolist() == expected
    assert (found is None) == all(expected), "None says that every token counts"


def test_pieces_are_cut_at_versions_and_positions() -> None:
    frame = turns([{"weight_versions": [span("7", 0, 3), span("8", 3, 5)]}, {"adapter_version": 2}])
    cut = pieces(frame, offsets(5, 4), edges=(2,))
    assert cut.start.tolist() == [0, 2, 3, 5, 7]
    assert cut.row.tolist() == [0, 0, 0, 1, 1]
    assert cut.position.tolist() == [0, 2, 3, 0, 2]
    assert cut.version.tolist() == [7, 7, 8, 2, 2]


def test_an_adapters_version_goes_before_the_engines_label() -> None:
    cut = pieces(turns([{"adapter_version": 4, "weight_versions": [span("1", 0, 2)]}]), offsets(2))
    assert cut.version.tolist() == [4]


def test_tokens_in_no_span_have_no_version() -> None:
    spans = [span("7", 1, 2), span("abc", 2, 4), span("9", 4, 9)]
    cut = pieces(turns([{"weight_versions": spans}]), offsets(5))
    each = np.repeat(cut.version, np.diff(cut.start, append=5)).tolist()
    assert each == [UNKNOWN, 7, UNKNOWN, UNKNOWN, 9]


def test_empty_completions_have_no_piece_and_shift_nothing() -> None:
    frame = turns([{"adapter_version": n} for n in range(5)])
    cut = pieces(frame, offsets(0, 2, 0, 1, 0))
    assert (cut.row.tolist(), cut.version.tolist(), cut.start.tolist()) == ([1, 3], [1, 3], [0, 2])


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=3)), min_size=1, max_size=5),
    st.lists(st.integers(1, 6), max_size=2, unique=True),
)
def test_versions_of_any_spans_equal_a_loop(rows: list[tuple[int, list[int]]], edges: list[int]) -> None:
    frames: list[dict[str, Any]] = []
    expected: list[int] = []
    for number, (tokens, cuts) in enumerate(rows):
        bounds = [0, *sorted(cuts), 6]
        spans = [span(str(10 * number + i), a, b) for i, (a, b) in enumerate(itertools.pairwise(bounds))]
        frames.append({"weight_versions": spans})
        for index in range(tokens):
            (held,) = [each for each in spans if each["start"] <= index < each["end"]] or [span("-", 0, 0)]
            expected.append(int(held["version"]))
    total = offsets(*(tokens for tokens, _ in rows))
    cut = pieces(turns(frames), total, edges=sorted(edges))
    assert np.repeat(cut.version, np.diff(cut.start, append=total[-1])).tolist() == expected
