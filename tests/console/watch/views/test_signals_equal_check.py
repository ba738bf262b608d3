"""The eight signals on the screen are those that `roundhouse check --format json` prints of the same log."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from checks.columns import completed
from checks.log import MemoryLog
from checks.readers.open_log import open_log
from checks.report import as_json
from checks.suite import run
from console.cli import main
from console.watch.held import Held
from console.watch.views.signal_findings import CHECK_OF
from console.watch.views.signals import SignalsAsk, SignalsBuilder, SignalsView
from tests.checks.simulated_runs import simulated_incident
from tests.console.watch.fake_feed import no_log
from tests.console.watch.measured_log import measured_log

SAMPLES = Path(__file__).resolve().parents[4] / "samples"
LOGS = ("importance-weight", "staleness", "stall-time", "mfu", "reward-eval-gap", "pass-at-k", "entropy", "grad-norm",
        "first-mover")  # fmt: skip


def view(held: Held, adapter: str | None = None) -> SignalsView:
    """As the screen has it."""
    return SignalsBuilder().build(held, SignalsAsk(adapter=adapter, steps=0), no_log)


def assert_equal(told: dict[str, Any], shown: SignalsView) -> None:
    """Metrics, statuses and values of the eight checks, and the ranking of the adapter shown."""
    checks = set(CHECK_OF.values())
    findings = {each["check"]: each for each in told["findings"] if each["check"] in checks}
    of_eight = {name: value for name, value in told["metrics"].items() if name in shown.metrics}
    assert shown.metrics == of_eight
    others = ("prefix_breaks", "drift_turns", "truncated_share", "duplicate_prefix_share")
    assert {*told["metrics"]} - {*others} == {*shown.metrics}
    if len(shown.adapters) < 2:
        graded = {each.check: (each.status, each.value, each.summary) for each in shown.findings}
        assert graded == {name: (each["status"], each["value"], each["summary"]) for name, each in findings.items()}
        assert {lane.check: lane.status for lane in shown.lanes} == {n: each["status"] for n, each in findings.items()}
        for lane in shown.lanes:
            of_check = findings[lane.check]["value"] if "max_w" not in told["metrics"] or lane.signal != "max_w" else (
                told["metrics"]["max_w"])  # fmt: skip
            assert (None if lane.verdict is None else lane.verdict.value) == of_check
    mover = next(each for each in told["findings"] if each["check"] == "first-mover")
    evidence = [each for each in mover["evidence"] if each.get("adapter") == shown.adapter]
    ranked = [(e["detail"]["signal"], e["detail"]["onset_first"], e["detail"]["onset_last"], e["detail"]["rank"],
               e["detail"]["tie"], e["detail"]["part"]) for e in evidence]  # fmt: skip
    assert ranked == [(m.signal, m.first, m.last, m.rank, m.tie, m.part) for m in shown.first_mover.movers]
    onsets = {lane.signal: (lane.onset.first, lane.onset.last, lane.onset.rank) for lane in shown.lanes if lane.onset}
    assert onsets == {signal: (first, last, rank) for signal, first, last, rank, _, _ in ranked}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("which", ["fires", "healthy"])
def test_of_each_sample_log(name: str, which: str) -> None:
    path = SAMPLES / name / f"{which}.jsonl"
    held = measured_log(open_log(path))
    told = json.loads(as_json(run(open_log(path))))
    for tab in view(held).adapters or ():
        assert_equal(told, view(held, tab.adapter))
    assert_equal(told, view(held))


def test_of_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    path = SAMPLES / "first-mover" / "fires.jsonl"
    main(["check", str(path), "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    shown = view(measured_log(open_log(path)))
    assert shown.first_mover.movers
    assert_equal(told, shown)


@pytest.mark.parametrize("seed", range(3))
def test_of_a_simulated_incident(seed: int) -> None:
    steps = completed(simulated_incident(np.random.default_rng(seed)).steps, "steps")
    log = MemoryLog({"steps": steps})
    assert_equal(json.loads(as_json(run(log))), view(measured_log(log)))


def test_of_two_adapters_the_metrics_are_of_both_and_the_lanes_of_one() -> None:
    run_a = simulated_incident(np.random.default_rng(1)).steps.with_columns(adapter=pl.lit("a"))
    run_b = simulated_incident(np.random.default_rng(2)).steps.with_columns(adapter=pl.lit("b"))
    log = MemoryLog({"steps": completed(pl.concat([run_a, run_b]), "steps")})
    told, held = json.loads(as_json(run(log))), measured_log(log)
    for adapter, frame in (("a", run_a), ("b", run_b)):
        shown = view(held, adapter)
        assert_equal(told, shown)
        lane = next(each for each in shown.lanes if each.signal == "max_w")
        assert lane.worst == frame["max_w"].max()
        assert lane.newest == frame["max_w"][-1]
    assert told["metrics"]["max_w"] == max(run_a["max_w"].max(), run_b["max_w"].max())  # type: ignore[type-var]


def test_without_the_report_everything_else_is_the_same() -> None:
    run_a = simulated_incident(np.random.default_rng(1)).steps.with_columns(adapter=pl.lit("a"))
    run_b = simulated_incident(np.random.default_rng(2)).steps.with_columns(adapter=pl.lit("b"))
    held = measured_log(MemoryLog({"steps": completed(pl.concat([run_a, run_b]), "steps")}))
    without = SignalsBuilder().build(held, SignalsAsk(adapter="a", steps=0, report=False), no_log)
    assert without.metrics is None
    assert without == msgspec.structs.replace(view(held, "a"), metrics=None)


def test_new_steps_of_one_adapter_change_its_lanes_and_no_other_s() -> None:
    run_a = simulated_incident(np.random.default_rng(1)).steps.with_columns(adapter=pl.lit("a"))
    run_b = simulated_incident(np.random.default_rng(2)).steps.with_columns(adapter=pl.lit("b"))
    builder, earlier = SignalsBuilder(), run_b.head(run_b.height - 5)

    def built(steps: pl.DataFrame, adapter: str) -> SignalsView:
        held = measured_log(MemoryLog({"steps": completed(pl.concat([run_a, steps]), "steps")}))
        return builder.build(held, SignalsAsk(adapter=adapter, steps=0), no_log)

    before = {name: built(earlier, name) for name in ("a", "b")}
    after = {name: built(run_b, name) for name in ("a", "b")}
    assert after["a"].findings == before["a"].findings
    assert after["b"].findings != before["b"].findings
    fresh = SignalsBuilder().build(
        measured_log(MemoryLog({"steps": completed(pl.concat([run_a, run_b]), "steps")})),
        SignalsAsk(adapter="b", steps=0),
        no_log,
    )
    assert after["b"].findings == fresh.findings


def test_the_worst_of_a_lane_is_the_metric_where_there_is_one_adapter() -> None:
    held = measured_log(open_log(SAMPLES / "importance-weight" / "fires.jsonl"))
    shown = view(held)
    lane = next(each for each in shown.lanes if each.signal == "max_w")
    assert lane.worst == shown.metrics["max_w"]
    assert not lane.provisional


def test_numbers_are_marked_as_the_trainers_own_until_the_tokens_are_read() -> None:
    held = measured_log(open_log(SAMPLES / "first-mover" / "fires.jsonl"))
    unread = held._replace(tokens=held.tokens._replace(share=None))
    assert {lane.signal for lane in view(unread).lanes if lane.provisional} <= {"max_w", "staleness", "entropy"}
    assert any(lane.provisional for lane in view(unread).lanes)
    assert not any(lane.provisional for lane in view(held).lanes)
