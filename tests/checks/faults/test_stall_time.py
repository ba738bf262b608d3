"""Time in which trainer and engine stood still."""

from typing import Any

import pytest

from tests.checks.records import check


def span(role: str, kind: str, start: float, end: float) -> dict[str, Any]:
    minute, second = divmod(start, 60)
    last_minute, last_second = divmod(end, 60)
    return {
        "role": role,
        "kind": kind,
        "from": f"2026-11-01T10:{int(minute):02d}:{second:09.6f}Z",
        "to": f"2026-11-01T10:{int(last_minute):02d}:{last_second:09.6f}Z",
    }


def test_the_engine_by_another_name_is_the_engine() -> None:
    spans = [span("trainer", "step", 0, 10), span("sampler", "generate", 0, 4), span("sampler", "generate", 6, 10)]
    assert check("stall-time", spans=spans).metrics["stall_engine_s"] == 2.0


def test_overlapping_stalls_of_two_roles_are_not_added_up() -> None:
    spans = [
        span("trainer", "step", 0, 60),
        span("trainer", "step", 80, 100),
        span("engine", "generate", 0, 70),
        span("engine", "paused_for_weights", 70, 85),
        span("engine", "generate", 85, 100),
    ]
    found = check("stall-time", spans=spans)
    assert found.metrics == {
        "stall_trainer_s": 20,
        "stall_trainer_share": 0.2,
        "stall_engine_s": 15,
        "stall_both_s": 10,
        "stall_any_s": 25,
    }, "trainer 60 to 80, engine 70 to 85, both 70 to 80, any 60 to 85"


def test_a_wait_inside_a_step_is_stall_and_counts_once() -> None:
    spans = [span("trainer", "step", 0, 100), span("trainer", "wait", 10, 30), span("trainer", "wait", 20, 40)]
    assert check("stall-time", spans=spans).metrics == {"stall_trainer_s": 30, "stall_trainer_share": 0.3}


def test_scheduled_idle_is_not_stall_and_unexplained_idle_is() -> None:
    spans = [
        span("engine", "generate", 0, 40),
        span("engine", "idle_scheduled", 40, 90),
        span("engine", "generate", 95, 100),
    ]
    found = check("stall-time", spans=spans)
    assert found.metrics == {"stall_engine_s": 5}, "90 to 95; nothing is said of the trainer, so nothing of both"
    assert found.value == 0.05


def test_several_engines_are_one_role() -> None:
    spans = [span("engine", "generate", 0, 50), span("engine", "generate", 30, 80), span("engine", "generate", 90, 100)]
    assert check("stall-time", spans=spans).metrics["stall_engine_s"] == 10


def test_a_pause_with_requests_in_flight_is_stall() -> None:
    spans = [span("engine", "generate", 0, 100), span("engine", "paused_for_weights", 40, 52.5)]
    assert check("stall-time", spans=spans).metrics["stall_engine_s"] == 12.5


def test_a_span_that_ends_before_it_begins_is_left_out_and_said() -> None:
    spans = [span("trainer", "step", 0, 100), span("trainer", "wait", 60, 50)]
    found = check("stall-time", spans=spans)
    assert (found.status, found.metrics["stall_trainer_s"]) == ("warn", 0)
    assert "1 spans end before they begin" in (found.evidence[-1].text or "")


def test_seconds_of_steps_are_used_where_there_are_no_spans() -> None:
    steps = [
        {"step": 1, "duration_s": 10, "wait_s": 4, "engine_wait_s": 1},
        {"step": 2, "duration_s": 30, "wait_s": 8},
        {"step": 3, "duration_s": 30},
    ]
    found = check("stall-time", steps=steps)
    assert found.metrics == {"stall_trainer_s": 12, "stall_trainer_share": 0.3, "stall_engine_s": 1}
    assert [(each.step, each.value) for each in found.evidence] == [(2, 8), (1, 4)]


def test_one_step_of_several_adapters_waits_once() -> None:
    one = {"step": 1, "at": "2026-11-01T10:00:00Z", "duration_s": 10, "wait_s": 4}
    found = check("stall-time", steps=[one | {"adapter": "a"}, one | {"adapter": "b"}])
    assert found.metrics["stall_trainer_s"] == 4


def test_waits_without_durations_have_no_share() -> None:
    found = check("stall-time", steps=[{"step": 1, "wait_s": 4}])
    assert (found.status, found.value, found.metrics) == ("info", None, {"stall_trainer_s": 4})


@pytest.mark.parametrize("spans", [[], [span("trainer", "step", 5, 5)]])
def test_no_time_is_no_data(spans: list[dict[str, Any]]) -> None:
    assert check("stall-time", spans=spans, steps=[{"step": 1}]).status == "no_data"


def test_where_work_is_not_logged_only_waiting_is_stall() -> None:
    spans = [span("trainer", "step", 0, 100), span("engine", "paused_for_weights", 40, 50)]
    assert check("stall-time", spans=spans).metrics["stall_engine_s"] == 10
