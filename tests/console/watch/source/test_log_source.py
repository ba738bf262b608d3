"""A saved log: a short one at once, a long one by its newest part first, and then whole as it ever was."""

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import polars as pl
import pytest

from checks.readers.open_log import open_log
from collector.errors import UserError
from console.watch.held import Held, Tokens
from console.watch.holding import fitted
from console.watch.log_part import LogPart
from console.watch.source.gathered_rows import GatheredRows
from console.watch.source.log_measures import tell_log
from console.watch.source.log_rows import END_BYTES, LogRows, is_short, rows_of
from console.watch.source.log_source import LogSource
from console.watch.source.token_news import News, Order, packed, unpacked
from console.watch.source.token_process import PROJECT, TokenProcess

SAMPLES = sorted(
    path
    for path in (Path(__file__).parents[4] / "samples").rglob("*")
    if path.suffix in (".jsonl", ".parquet") and path.parent.name != "evaluation"
)
TURNS = 900


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Turns of eight a session with 2,000 ids each, and a step after each session: more than twice what is short."""
    path = tmp_path_factory.mktemp("long") / "log.jsonl"
    with path.open("w") as file:
        for number in range(TURNS):
            turn = {
                "session_id": f"session-{number // 8:04d}",
                "turn": number % 8 + 1,
                "turn_id": f"turn-{number:05d}",
                "adapter": "bot",
                "prompt_ids": [10_000 + each for each in range(1_980)],
                "completion_ids": [number] * 20,
                "sampled_logprobs": [-0.5] * 20,
                "trainer_logprobs": [-0.25] * 20,
                "trainer_step": number // 8 + 1,
                "started_at": f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}Z",
            }
            file.write(json.dumps(turn) + "\n")
            if number % 8 == 7:
                file.write(json.dumps({"record": "step", "step": number // 8 + 1, "grad_norm": 0.5}) + "\n")
    assert path.stat().st_size > 2 * END_BYTES
    return path


def opened(path: Path, *, tokens: bool = True) -> LogSource:
    """A long log with the process that reads it."""
    order = Order(path=str(path), rows=True, tokens=tokens)
    return LogSource(path, short=False, reading=lambda: TokenProcess(order))


def held_when(source: LogSource, wanted: Callable[[Held], bool]) -> Held:
    """What is held once it is as wanted; a test that waits for ever is ended by its timeout."""
    held = None
    while held is None or not wanted(held):
        held = source.poll() or held
        time.sleep(0.02)
    return held


def is_whole(held: Held) -> bool:
    """Whether all of it was read, its tokens too."""
    return held.source.part is None and held.tokens.share == 1


def assert_same(found: LogRows, wanted: LogRows) -> None:
    """Every table, as it is held; whether a column without a value came through the pipe makes no difference."""
    assert (found.format, found.damage, found.frames.keys()) == (wanted.format, wanted.damage, wanted.frames.keys())
    for name, frame in wanted.frames.items():
        assert fitted(found.frames[name], name).equals(fitted(frame, name)), name


class Fed:
    """A reading that is told what there is."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.rows = GatheredRows()
        self.told: list[News] = []
        self.tokens = Tokens()
        self.signal: int | None = None

    def tell(self, news: News) -> None:
        """One of the news, through the bytes of the pipe."""
        again = unpacked(bytearray(packed(news)))
        assert again is not None
        self.rows.add(again)
        self.told.append(again)

    def poll(self) -> bool:
        """There is always more."""
        return True

    def nudge(self) -> None:
        """Nothing to do."""

    def take_rows(self) -> LogRows | None:
        """Once they are whole."""
        return self.rows.take()

    def close(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_rows_that_come_through_the_pipe_are_those_of_a_pass_over_the_log(path: Path):
    fed = Fed(Order(path=str(path), rows=True, tokens=False))
    tell_log(fed.order, fed.tell, tell_s=0.0)
    found = fed.take_rows()
    assert found is not None
    assert_same(found, rows_of(open_log(path)))
    assert fed.take_rows() is None
    assert fed.told[-1].share == 1.0
    assert all(news.share < 1 for news in fed.told[:-1])


def test_a_short_log_is_held_whole_at_the_first_look(tmp_path: Path, long_log: Path):
    path = tmp_path / "short.jsonl"
    path.write_text("".join(long_log.read_text().splitlines(keepends=True)[:100]))
    assert is_short(path)
    assert not is_short(long_log)
    assert is_short(tmp_path)
    source = LogSource(path, short=True)
    held = source.poll()
    assert held is not None
    assert (held.source.part, held.turns.height, held.steps.height) == (None, 89, 11)
    assert source.poll() is None


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("more", ["", '{"record": "step", "step": 999}\n'])
def test_a_log_that_is_written_over_is_noticed_and_read_anew(tmp_path: Path, long_log: Path, short: bool, more: str):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(long_log.read_text().splitlines(keepends=True)[: 100 if short else None]))

    def source() -> LogSource:
        return LogSource(path, short=short, reading=None if short else lambda: Fed(Order(path=str(path))))

    first = source()
    held = first.poll()
    assert held is not None
    assert held.turns["adapter"].unique().to_list() == ["bot"]
    inode = path.stat().st_ino
    path.write_text(path.read_text().replace('"bot"', '"cat"') + more)
    assert path.stat().st_ino == inode
    with pytest.raises(UserError, match="was replaced or cut while it was read"):
        first.poll()
    again = source().poll()
    assert again is not None
    assert again.turns["adapter"].unique().to_list() == ["cat"]


def test_a_log_that_grows_at_its_end_is_shown_as_it_was_read(tmp_path: Path, long_log: Path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(long_log.read_text().splitlines(keepends=True)[:100]))
    source = LogSource(path, short=True)
    assert source.poll() is not None
    with path.open("a") as file:
        file.write('{"record": "step", "step": 999}\n')
    assert source.poll() is None
    assert sum(batch.turns.height for batch in source.log().batches([])) == 89


def test_a_long_log_is_held_by_its_last_rows_and_then_whole(long_log: Path):
    source = opened(long_log)
    wanted = rows_of(open_log(long_log))
    try:
        first = source.poll()
        assert first is not None
        part = first.source.part
        assert part is not None
        line_bytes = long_log.stat().st_size / TURNS
        assert part.turns == pytest.approx(END_BYTES / line_bytes, abs=2)
        assert first.turns.equals(fitted(wanted.frames["turns"], "turns").tail(part.turns))
        assert first.steps.equals(fitted(wanted.frames["steps"], "steps").tail(first.steps.height))
        assert first.steps.height == pytest.approx(part.turns / 8, abs=1)
        assert (first.tokens.share, first.tokens.breaks, first.damage) == (None, None, ())
        held = held_when(source, is_whole)
        assert held.turns.height == TURNS
        assert_same(
            LogRows({name: getattr(held, name) for name in wanted.frames}, held.source.format, held.damage), wanted
        )
        # log w is -0.25 + 0.5 at every token.
        assert held.tokens.signals["max_w"].to_list() == pytest.approx([1.2840254166877414] * 113)
        assert held.tokens.breaks is not None
        assert held.revision > first.revision
    finally:
        source.close()


def test_rows_come_without_tokens_where_no_token_is_asked_for(long_log: Path):
    source = opened(long_log, tokens=False)
    try:
        held = held_when(source, is_whole)
        assert held.turns.height == TURNS
        assert held.tokens.weights.is_empty()
    finally:
        source.close()


def test_a_log_whose_end_tells_nothing_alone_is_not_shown_before_all_of_it_was_read(tmp_path: Path, long_log: Path):
    packed_log = tmp_path / "log.jsonl.gz"
    packed_log.write_bytes(gzip.compress(long_log.read_bytes(), 1))
    unnumbered = tmp_path / "log.jsonl"
    unnumbered.write_text("".join(line.replace('"turn": ', '"no": ') for line in long_log.read_text().splitlines(True)))
    for path in (packed_log, unnumbered):
        source = opened(path, tokens=False)
        try:
            first = source.poll()
            assert first is not None
            assert first.source.part == LogPart(turns=0)
            assert first.is_empty
            held = held_when(source, is_whole)
            assert held.turns["turn"].to_list() == [number % 8 + 1 for number in range(TURNS)]
        finally:
            source.close()


def test_how_far_it_is_is_told_and_the_part_stays(long_log: Path):
    fed = Fed(Order(path=str(long_log)))
    source = LogSource(long_log, short=False, reading=lambda: fed)
    first = source.poll()
    assert first is not None
    fed.tokens = Tokens(share=0.125)
    then = source.poll()
    assert then is not None
    assert then.turns is first.turns
    assert first.source.part is not None
    assert then.source.part == msgspec.structs.replace(first.source.part, share=0.125)
    assert then.tokens.share is None


def test_a_log_that_cannot_be_read_says_why(tmp_path: Path):
    path = tmp_path / "noise.bin"
    path.write_bytes(bytes(range(256)) * (END_BYTES // 256 + 1))
    source = opened(path)
    try:
        with pytest.raises(UserError, match="no known format, expected a store or a file of a known format"):
            held_when(source, is_whole)
    finally:
        source.close()


def test_the_share_grows_and_is_whole_only_at_the_end(long_log: Path):
    fed = Fed(Order(path=str(long_log), rows=True, tokens=False))
    tell_log(fed.order, fed.tell, tell_s=0.0)
    shares = [news.share for news in fed.told]
    # 900 turns of 2,000 tokens are one batch: it comes when all bytes were read.
    assert shares == [0.999] * (len(shares) - 1) + [1.0]
    assert sum(pl.read_ipc(news.turns).height for news in fed.told if news.turns is not None) == TURNS


def test_the_process_ends_with_its_owner_whatever_it_is_at(long_log: Path):
    order = msgspec.json.encode(Order(path=str(long_log), rows=True)).decode()
    command = [sys.executable, "-m", "console.watch.source.token_child", order]
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.close()
        # Once it has read all it would wait for ever, and while it reads it is to end too.
        assert process.wait(60) == 0
