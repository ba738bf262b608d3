"""The log-probabilities of given tokens are read whole and of the right tokens, or refused."""

import json
from typing import Any

import pytest

from collector.engine.score_reply import read_scored
from collector.engine.wire import Scored
from collector.errors import EngineError

IDS = [5, 6, 7]


def body(entries: list[Any], **meta: Any) -> bytes:
    return json.dumps({"meta_info": {"input_token_logprobs": entries, **meta}}).encode()


def test_each_token_after_the_start_has_its_number() -> None:
    whole = body([[None, 5, None], [-1.5, 6, None], [-0.25, 7, "x"]], cached_tokens=0)
    assert read_scored(whole, ids=IDS, start=0, rid="r") == Scored(logprobs=[-1.5, -0.25], cached_tokens=0)
    part = body([[None, 6, None], [-0.25, 7, None]], cached_tokens=1)
    assert read_scored(part, ids=IDS, start=1, rid="r") == Scored(logprobs=[-0.25], cached_tokens=1)


def test_the_last_id_of_the_vocabulary_may_be_told_as_0() -> None:
    told = body([[None, 5, None], [-1.5, 6, None], [-0.25, 0, None]])
    assert read_scored(told, ids=IDS, start=0, rid="r").logprobs == [-1.5, -0.25]
    with pytest.raises(EngineError, match="other tokens"):
        read_scored(body([[None, 5, None], [-1.5, 0, None], [-0.25, 7, None]]), ids=IDS, start=0, rid="r")


@pytest.mark.parametrize(
    "entries",
    [
        [[None, 5, None], [-1.5, 6, None]],
        [[None, 5, None], [-1.5, 9, None], [-0.25, 7, None]],
        [[None, 5, None], [None, 6, None], [-0.25, 7, None]],
        [[-2.0, 5, None], [-1.5, 6, None], [-0.25, 7, None]],
        [],
    ],
    ids=["too few", "another token", "a hole", "a first number", "none"],
)
def test_what_is_not_one_number_a_token_is_refused(entries: list[Any]) -> None:
    with pytest.raises(EngineError, match="broke its contract in the reply to r"):
        read_scored(body(entries), ids=IDS, start=0, rid="r")


def test_what_is_no_reply_is_refused() -> None:
    with pytest.raises(EngineError, match="cannot be read"):
        read_scored(b"{}", ids=IDS, start=0, rid="r")


def test_an_aborted_request_says_why() -> None:
    aborted = body([], finish_reason={"type": "abort", "message": "The engine stopped.", "status_code": 503})
    with pytest.raises(EngineError, match="The engine stopped") as error:
        read_scored(aborted, ids=IDS, start=0, rid="r")
    assert error.value.status == 503
