"""The check: what was declared, what is missing, and what a break's evidence says."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl

from checks.finding import Finding
from checks.report import as_json
from checks.suite import run, select_checks

SYSTEM = list(range(100, 120))
ASK = [2, 3]
FIRST = ([*SYSTEM, 5, *ASK], [40, 41, 50, 51, 2])
BROKEN = ([*FIRST[0], 50, 51, 2, 6, *ASK], [60, 2])
ROOT = ([*range(200, 230), *ASK], [70, 2])


def frames(turns: Sequence[tuple[list[int], list[int]]], **events: str) -> dict[str, pl.DataFrame]:
    """Turns 1, 2, …; `events` are kinds by `turn_<number>`."""
    tables = {
        "turns": pl.DataFrame(
            {
                "session_id": ["s"] * len(turns),
                "turn": range(1, len(turns) + 1),
                "prompt_ids": [prompt for prompt, _ in turns],
                "completion_ids": [completion for _, completion in turns],
            }
        )
    }
    if events:
        declared: list[dict[str, Any]] = [
            {"kind": kind, "session_id": "s", "turn": int(name.removeprefix("turn_"))} for name, kind in events.items()
        ]
        tables["events"] = pl.DataFrame(declared)
    return tables


def check(tables: dict[str, pl.DataFrame], **thresholds: float) -> Finding:
    report = run(tables, checks=select_checks(["prefix-break"]), thresholds={"prefix-break": thresholds})
    return report.finding("prefix-break")


def test_a_break_fails_and_is_located() -> None:
    finding = check(frames([FIRST, BROKEN]))
    assert (finding.status, finding.value, finding.unit, finding.metrics) == ("fail", 1, "breaks", {"prefix_breaks": 1})
    (fault,) = finding.evidence
    assert (fault.session_id, fault.turn, fault.previous_turn, fault.token_index, fault.kind) == (
        "s",
        2,
        1,
        23,
        "other",
    )
    assert fault.detail == {
        "previous_id": 40,
        "current_id": 50,
        "previous_tokens_lost": 5,
        "inside_previous": "completion",
        "index_in_previous_part": 0,
    }
    assert finding.threshold is not None
    assert (finding.threshold.warn, finding.threshold.fail) == (0, 0)


def test_a_threshold_may_be_higher() -> None:
    assert check(frames([FIRST, BROKEN]), fail_at=1).status == "warn"
    assert check(frames([FIRST, BROKEN]), fail_at=1, warn_at=1).status == "ok"


def test_a_declared_compaction_is_information_and_no_break() -> None:
    finding = check(frames([FIRST, BROKEN], turn_2="compaction"))
    assert (finding.status, finding.value) == ("info", 0)
    (told,) = finding.evidence
    assert (told.turn, told.previous_turn, told.token_index, told.kind, told.status) == (2, 1, 23, "compaction", "info")


def test_a_declared_compaction_is_located_where_ids_alone_would_see_a_new_root() -> None:
    assert check(frames([FIRST, ROOT])).status == "ok"
    (told,) = check(frames([FIRST, ROOT], turn_2="compaction")).evidence
    assert (told.previous_turn, told.token_index, told.status) == (1, 0, "info")


def test_a_declared_subagent_is_a_new_root() -> None:
    finding = check(frames([FIRST, BROKEN], turn_2="subagent"))
    assert (finding.status, finding.value, finding.evidence) == ("ok", 0, ())


def test_another_event_declares_nothing() -> None:
    assert check(frames([FIRST, BROKEN], turn_2="probe", turn_1="compaction")).value == 1


def test_a_break_beside_a_compaction_comes_first_and_fails() -> None:
    again = ([*BROKEN[0], 61, 2, 8, *ASK], [80, 2])
    finding = check(frames([FIRST, BROKEN, again], turn_2="compaction"))
    assert [(each.turn, each.status) for each in finding.evidence] == [(3, None), (2, "info")]
    assert (finding.status, finding.value) == ("fail", 1)


def test_a_log_of_text_tells_only_what_was_declared() -> None:
    tables = frames([FIRST, BROKEN], turn_2="compaction")
    tables["turns"] = tables["turns"].drop("prompt_ids", "completion_ids")
    finding = check(tables)
    assert (finding.status, finding.value, finding.metrics) == ("no_data", None, {})
    assert finding.missing == ("turns.prompt_ids", "turns.completion_ids")
    assert [(each.turn, each.kind, each.status, each.token_index) for each in finding.evidence] == [
        (2, "compaction", "info", None)
    ]


def test_an_event_with_every_column_is_read_as_well() -> None:
    tables = frames([FIRST, BROKEN], turn_2="compaction")
    tables["events"] = tables["events"].with_columns(at=pl.lit(datetime(2026, 1, 1, tzinfo=UTC)), text=pl.lit("said"))
    assert check(tables).status == "info"


def test_the_report_is_json() -> None:
    report = run(frames([FIRST, BROKEN]), checks=select_checks(["prefix-break"]))
    assert b'"prefix_breaks":1' in as_json(report)


def test_one_turn_that_continues_nothing_is_ok() -> None:
    finding = check(frames([FIRST]))
    assert (finding.status, finding.value, finding.metrics) == ("ok", 0, {"prefix_breaks": 0})
