"""How busy the engine is: counters since the start, and a picture of the present."""

import time
from collections import deque

import msgspec

THROUGHPUT_WINDOW_S = 5.0
"""Tokens a second are counted over this long."""


class Totals:
    """Counters since the start; written by the engine's thread only."""

    def __init__(self) -> None:
        self.requests = 0
        self.aborted = 0
        self.retracted = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generated_tokens = 0
        self._recent: deque[tuple[float, int]] = deque()

    def count_tokens(self, tokens: int) -> None:
        """Adds sampled tokens."""
        self.generated_tokens += tokens
        self._recent.append((time.monotonic(), tokens))
        self._forget()

    def tokens_per_second(self) -> float:
        """Sampled tokens a second over the last seconds."""
        self._forget()
        return sum(tokens for _, tokens in self._recent) / THROUGHPUT_WINDOW_S

    def _forget(self) -> None:
        oldest = time.monotonic() - THROUGHPUT_WINDOW_S
        while self._recent and self._recent[0][0] < oldest:
            self._recent.popleft()


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The engine between two steps."""

    at: float
    """When, on the monotonic clock."""
    running: int
    waiting: int
    paused: bool
    live_tokens: int
    """Tokens that the buffers of running requests occupy."""
    cached_tokens: int
    """Tokens that the prefix cache holds."""
    kv_tokens: int
    """Tokens that both may hold together."""
    adapters: int
    adapter_slots: int
    requests_total: int
    aborted_total: int
    retracted_total: int
    prompt_tokens_total: int
    cached_prompt_tokens_total: int
    generated_tokens_total: int
    tokens_per_second: float

    def aged(self, now: float) -> "Load":
        """The same for a reader at `now`: where no step has been since, nothing was sampled lately."""
        idle = now - self.at > THROUGHPUT_WINDOW_S
        return msgspec.structs.replace(self, tokens_per_second=0.0) if idle else self
