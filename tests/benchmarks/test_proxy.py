"""The proxy benchmark runs, what it measures with is right, and what it says holds together on any machine."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from collector.engine.event_stream import EventParser
from collector.engine.reply import ReplyReader
from collector.engine.wire import Span
from tests.benchmarks.proxy_load import Answer, Read, arrivals
from tests.benchmarks.proxy_memory import Sample, summary
from tests.benchmarks.proxy_reply import Piece
from tests.benchmarks.proxy_stub import chat_events, generate_events

HERE = Path(__file__).parent

PIECES = (Piece(5, " one"), Piece(6, " two"), Piece(7, " six"))


def test_the_stub_speaks_generate_as_the_collector_reads_it() -> None:
    payloads = EventParser().feed(b"".join(generate_events(PIECES, "rid", 9)))
    assert len(payloads) == 3
    reader = ReplyReader("rid")
    delta = reader.read(payloads)
    assert reader.failure is None
    assert delta is not None
    assert (delta.token_ids, delta.prompt_tokens, delta.completion_tokens) == ([5, 6, 7], 9, 3)
    assert delta.finish is not None
    assert (delta.finish.type, delta.finish.length) == ("length", 3)
    assert delta.spans == [Span(version="default", start=0, end=3)]
    assert len(set(delta.logprobs)) == 3


def test_the_stub_s_chat_chunks_say_the_same_text() -> None:
    said = [json.loads(event.removeprefix(b"data: ")) for event in chat_events(PIECES, "chatcmpl-1")]
    assert [each["choices"][0]["delta"]["content"] for each in said] == [" one", " two", " six"]
    assert {each["id"] for each in said} == {"chatcmpl-1"}


def frame(*pieces: str) -> bytes:
    data = b"".join(f'data: {{"content":"{piece}"}}\n\n'.encode() for piece in pieces)
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_a_token_has_arrived_with_the_read_that_holds_its_last_character() -> None:
    last = frame("six")
    reads = [b"HTTP/1.1 200 OK\r\n\r\n" + frame(""), frame("one", "two"), last[:-12], last[-12:] + b"0\r\n\r\n"]
    answer = Answer(0.0, [Read(at, data) for at, data in enumerate(reads, start=1)])
    assert answer.content() == "onetwosix"
    assert arrivals(answer, np.array([3, 6, 9])).tolist() == [2, 2, 4]
    # Two tokens in one chunk arrive together.
    assert arrivals(Answer(0.0, [Read(1, frame("onetwo")), Read(2, frame("six"))]), np.array([3, 6, 9])).tolist() == [
        1,
        1,
        2,
    ]


def test_a_stream_that_lacks_a_token_or_its_end_is_refused() -> None:
    head, end = b"HTTP/1.1 200 OK\r\n\r\n", b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
    Answer(0.0, [Read(1, head + frame("one", "two") + end)]).check(2)
    for body in (head + frame("one") + end, head + frame("one", "two"), b"HTTP/1.1 503 Busy\r\n\r\n" + end):
        with pytest.raises(ValueError, match=r"expected|not a whole stream"):
            Answer(0.0, [Read(1, body)]).check(2)


def test_memory_that_grows_by_a_byte_a_turn_has_that_slope() -> None:
    flat = summary([Sample(turns, 50 * 2**20) for turns in range(10, 110, 10)], before=40 * 2**20)
    assert (flat["rss_mib_warm"], flat["rss_mib_last"], flat["bytes_a_turn_after_warm_up"]) == (50.0, 50.0, 0.0)
    growing = summary([Sample(turns, 1000 + turns) for turns in range(10, 110, 10)], before=0)
    assert growing["bytes_a_turn_after_warm_up"] == 1.0
    # From 1,040 bytes after 40 turns to 1,100 after 100.
    assert growing["growth_after_warm_up"] == round(1100 / 1040 - 1, 4)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_quick_run_prints_one_line_that_holds_together(tmp_path: Path) -> None:
    if not list((Path.home() / ".cache" / "roundhouse").glob("smollm2*/tokenizer.json")):
        pytest.skip("SmolLM2 is not in ~/.cache/roundhouse: `roundhouse demo` fetches it")
    command = [sys.executable, str(HERE / "proxy.py"), "--quick", "--folder", str(tmp_path)]
    done = subprocess.run([*command, "--only", "burst", "paced", "memory"], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    for name in ("direct", "pass_through", "collector"):
        assert 0 < result["paced"][name]["chunk"]["p50_ms"] <= result["paced"][name]["chunk"]["p99_ms"]
        assert result["burst"]["c32"][name]["streams_s"] > 0
    assert result["memory"]["turns"] == 200
    assert list(tmp_path.iterdir()) == []
