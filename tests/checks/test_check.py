"""A check that is asked for some of its evidence: the same finding, and the rest is counted and not made."""

import tracemalloc
from typing import Any

import msgspec
import polars as pl
import pytest

from checks.check import Check
from checks.columns import SCHEMAS, completed
from checks.finding import Evidence, Finding
from checks.log import MemoryLog, split_scores
from checks.measure import Measure, Tools
from checks.suite import CHECKS, select_checks

OF_TURNS = ("importance-weight", "staleness")


def measured(check: Check, count: int) -> list[pl.DataFrame]:
    """What a check is given of turns that are all at fault, by one of ten lags; every tenth has a
    log-probability that is no number, which is a fault of its own."""
    rows: list[dict[str, Any]] = [
        {
            "session_id": f"s{number}",
            "turn": 1,
            "completion_ids": [7] * 16,
            "sampled_logprobs": [-1.0] * 15 + [-1.0 if number % 10 else float("nan")],
            "trainer_logprobs": [-2.0 - number / count] * 16,
            "weight_versions": [{"version": "1", "start": 0, "end": 16}],
            "trainer_version": 20 + number % 10,
            "adapter": "refund",
        }
        for number in range(count)
    ]
    names = {name: SCHEMAS["turns"][name] for name in rows[0]}
    turns = completed(pl.DataFrame(rows, schema=names), "turns")
    (kind,) = check.measures
    measure: Measure = kind(Tools())
    measure.add(split_scores(turns, kind.turn_columns, kind.score_columns))
    log = MemoryLog({})
    return [measure.frame(), *(log.table(name) for name in check.frames[1:])]


@pytest.mark.parametrize("name", OF_TURNS)
@pytest.mark.parametrize("limit", [0, 1, 3, 8, 40, 100])
def test_less_evidence_is_the_first_of_it_and_the_rest_is_counted(name: str, limit: int) -> None:
    (check,) = select_checks([name])
    given = measured(check, 40)
    whole = check.run(given, {})
    some = check.run(given, {}, evidence_limit=limit)
    bad = 4 if name == "importance-weight" else 0
    assert [each.kind for each in whole.evidence] == ["not_finite"] * bad + ["stale"] * 40
    assert some.evidence == whole.evidence[:limit]
    assert (len(some.evidence), some.evidence_omitted) == (min(limit, 40 + bad), max(0, 40 + bad - limit))
    cut = {"evidence": (), "evidence_omitted": 0}
    assert msgspec.structs.replace(some, **cut) == msgspec.structs.replace(whole, **cut)


def peak_bytes(check: Check, given: list[pl.DataFrame], limit: int) -> int:
    """Most that Python's own objects took at once; frames are not among them."""
    tracemalloc.start()
    try:
        check.run(given, {}, evidence_limit=limit)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", OF_TURNS)
def test_evidence_that_is_not_asked_for_is_not_made(name: str) -> None:
    (check,) = select_checks([name])
    given = measured(check, 2000)
    check.run(given, {}, evidence_limit=1)
    # A piece with its numbers takes more than 500 bytes: 1,990 of them a million.
    assert peak_bytes(check, given, 10) < peak_bytes(check, given, 2000) - 1_000_000


def test_the_limit_of_evidence_is_no_threshold() -> None:
    assert [check.name for check in CHECKS if "evidence_limit" in check.thresholds] == []
    (check,) = select_checks(["staleness"])
    assert check.thresholds == {"warn_at": 4, "fail_at": 8}


def every_step() -> Finding:
    """Finds two faults, however many are asked for."""
    return Finding(check="x", status="warn", summary="two", evidence=(Evidence(step=1), Evidence(step=2)))


def test_a_check_of_few_faults_makes_them_all_and_keeps_what_is_asked_for() -> None:
    found = Check("x", every_step, ()).run((), {}, evidence_limit=1)
    assert (found.evidence, found.evidence_omitted) == ((Evidence(step=1),), 1)
