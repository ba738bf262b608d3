"""The engine's contract: what each broken reply is refused for, and both ways of streaming read alike."""

import msgspec
import pytest

from collector.engine.reply import ReplyReader
from collector.engine.wire import Delta, Finish, Span
from collector.errors import EngineError

STOP = {"type": "stop", "matched": 2}


def event(ids: list[int], total: int, finish: dict[str, object] | None = None, **meta: object) -> bytes:
    """An event as SGLang writes it: log mu of id n is -n / 10."""
    final: dict[str, object] = (
        {"output_token_logprobs_length": total, "prompt_tokens": 4, "weight_versions": spans(("w1", 0, total))}
        if finish
        else {}
    )
    known = {"id": "r", "finish_reason": finish, "completion_tokens": total, "cached_tokens": 3, "e2e_latency": 0.1}
    logprobs = {"output_token_logprobs": [[-token / 10, token, None] for token in ids]}
    return msgspec.json.encode({"text": "", "output_ids": ids, "meta_info": known | logprobs | final | meta})


def spans(*triples: tuple[str, int, int]) -> list[dict[str, object]]:
    return [{"version": version, "start": start, "end": end} for version, start, end in triples]


def read(*events: bytes) -> list[Delta]:
    """One by one; a refusal is raised."""
    reader = ReplyReader("r")
    deltas: list[Delta] = []
    for each in events:
        delta = reader.read([each])
        if reader.failure is not None:
            raise reader.failure
        deltas += [] if delta is None else [delta]
    assert reader.ended == (deltas[-1].finish is not None)
    return deltas


EXPECTED = [
    Delta(token_ids=[5, 6], logprobs=[-0.5, -0.6], cached_tokens=3),
    Delta(token_ids=[7], logprobs=[-0.7], cached_tokens=3),
    Delta(
        token_ids=[2],
        logprobs=[-0.2],
        finish=Finish(type="stop", matched=2),
        spans=[Span(version="w1", start=0, end=4)],
        prompt_tokens=4,
        completion_tokens=4,
        cached_tokens=3,
    ),
]


def test_events_that_hold_what_is_new() -> None:
    assert read(event([5, 6], 2), event([], 2), event([7], 3), event([2], 4, STOP)) == EXPECTED


def test_events_that_repeat_the_whole_reply() -> None:
    assert read(event([5, 6], 2), event([5, 6], 2), event([5, 6, 7], 3), event([5, 6, 7, 2], 4, STOP)) == EXPECTED


def test_a_reply_without_a_token() -> None:
    abort = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
    (delta,) = read(event([], 0, abort))
    assert (delta.token_ids, delta.spans, delta.completion_tokens) == ([], [], 0)
    assert delta.finish == Finish(type="abort", message="Aborted")


def test_no_spans_are_invented() -> None:
    for none in (None, []):
        assert read(event([5], 1, STOP, weight_versions=none))[-1].spans == []


def test_a_queued_request_that_is_aborted_says_its_last_token_again() -> None:
    abort = {"type": "abort", "message": "Abort in waiting queue"}
    everything = [[-0.5, 5, None], [-0.6, 6, None], [-0.7, 7, None]]
    alone = read(event([5, 6], 2), event([7], 3), event([7], 3, abort, output_token_logprobs=everything))
    assert [delta.token_ids for delta in alone] == [[5, 6], [7], []]
    merged = read(event([5, 6], 2), event([7, 7], 3, abort, output_token_logprobs=[[-0.7, 7, None], *everything]))
    assert [delta.token_ids for delta in merged] == [[5, 6], [7]]
    only_one = [[-0.5, 5, None], [-0.5, 5, None]]
    merged_first = read(event([5, 5], 1, abort, output_token_logprobs=only_one))
    assert [delta.token_ids for delta in merged_first] == [[5]]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([event([5, 6], 2, output_token_logprobs=[[-0.5, 5, None]])], "1 log-probabilities for 2 ids"),
        ([event([5], 1, output_token_logprobs=[[-0.5, 6, None]])], "log-probabilities of other ids"),
        ([event([5], 1, output_token_logprobs=[[None, 5, None]])], "cannot be read"),
        ([event([5, 6], 2), event([5], 4)], "1 ids after 2 at completion_tokens 4, expected 2 or 4 ids"),
        ([event([5, 6], 2), event([5, 9, 7], 3)], "differs from the 2 tokens read before"),
        ([event([5], 1, STOP, output_token_logprobs_length=2)], "output_token_logprobs_length 2, expected 1"),
        ([event([5], 1, STOP, output_token_logprobs_length=None)], "output_token_logprobs_length None, expected 1"),
        ([event([5], 1, STOP, completion_tokens=None)], "completion_tokens None"),
        ([event([5], 1, STOP), event([6], 2)], "an event after the finish reason"),
        ([event([5], 1, {"type": "tired"})], "cannot be read"),
        ([b'{"output_ids":[5]}'], "without meta_info"),
        ([event([5], 1), event([6], 2, id="another")], "an event of another, expected those of this request only"),
        ([b"{"], "cannot be read"),
        ([b"<html>"], "cannot be read"),
        (
            [event([5, 6], 2), event([7], 3, {"type": "abort"}, output_token_logprobs=[[-0.5, 5, None]])],
            "in the reply to r: found",
        ),
    ],
)
def test_a_broken_reply_is_refused(events: list[bytes], words: str) -> None:
    with pytest.raises(EngineError, match="broke its contract") as refused:
        read(*events)
    assert words in str(refused.value)
    assert refused.value.status is None


@pytest.mark.parametrize(
    "wrong",
    [
        spans(("a", 0, 3)),
        spans(("a", 0, 5)),
        spans(("a", 1, 4)),
        spans(("a", 0, 2), ("b", 3, 4)),
        spans(("a", 0, 3), ("b", 2, 4)),
        spans(("b", 2, 4), ("a", 0, 2)),
        spans(("a", 0, 4), ("b", 4, 1), ("c", 1, 4)),
    ],
)
def test_spans_that_do_not_cover_the_tokens_once_are_refused(wrong: list[dict[str, object]]) -> None:
    with pytest.raises(EngineError, match="expected spans that cover 0 to 4 exactly once"):
        read(event([5, 6, 7, 2], 4, STOP, weight_versions=wrong))


def test_spans_that_cover_the_tokens_once_are_kept() -> None:
    (delta,) = read(event([5, 6, 7, 2], 4, STOP, weight_versions=spans(("a", 0, 1), ("b", 1, 4))))
    assert delta.spans == [Span(version="a", start=0, end=1), Span(version="b", start=1, end=4)]


def test_a_refusal_inside_the_stream_has_its_status_and_the_engine_s_words() -> None:
    reader = ReplyReader("r")
    refusal = b'{"error":{"message":"too long","type":"invalid_request_error","code":400,"retryable":false}}'
    assert reader.read([refusal]) is None
    assert reader.failure is not None
    assert "the engine refused r: too long" in str(reader.failure)
    assert reader.failure.status == 400
    assert reader.ended


def test_an_abort_with_an_error_status_and_no_token_is_a_refusal() -> None:
    with pytest.raises(EngineError, match="the engine refused r: queue full") as refused:
        read(event([], 0, {"type": "abort", "message": "queue full", "status_code": 503}))
    assert refused.value.status == 503


def test_events_that_arrive_together_are_one_delta() -> None:
    reader = ReplyReader("r")
    delta = reader.read([event([5, 6], 2), event([], 2), event([7], 3), event([2], 4, STOP)])
    assert reader.failure is None
    assert delta == msgspec.structs.replace(EXPECTED[2], token_ids=[5, 6, 7, 2], logprobs=[-0.5, -0.6, -0.7, -0.2])


@pytest.mark.parametrize("bad", [event([9], 7), event([7], 3, STOP, completion_tokens=4), b"{"])
def test_what_stands_before_a_refused_event_is_kept_and_nothing_of_it(bad: bytes) -> None:
    reader = ReplyReader("r")
    assert reader.read([event([5, 6], 2), bad, event([7], 3)]) == EXPECTED[0]
    assert reader.failure is not None
    assert not reader.ended


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        ({"cached_tokens": -1}, "`int` >= 0"),
        ({"cached_tokens": 2**63}, "cached_tokens"),
        ({"prompt_tokens": 2**70}, "prompt_tokens"),
        ({"output_token_logprobs": [[-1e39, 5, None]]}, "output_token_logprobs"),
        ({"output_token_logprobs": [[1e300, 5, None]]}, "output_token_logprobs"),
        ({"finish_reason": {"type": "stop", "matched": 2**70}}, "matched"),
    ],
)
def test_numbers_that_no_record_can_hold_are_refused(meta: dict[str, object], says: str) -> None:
    with pytest.raises(EngineError, match=f"(?s)broke its contract.*{says}"):
        read(event([5], 1, STOP, **meta))


@pytest.mark.parametrize("token", [-1, 2**31, 2**40, 2**70])
def test_ids_outside_32_bits_are_refused(token: int) -> None:
    with pytest.raises(EngineError, match="output_ids"):
        read(event([5, token], 2, STOP))


def test_an_event_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(EngineError, match="cannot be read"):
        read(b'{"x":' + b"[" * 100_000)
