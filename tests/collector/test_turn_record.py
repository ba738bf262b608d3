"""What a record says of its log-probabilities, by how it was sampled."""

import math
from datetime import UTC, datetime

import pytest

from collector.caller import identify
from collector.conversation import Call, Sampling
from collector.engine.wire import Delta, Finish, Span
from collector.ports import Target
from collector.records import LogprobMode, Turn
from collector.turn_record import Plan, Sampled, turn_record


def recorded(sampling: Sampling, mode: LogprobMode = "scaled") -> Turn:
    plan = Plan(
        turn_id="t",
        session_id="s",
        turn=1,
        call=Call(api="generate", prompt_ids=(1, 2), sampling=sampling),
        caller=identify({}, tenant="dev", key_sha256=None),
        target=Target(),
        base_model="m",
        started_at=datetime.now(UTC),
        prompt_ids=[1, 2],
        max_tokens=5,
        parent_turn_id=None,
        link="root",
        break_kind=None,
        logprob_mode=mode,
    )
    sampled = Sampled()
    span = Span(version="1", start=0, end=1)
    sampled.add(Delta(token_ids=[3], logprobs=[-0.5], finish=Finish(type="stop", matched=3), spans=[span]))
    return turn_record(plan, sampled, finish_reason="stop", complete=True, response=None)


@pytest.mark.parametrize(
    ("temperature", "mode", "reason"),
    [
        (0.0, "raw", "greedy"),
        (5e-324, "raw", "greedy"),
        (1e-7, "raw", "greedy"),
        (math.nextafter(1e-6, 0), "raw", "greedy"),
        (1e-6, "scaled", None),
        (math.nextafter(1e-6, 1), "scaled", None),
        (1.0, "scaled", None),
    ],
)
def test_below_one_millionth_sampling_is_greedy_and_the_logprobs_are_those_at_temperature_one(
    temperature: float, mode: str, reason: str | None
) -> None:
    turn = recorded(Sampling(temperature=temperature))
    assert (turn.logprob_mode, turn.untrainable_reason, turn.trainable) == (mode, reason, reason is None)
    assert turn.temperature == temperature


@pytest.mark.parametrize(("temperature", "mode"), [(0.0, "raw"), (0.5, "unknown"), (1.0, "scaled")])
def test_with_one_candidate_the_batch_decides_whether_logprobs_are_scaled(temperature: float, mode: str) -> None:
    turn = recorded(Sampling(temperature=temperature, top_k=1))
    assert (turn.logprob_mode, turn.trainable) == (mode, False)


@pytest.mark.parametrize("mode", ["raw", "truncated", "unknown"])
def test_what_the_operator_says_of_the_engine_stays(mode: LogprobMode) -> None:
    assert recorded(Sampling(temperature=0.0), mode).logprob_mode == mode
    assert recorded(Sampling(temperature=0.5, top_k=1), mode).logprob_mode == mode
