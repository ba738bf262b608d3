"""What a lane's state is about stands on the lane: the check's own number, with its limit, in one unit."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from checks.columns import completed
from checks.log import MemoryLog
from checks.suite import run
from console.watch.plain.signals import lane_lines
from console.watch.views.check_number import CheckNumber
from console.watch.views.lane import Lane, PartValue
from console.watch.views.signals import SignalsAsk, SignalsBuilder
from console.watch.widgets.lane_rows import LanesLayout, drawn_lanes
from console.watch.widgets.palette import Palette
from tests.console.watch.fake_feed import no_log
from tests.console.watch.measured_log import measured_log

START = datetime(2026, 11, 30, 13, tzinfo=UTC)


# Any: fields of records.
def lane(signal: str, turns: list[dict[str, Any]] | None = None, **tables: list[dict[str, Any]]) -> Lane:
    """The lane of one signal of some records, equal in number and limit to what the report says."""
    frames = {name: completed(pl.DataFrame(rows), name) for name, rows in tables.items()}
    log = MemoryLog(frames if turns is None else frames | {"turns": pl.DataFrame(turns)})
    view = SignalsBuilder().build(measured_log(log), SignalsAsk(steps=0), no_log)
    found = next(each for each in view.lanes if each.signal == signal)
    told = run(log).finding(found.check)
    assert found.status == told.status
    if found.verdict is not None and signal != "max_w":
        assert found.verdict.value == told.value
        assert told.threshold is None or found.verdict.warn == told.threshold.warn
    return found


def steps(**columns: list[float]) -> list[dict[str, Any]]:
    """Steps from 1 on, one every ten seconds."""
    count = len(next(iter(columns.values())))
    return [
        {"step": at + 1, "at": START + timedelta(seconds=10 * (at + 1)), "duration_s": 10.0}
        | {name: values[at] for name, values in columns.items()}
        for at in range(count)
    ]


def span(kind: str, begin: int, end: int) -> dict[str, Any]:
    return {
        "role": "trainer",
        "kind": kind,
        "from": START + timedelta(seconds=begin),
        "to": START + timedelta(seconds=end),
    }


def test_a_stall_after_the_last_step_is_on_the_lane_with_its_limit() -> None:
    # Two steps without a break, then 30 s of waiting: 30 of 50 s.
    found = lane("stall", steps=steps(loss=[1.0, 1.0]), spans=[span("step", 0, 20), span("wait", 20, 50)])
    assert (found.newest, found.newest_step, found.unit, found.limit, found.worst) == (0.6, None, "of time", 0.25, None)
    assert (found.values, found.curve_unit) == ((0.0, 0.0), "s")
    assert found.parts == (PartValue(name="s a step", newest=0.0, worst=0.0),)
    line, why = lane_lines(found)
    assert "0.6 of time (in all)  limit >0.25  s a step 0 (worst 0)" in line
    assert why == "  stall-time warn: in 50 s the trainer stood still 30 s (60.0%)"


def test_the_newest_step_and_the_mean_of_all_are_told_apart() -> None:
    found = lane("mfu", steps=steps(mfu=[0.2, 0.5, 0.5]))
    assert (found.newest, found.newest_step, found.worst) == (0.5, 3, 0.2)
    assert found.verdict is not None
    assert found.verdict == CheckNumber(
        value=found.verdict.value, unit="share of peak", of="mean of steps", warn=0.15, below=True
    )
    assert found.verdict.value == pytest.approx(0.4)
    (line,) = list(lane_lines(found))[:1]
    assert "0.5 of peak @3  min 0.2  check 0.4 (mean of steps)  limit <0.15" in line


def test_an_entropy_without_any_step_shows_what_made_it_ok() -> None:
    turn = {"session_id": "s", "turn": 1, "completion_ids": [1, 2], "sampled_logprobs": [-0.5, -1.5]}
    found = lane("entropy", turns=[turn])
    assert (found.status, found.newest, found.newest_step, found.steps) == ("ok", 1.0, None, ())
    assert (found.unit, found.limit) == ("nats (estimate)", 0.01)
    assert found.verdict == CheckNumber(value=1.0, unit="nats (estimate)", of="mean", warn=0.01, fail=0.001, below=True)


def test_pass_at_1_alone_is_shown() -> None:
    evals = [{"version": 1, "step": 1, "suite": "s", "task_id": f"t{at}", "passed": at < 3} for at in range(4)]
    found = lane("pass_at_k", evals=evals)
    assert (found.newest, found.unit, found.verdict and found.verdict.of) == (0.75, "share", "pass@1; newest")


def test_the_suite_is_named_where_there_are_two() -> None:
    evals = [
        {"adapter": "a", "version": 1, "step": 1, "suite": name, "task_id": "t", "sample": at, "passed": name == "gate"}
        for name, samples in (("gate", 2), ("exam", 1))
        for at in range(samples)
    ]
    found = lane("pass_at_k", evals=evals, steps=[{"adapter": "a", "step": 1}])
    assert (found.newest, found.verdict and found.verdict.of) == (1.0, "pass@1; suite gate, not exam; newest")


def test_norms_that_nobody_can_grade_are_not_said_to_be_ok() -> None:
    found = lane("grad_norm", steps=steps(grad_norm=[287.0, 0.0, 0.0, 153.0]))
    assert (found.state, found.word, found.newest, found.worst) == ("no_data", "UNGRADED", 153.0, 287.0)
    assert found.verdict is None


def test_of_updates_on_one_batch_lane_and_check_tell_one_staleness() -> None:
    turn = {"session_id": "s", "turn": 1, "adapter": "a", "adapter_version": 0, "completion_ids": [1, 2],
            "trainer_version": 0, "trainer_step": 0}  # fmt: skip
    logged = [{"adapter": "a", "step": at + 1, "staleness_mean": float(at)} for at in range(4)]
    versions = [{"adapter": "a", "version": 0, "optimizer_step": 0}]
    found = lane("staleness", turns=[turn], steps=logged, versions=versions)
    assert (found.newest, found.newest_step, found.verdict and found.verdict.value) == (3.0, 4, 3.0)
    assert found.why.startswith("mean 1.5, 0 to 3 over 4 steps, as the trainer logged it;")


def drawn(shown: Lane, width: int) -> list[str]:
    """The chosen lane's lines."""
    lines = drawn_lanes([shown], (1, 4), 0, LanesLayout(width, 10, "ascii"), Palette("none", ascii=True))
    return [line.text for line in lines[1:]]


def test_a_flat_curve_has_no_scale_made_up_for_it() -> None:
    told = drawn(lane("stall", steps=steps(loss=[1.0, 1.0]), spans=[span("step", 0, 20), span("wait", 20, 50)]), 80)
    assert any(line.rstrip().endswith("y=0") for line in told)
    assert not any("e-9" in line for line in told)


def test_the_chosen_lane_draws_the_checks_number() -> None:
    told = drawn(lane("mfu", steps=steps(mfu=[0.2, 0.5, 0.5])), 120)
    assert any("check        0.4 mean of steps" in line for line in told)
