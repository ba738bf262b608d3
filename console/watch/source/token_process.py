"""The process that reads tokens, as the feed sees it: started, listened to, and ended with it."""

# pyright: reportUnknownMemberType=false
# (pyarrow carries no types)

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

import msgspec
import polars as pl
import pyarrow as pa

from console.watch.held import Tokens
from console.watch.source.gathered_rows import GatheredRows
from console.watch.source.log_rows import LogRows
from console.watch.source.token_news import News, Order, frame_of, unpacked

PROJECT = Path(__file__).parents[3]
"""Where the packages lie: the process starts there, so that it finds ours and not one of the user's folder."""
_CHUNK = 1 << 20


class TokenProcess:
    """Listens without waiting. Used by one thread."""

    def __init__(self, order: Order) -> None:
        order = msgspec.structs.replace(order, path=str(Path(order.path).absolute()))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "console.watch.source.token_child", msgspec.json.encode(order).decode()],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._out = cast("IO[bytes]", self._process.stdout)
        os.set_blocking(self._out.fileno(), False)
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._received = bytearray()
        self._ended = False
        self._rows = GatheredRows()
        self.tokens = Tokens()
        """What it found so far; `signals` is left to who knows the versions."""

    def poll(self) -> bool:
        """Whether there is more than at the last call; never waits."""
        if self._ended:
            return False
        fresh = False
        # Piece by piece: all that waits in the pipe may be many times what is held of it.
        while self._receive():
            while (news := unpacked(self._received)) is not None:
                self.tokens, fresh = _with(self.tokens, news), True
                self._rows.add(news)
        if self._ended:
            code = self._process.wait()
            self.tokens = self.tokens._replace(error=f"the process that reads tokens ended with {code}")
            fresh = True
        if fresh:
            # News are large: what they took goes back before the next ones come.
            pa.default_memory_pool().release_unused()
        return fresh

    @property
    def signal(self) -> int | None:
        """The pipe that news come through, until its end."""
        return None if self._ended else self._out.fileno()

    def take_rows(self) -> LogRows | None:
        """Those of a log, once; they are not kept."""
        return self._rows.take()

    def nudge(self) -> None:
        """A byte on its standard input; one that is full says the same."""
        assert self._process.stdin is not None
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._process.stdin.fileno(), b".")

    def close(self) -> None:
        """Ends the process with its standard input, or else by force."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._out.close()
        self._process.kill()
        self._process.wait()

    def _receive(self) -> bool:
        """Takes in a piece; False where none is there now, or none will be any more."""
        try:
            chunk = os.read(self._out.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        self._received += chunk
        self._ended = not chunk
        return bool(chunk)


def _with(tokens: Tokens, news: News) -> Tokens:
    frames = {name: frame_of(body) for name, body in news.frames.items()}
    share = news.share if news.error is None else tokens.share
    nothing = pl.DataFrame()
    return tokens._replace(
        share=share,
        error=news.error,
        weights=frames.get("importance_weights", tokens.weights if news.share else nothing),
        lags=frames.get("token_lags", tokens.lags if news.share else nothing),
        entropies=frames.get("entropies", tokens.entropies if news.share else nothing),
        breaks=frames.get("prefix_breaks", tokens.breaks),
        drift=frames.get("round_trip", tokens.drift),
    )
