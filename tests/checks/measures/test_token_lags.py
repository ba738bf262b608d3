"""Tokens counted by the versions that sampled and trained them."""

import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import polars as pl

from checks.columns import SCHEMAS, completed
from checks.log import split_scores
from checks.measure import Tools
from checks.measures.parts import part
from checks.measures.token_lags import PER_CELL, TokenLags


def measured(*batches: list[dict[str, Any]]) -> pl.DataFrame:
    measure = TokenLags(Tools())
    for rows in batches:
        names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
        frame = completed(pl.DataFrame(rows, schema=names), "turns")
        measure.add(split_scores(frame, measure.turn_columns, measure.score_columns))
    return measure.frame()


def test_counts_equal_a_loop_over_tokens() -> None:
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    expected: Counter[tuple[int, int]] = Counter()
    for number in range(80):
        n, cut, trainer = int(rng.integers(0, 9)), int(rng.integers(0, 9)), int(rng.integers(3, 6))
        mask = rng.integers(0, 2, n).tolist() if number % 3 == 0 else None
        spans = [{"version": "1", "start": 0, "end": min(cut, n)}, {"version": "2", "start": min(cut, n), "end": n}]
        row = {"session_id": "s", "turn": number, "prompt_ids": [1], "completion_ids": [1] * n, "loss_mask": mask}
        rows.append(row | {"weight_versions": spans, "trainer_version": trainer})
        for index in range(n):
            if mask is None or mask[index]:
                expected[(1 if index < cut else 2, trainer)] += 1
    cells = part(measured(rows[:30], rows[30:]), "cells")
    found = {(a, b): n for a, b, n in cells.select("sampling_version", "trainer_version", "tokens").iter_rows()}
    assert found == dict(expected)


def test_tokens_that_are_only_stated_take_no_memory_beside_masks() -> None:
    # 2 GB of flags, were every token laid out.
    versions = {"adapter_version": 1, "trainer_version": 3}
    masked = {"completion_ids": [5, 6, 7], "loss_mask": [0, 1, 1]}
    stated = {"completion_ids": None, "stated_completion_tokens": 2**31 - 1}
    rows = [{"session_id": "s", "turn": n} | versions | kind for n, kind in enumerate((stated, masked, stated, masked))]
    tracemalloc.start()
    frame = measured(rows)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**20
    assert part(frame, "cells").select("tokens", "turns").rows() == [(2 * (2**31 - 1) + 4, 4)]


def test_a_turn_without_token_scores_still_has_its_trainers_version() -> None:
    frame = measured([{"session_id": "s", "completion_ids": [1], "adapter_version": 1, "trainer_version": 3}])
    assert part(frame, "cells").select("sampling_version", "trainer_version", "tokens").rows() == [(1, 3, 1)]


def test_a_score_goes_before_what_stands_on_the_turn() -> None:
    row = {"session_id": "s", "turn": 1, "completion_ids": [1], "adapter_version": 1, "trainer_version": 9}
    measure = TokenLags(Tools())
    batch = split_scores(completed(pl.DataFrame([row]), "turns"), measure.turn_columns, measure.score_columns)
    scores = pl.DataFrame({"row": [0, 0], "adapter": ["a", "a"], "trainer_version": [2, 3], "trainer_step": [None, 30]})
    measure.add(batch._replace(scores=scores))
    cells = part(measure.frame(), "cells")
    assert sorted(cells.select("adapter", "trainer_version").rows()) == [("a", 2), ("a", 3)]


def test_mixed_turns_are_counted_by_any_label() -> None:
    spans = [{"version": v, "start": i, "end": i + 1} for i, v in enumerate(("abc", "abd"))]
    counts = part(measured([{"session_id": "s", "completion_ids": [1, 2], "weight_versions": spans}]), "counts")
    assert (counts["mixed"].item(), counts["versioned"].item(), counts["trained"].item()) == (1, 1, 0)


def test_turns_kept_by_name_are_bounded_and_all_are_counted() -> None:
    row = {"session_id": "s", "completion_ids": [1], "adapter_version": 1, "trainer_version": 9}
    frame = measured([row] * (PER_CELL - 1), [row | {"session_id": "t"}] * 5)
    kept = part(frame, "turns")["session_id"]
    assert (len(kept), kept[-1]) == (PER_CELL, "t")
    assert part(frame, "cells")["turns"].item() == PER_CELL + 4
