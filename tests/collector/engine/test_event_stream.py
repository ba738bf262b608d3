"""Server-sent events survive every way the network may cut them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.engine.event_stream import EventParser

STREAM = (
    b'\xef\xbb\xbfdata: {"a":1}\n\n: a comment\nevent: x\ndata:two\r\ndata:  lines\r\n\r\nid: 7\n\n'
    b"data\n\rdata: \xf0\x9f\x99\x82\r\rdata: [DONE]\n\ndata: never ended"
)
# By hand: one space after the colon is dropped, lines of one event are joined, no data line means no event.
EVENTS = [b'{"a":1}', b"two\n lines", b"", b"\xf0\x9f\x99\x82", b"[DONE]"]


def parse(chunks: list[bytes]) -> list[bytes]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def test_events_of_one_chunk() -> None:
    assert parse([STREAM]) == EVENTS


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_any_cut_gives_the_same_events(at: int) -> None:
    assert parse([STREAM[:at], STREAM[at:]]) == EVENTS


def test_single_bytes_give_the_same_events() -> None:
    assert parse([STREAM[i : i + 1] for i in range(len(STREAM))]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM))))
def test_many_cuts_give_the_same_events(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(edges)]
    assert parse(chunks) == EVENTS


COMMON = (
    b'data: {"a":1}\n\ndata: two\ndata: lines\n\n\n\n: a comment\n\ndata:close\n\ndata: \n\ndata: {"b":2}\n\ndata: 3\n'
)
# By hand, as above.
COMMON_EVENTS = [b'{"a":1}', b"two\nlines", b"close", b"", b'{"b":2}']


@given(st.lists(st.integers(0, len(COMMON))))
def test_any_cuts_of_lines_that_end_in_line_feeds_give_the_same_events(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(COMMON)]
    assert parse([COMMON[start:end] for start, end in itertools.pairwise(edges)]) == COMMON_EVENTS


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1))
def test_what_is_sent_is_what_is_read(payloads: list[str]) -> None:
    stream = b"".join(b"data: " + payload.encode() + b"\n\n" for payload in payloads)
    assert parse([stream]) == [payload.encode() for payload in payloads]
