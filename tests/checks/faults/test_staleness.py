"""Staleness: per token, never clipped, in one unit on both sides."""

from typing import Any

import polars as pl
import pytest

from checks.columns import SCHEMAS
from checks.finding import Finding
from checks.suite import run, select_checks


def finding(rows: list[dict[str, Any]], limits: dict[str, float] | None = None, **tables: pl.DataFrame) -> Finding:
    names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
    frames = {"turns": pl.DataFrame(rows, schema=names), **tables}
    return run(frames, checks=select_checks(["staleness"]), thresholds={"staleness": limits or {}}).findings[0]


def turn(trainer: int, *spans: tuple[int | str, int, int], tokens: int = 10, number: int = 1) -> dict[str, Any]:
    versions = [{"version": str(v), "start": a, "end": b} for v, a, b in spans]
    row: dict[str, Any] = {"session_id": "s", "turn": number, "completion_ids": [1] * tokens}
    return row | {"weight_versions": versions, "trainer_version": trainer}


def test_mean_least_and_largest_are_per_token() -> None:
    found = finding([turn(9, (7, 0, 4), (8, 4, 10))])
    assert found.metrics == {
        "staleness_mean": (4 * 2 + 6 * 1) / 10,
        "staleness_min": 1,
        "staleness_max": 2,
        "mixed_version_turns": 1,
    }
    assert (found.status, found.value) == ("ok", 2)
    assert [(row["lag"], row["tokens"], row["turns"]) for row in found.breakdown] == [(1, 6, 1), (2, 4, 1)]


@pytest.mark.parametrize(("lag", "status"), [(4, "ok"), (5, "warn"), (8, "warn"), (9, "fail")])
def test_the_bounds_are_four_and_eight_steps(lag: int, status: str) -> None:
    found = finding([turn(20, (20 - lag, 0, 10))])
    assert found.status == status
    assert [each.kind for each in found.evidence] == (["stale"] if lag > 4 else [])


def test_a_negative_lag_is_an_error_and_is_not_clipped() -> None:
    found = finding([turn(9, (9, 0, 6), (10, 6, 10))])
    assert (found.status, found.metrics["staleness_min"], found.metrics["staleness_mean"]) == ("fail", -1, -0.4)
    assert [(each.token_index, each.kind, each.value) for each in found.evidence] == [
        (6, "version_from_the_future", -1)
    ]


def test_one_entry_per_turn_at_its_stalest_token() -> None:
    found = finding([turn(20, (10, 0, 3), (8, 3, 10)), turn(20, (15, 0, 10), number=2)])
    assert [(each.turn, each.token_index, each.value) for each in found.evidence] == [(1, 3, 12), (2, 0, 5)]


def test_versions_as_text_are_compared_as_numbers() -> None:
    assert finding([turn(10, ("v9", 0, 10))]).metrics["staleness_max"] == 1


def test_very_large_version_numbers_are_exact() -> None:
    base = 2**53
    assert finding([turn(base + 3, (base + 1, 0, 10))]).metrics["staleness_mean"] == 2.0


def test_labels_that_are_no_numbers_are_no_data_with_the_reason() -> None:
    found = finding([turn(9, ("abc", 0, 10))])
    assert (found.status, found.missing) == ("no_data", ("versions.optimizer_step",))


def test_adapter_versions_are_turned_into_steps() -> None:
    table = pl.DataFrame({"adapter": ["a", "a"], "version": [1, 2], "state": ["live"] * 2, "optimizer_step": [10, 13]})
    row = {"session_id": "s", "completion_ids": [1, 2], "adapter": "a", "adapter_version": 1, "trainer_version": 2}
    assert finding([row], versions=table).metrics["staleness_mean"] == 3


def test_masked_tokens_do_not_count() -> None:
    row = turn(9, (7, 0, 4), (8, 4, 10)) | {"loss_mask": [0, 0, 0, 0, 1, 1, 1, 1, 1, 0]}
    assert finding([row]).metrics["staleness_max"] == 1


def test_a_trainers_own_numbers_are_used_where_tokens_say_nothing() -> None:
    steps = pl.DataFrame({"step": [1, 2], "staleness_mean": [0.5, 1.5], "staleness_max": [2.0, 6.0]})
    found = finding([{"session_id": "s"}], steps=steps)
    assert (found.status, found.value) == ("warn", 6.0)
    assert found.metrics == {"staleness_mean": 1.0, "staleness_max": 6.0}
    assert [(each.step, each.kind) for each in found.evidence] == [(2, "stale")]


def test_limits_are_the_callers() -> None:
    assert finding([turn(9, (7, 0, 10))], limits={"warn_at": 1}).status == "warn"


BATCH = {"session_id": "s", "completion_ids": [1, 2], "adapter": "a", "adapter_version": 0, "trainer_version": 0,
         "trainer_step": 0}  # fmt: skip
SAVED = pl.DataFrame({"adapter": ["a"], "version": [0], "state": ["live"], "optimizer_step": [0]})


def updates(*staleness: float) -> pl.DataFrame:
    """What the trainer logged of each update on one batch."""
    steps = range(1, len(staleness) + 1)
    return pl.DataFrame({"adapter": ["a"] * len(staleness), "step": steps, "staleness_mean": staleness})


def test_each_update_on_one_batch_trains_on_tokens_one_step_staler() -> None:
    # Scored once, at step 0; trained on in steps 1 to 4, which stood at 0 to 3.
    found = finding([BATCH], versions=SAVED, steps=updates(0.0, 1.0, 2.0, 3.0))
    assert (found.status, found.value) == ("ok", 3.0)
    assert found.metrics == {"staleness_mean": 1.5, "staleness_min": 0, "staleness_max": 3.0, "mixed_version_turns": 0}
    assert found.summary == (
        "mean 1.5, 0 to 3 over 4 steps, as the trainer logged it; where it scored tokens, before their first update, "
        "0 to 0; 0 turns of mixed versions"
    )


def test_updates_beyond_the_bounds_are_told_by_their_steps() -> None:
    found = finding([BATCH], versions=SAVED, steps=updates(*map(float, range(7))))
    assert (found.status, found.value) == ("warn", 6.0)
    assert [(each.step, each.kind, each.value) for each in found.evidence] == [(7, "stale", 6.0), (6, "stale", 5.0)]


def test_updates_of_a_batch_never_fail_what_its_tokens_do_not() -> None:
    many = finding([BATCH], versions=SAVED, steps=updates(*map(float, range(12))))
    assert (many.status, many.value) == ("warn", 11.0)
    assert {each.status for each in many.evidence} == {"warn"}
    old = finding([BATCH | {"trainer_step": 9}], versions=SAVED, steps=updates(*[9.0] * 4))
    assert (old.status, old.value) == ("fail", 9.0)
    assert finding([BATCH], versions=SAVED, steps=updates(0.0, -1.0, 0.0)).status == "fail"


def test_tokens_that_tell_of_half_the_steps_stand_before_what_was_logged() -> None:
    rows = [BATCH, BATCH | {"turn": 2, "trainer_step": 1}]
    found = finding(rows, versions=SAVED, steps=updates(0.0, 1.0, 7.0, 7.0))
    assert (found.metrics["staleness_mean"], found.value) == (0.5, 1)
