"""What stands on the signals screen beside the lanes' equality with the checks."""

import math
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import polars as pl

from checks.columns import completed
from checks.finding import Finding
from console.watch.held import TABLES, Held
from console.watch.plain.signals import plain_signals
from console.watch.views.first_mover import FirstMover
from console.watch.views.lane import Lane
from console.watch.views.signal_findings import CHECK_OF, SignalChecks
from console.watch.views.signal_lanes import LaneSource, signal_lanes
from console.watch.views.signals import SignalsAsk, SignalsBuilder, SignalsView
from console.watch.views.untrainable import UntrainableCounts
from tests.checks.simulated_runs import simulated_run
from tests.console.watch.fake_feed import NOW, held, no_log
from tests.console.watch.incident_store import incident
from tests.console.watch.small_held import ago, frame


def view(held_now: Held, **ask: Any) -> SignalsView:
    """As the screen has it."""
    return SignalsBuilder().build(held_now, SignalsAsk(**ask), no_log)


def turns(*rows: dict[str, Any]) -> pl.DataFrame:
    """Turns as they are held."""
    return pl.DataFrame([{"session_id": "s", **row} for row in rows], schema=dict(TABLES["turns"]))


def turn(number: int, **fields: Any) -> dict[str, Any]:
    """One trainable turn."""
    return {"turn": number, "purpose": "traffic", "adapter": "a", "trainable": True, **fields}


def test_missing_data_is_a_gap_in_the_curve_and_a_nan_is_none() -> None:
    steps = completed(simulated_run(np.random.default_rng(0), 100).steps, "steps")
    holes = pl.when(pl.col("step").is_between(40, 49)).then(None).otherwise(pl.col("mfu"))
    broken = pl.when(pl.col("step") == 60).then(math.nan).otherwise(pl.col("grad_norm"))
    shown = view(held(steps=steps.with_columns(mfu=holes, grad_norm=broken)), steps=0)
    mfu = next(lane for lane in shown.lanes if lane.signal == "mfu")
    assert not {*range(40, 50)} & {*mfu.steps}
    grad_norm = next(lane for lane in shown.lanes if lane.signal == "grad_norm")
    assert grad_norm.values[grad_norm.steps.index(60)] is None
    assert b"NaN" not in msgspec.json.encode(shown)


def test_the_band_is_the_median_and_twelve_mad_of_what_came_before_the_onset() -> None:
    shown = view(incident(), steps=0)
    lane = next(each for each in shown.lanes if each.signal == "staleness")
    assert lane.onset is not None
    before = [value for step, value in zip(lane.steps, lane.values, strict=True) if step < lane.onset.first][-120:]
    middle = np.median(before)
    spread = np.median(np.abs(np.array(before) - middle))
    assert lane.band == (middle - 12 * spread, middle + 12 * spread)


def test_a_figure_the_trainer_logged_beyond_its_limit_is_said_though_the_tokens_are_in_order() -> None:
    series = pl.DataFrame({"adapter": ["a"], "signal": ["staleness"], "part": ["staleness_mean"], "step": [9]})
    findings = {check: Finding(check=check, status="ok", summary="mean 0") for check in CHECK_OF.values()}
    nothing = FirstMover()

    def staleness(value: float) -> Lane:
        told = series.with_columns(value=pl.lit(value))
        lanes = signal_lanes(LaneSource(told, findings, {}, nothing, {}, tokens_read=True), None)
        return next(lane for lane in lanes if lane.signal == "staleness")

    assert (staleness(4.0).state, staleness(4.0).word) == ("ok", None)
    beyond = staleness(7.0)
    assert (beyond.state, beyond.word, beyond.status) == ("pending", "LOGGED", "ok")
    assert beyond.why == "the trainer logged 7, limit 4; over the tokens: mean 0"


def test_the_axis_reaches_back_to_the_first_onset_and_no_further_than_the_log() -> None:
    shown = view(incident(), steps=10)
    assert shown.axis == (182, 240)
    assert view(incident(), steps=0).axis == (1, 240)
    quiet = held(steps=completed(simulated_run(np.random.default_rng(5), 300).steps, "steps"))
    assert view(quiet).axis == (61, 300)


def test_an_empty_store_has_eight_lanes_without_data_and_says_so() -> None:
    shown = view(held())
    assert [lane.state for lane in shown.lanes] == ["no_data"] * 8
    assert {lane.newest for lane in shown.lanes} == {None}
    said = plain_signals(shown, 80)
    assert sum(line.startswith("○ n/d") for line in said) == 8
    assert "untrainable n/d" in said
    assert not any(" 0 " in line for line in said if line.startswith("○"))


def test_an_alerts_state_stands_on_its_lane() -> None:
    lanes = {lane.signal: lane for lane in view(incident()).lanes}
    assert lanes["entropy"].state == "silenced"
    assert lanes["max_w"].state == "critical"
    assert lanes["grad_norm"].state == "pending"
    assert lanes["grad_norm"].word is None


def test_the_first_adapter_shown_is_one_that_moved_and_an_asked_one_goes_before() -> None:
    both = incident(adapters=("triage", "refund"))
    assert view(both).adapter == "triage"
    assert view(both, adapter="refund").adapter == "refund"
    assert [tab.adapter for tab in view(both).adapters] == ["refund", "triage"]


def test_untrainable_turns_are_counted_by_reason_of_the_purposes_that_are_trained() -> None:
    rows = [
        turn(1), turn(2, trainable=False, untrainable_reason="top_p"), turn(3, trainable=False),
        turn(4, trainable=False, untrainable_reason="top_p", purpose="canary"),
        turn(5, trainable=False, untrainable_reason="top_p", purpose="eval"), turn(6, trainable=None),
        turn(7, trainable=False, untrainable_reason="grammar", adapter="b"), turn(8, adapter=None, purpose=None),
    ]  # fmt: skip
    found = UntrainableCounts().of(turns(*rows), "a")
    assert (found.turns, found.untrainable, found.share) == (5, 3, 0.6)
    assert found.reasons == (("top_p", 2), ("no reason given", 1))
    assert UntrainableCounts().of(turns(*rows), None).turns == 6


def test_turns_that_come_later_are_added_wherever_they_come() -> None:
    rows = [turn(number, trainable=number % 3 > 0, untrainable_reason=None) for number in range(1, 20)]
    counts = UntrainableCounts()
    for shown in (rows[:5], rows[:12], rows, rows[3:9], [rows[10], *rows], rows[1:]):
        frame = turns(*shown)
        assert counts.of(frame, "a") == UntrainableCounts().of(frame, "a")


def test_what_an_engine_does_is_of_every_adapter_that_it_serves() -> None:
    def span(role: str, kind: str, adapter: str | None, start: float, end: float) -> dict[str, Any]:
        return {"role": role, "kind": kind, "adapter": adapter, "from": ago(1000 - start), "to": ago(1000 - end)}

    spans = frame(
        "spans",
        [
            span("trainer", "step", "a", 0, 60),
            span("trainer", "step", "b", 60, 100),
            span("engine", "generate", None, 0, 75),
            span("engine", "paused_for_weights", None, 75, 100),
        ],
    )
    steps = frame("steps", [{"adapter": name, "step": 1} for name in ("a", "b")])
    steps = steps.with_columns(grad_norm=pl.lit(1.0))
    whole = held(steps=steps, spans=spans)
    found = {name: SignalChecks().of_adapter(whole, name)["stall-time"].metrics for name in ("a", "b")}
    # Of 100 s the trainer worked 60 on a and 40 on b; the engine stood still for 25.
    assert found["a"] | {"stall_trainer_s": 40.0, "stall_engine_s": 25.0} == found["a"]
    assert found["b"] | {"stall_trainer_s": 60.0, "stall_engine_s": 25.0} == found["b"]


def test_the_log_has_the_newest_events_and_control_characters_as_escapes() -> None:
    events = pl.DataFrame(
        [
            {"at": NOW + timedelta(seconds=n), "kind": "cycle", "severity": "warn", "text": f"e{n}\x1b[31m"}
            for n in range(30)
        ],
        schema=dict(TABLES["events"]),
    )
    shown = view(held(events=events))
    assert [line.text for line in shown.log][::19] == ["e10\x1b[31m", "e29\x1b[31m"]
    said = "\n".join(plain_signals(shown, 80))
    assert "\x1b" not in said
    assert "W – e29\\x1b[31m" in said


def test_the_text_twin_has_every_signal_in_the_order_of_onset() -> None:
    said = plain_signals(view(incident()), 80)
    assert said[1].startswith("FIRST MOVER  staleness @200")
    signals = [line.split()[2] for line in said if line[:1] in "◆▲△●⊘○"][:8]
    assert signals[:3] == ["staleness", "max_w", "entropy"]
    assert len({*signals}) == 8
