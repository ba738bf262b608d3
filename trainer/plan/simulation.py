"""In-flight weight updates with stragglers: a seeded discrete-event simulation with a bound on running ahead."""

import heapq
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trainer.plan.quantity import require_count, require_not_negative, require_positive, require_whole

WARM_UP_SHARE = 0.2
"""Share of the steps left out of every mean, while the first rollouts still start in step."""


class LoopTimes(NamedTuple):
    """What a simulated loop did, after its warm-up."""

    step_s: float
    """Mean time from one optimizer step to the next."""
    trainer_stall_share: float
    """Share of the time in which the trainer waited for rollouts."""
    slot_busy_share: float
    """Share of slot-seconds in which a rollout was generated."""
    mean_lag_steps: float
    """Mean over tokens: optimizer steps between the weights that sampled one and the weights being updated."""
    max_lag_steps: int
    """Lag of the stalest token."""


class _Rollout(NamedTuple):
    end: float
    start: float


def simulate_loop(
    durations_s: Sequence[float],
    *,
    slots: int,
    batch_rollouts: int,
    update_s: float,
    sync_s: float,
    run_ahead_steps: int,
    steps: int,
    seed: int,
) -> LoopTimes:
    """Runs the loop for `steps` optimizer steps.

    A slot takes the next rollout when it comes free, unless (version + run_ahead_steps + 1) batches have been
    started: 0 is synchronous training, 1 one batch of overlap (AReaL bounds staleness in this way). The trainer
    takes the rollouts that finished first. Loading weights takes `sync_s`, in which generation stands still and
    after which running rollouts go on under the new version. Tokens are sampled evenly over a rollout. Durations
    are dealt from seeded shuffles of the list, so that every one comes equally often.
    """
    require_count(slots=slots, batch_rollouts=batch_rollouts, steps=steps)
    require_positive(update_s=update_s)
    require_not_negative(sync_s=sync_s)
    require_whole(run_ahead_steps=run_ahead_steps)
    if not durations_s:
        raise ValueError("there are no rollouts, expected at least one duration")
    for duration in durations_s:
        require_positive(duration_s=duration)
    loop = _Loop(_dealt(durations_s, seed), slots, batch_rollouts, run_ahead_steps)
    warm_up = int(steps * WARM_UP_SHARE)
    for step in range(steps):
        if step == warm_up:
            loop.forget_totals()
        loop.run_step(update_s, sync_s)
    return loop.times(steps - warm_up)


def _dealt(durations_s: Sequence[float], seed: int) -> Iterator[float]:
    draw, deck = random.Random(seed), list(durations_s)
    while True:
        draw.shuffle(deck)
        yield from deck


class _Loop:
    """State of one simulation, on a clock that stands still while weights load; those pauses are summed apart."""

    def __init__(self, durations: Iterator[float], slots: int, batch: int, run_ahead: int) -> None:
        self._durations = durations
        self._slots, self._batch, self._run_ahead = slots, batch, run_ahead
        self._running: list[_Rollout] = []
        self._finished: deque[_Rollout] = deque()
        self._published: list[float] = []
        self._started = 0
        self._now = 0.0
        self.forget_totals()
        self._admit()

    def forget_totals(self) -> None:
        """Starts every sum anew; the state stays."""
        self._since, self._stall, self._busy = self._now, 0.0, 0.0
        self._paused = 0.0
        self._tokens = self._lag = 0.0
        self._max_lag = 0

    def run_step(self, update_s: float, sync_s: float) -> None:
        """Waits for a batch, trains on it while rollouts go on, loads the new weights."""
        waiting_since = self._now
        while len(self._finished) < self._batch:
            self._finish_next()
        self._stall += self._now - waiting_since
        for _ in range(self._batch):
            self._count_lag(self._finished.popleft())
        updated_at = self._now + update_s
        while self._running and self._running[0].end <= updated_at:
            self._finish_next()
        self._move_to(updated_at)
        self._published.append(updated_at)
        self._paused += sync_s
        self._admit()

    def times(self, steps: int) -> LoopTimes:
        """Means over the steps since totals were last forgotten."""
        elapsed = self._now - self._since + self._paused
        return LoopTimes(
            step_s=elapsed / steps,
            trainer_stall_share=self._stall / elapsed,
            slot_busy_share=self._busy / (elapsed * self._slots),
            mean_lag_steps=self._lag / self._tokens,
            max_lag_steps=self._max_lag,
        )

    def _admit(self) -> None:
        allowed = (len(self._published) + self._run_ahead + 1) * self._batch
        while len(self._running) < self._slots and self._started < allowed:
            heapq.heappush(self._running, _Rollout(self._now + next(self._durations), self._now))
            self._started += 1

    def _finish_next(self) -> None:
        self._move_to(self._running[0].end)
        self._finished.append(heapq.heappop(self._running))
        self._admit()

    def _move_to(self, time: float) -> None:
        self._busy += len(self._running) * (time - self._now)
        self._now = time

    def _count_lag(self, rollout: _Rollout) -> None:
        """Adds a rollout's tokens: each one's lag is the number of versions published since it was sampled."""
        first = bisect_right(self._published, rollout.start)
        inside = bisect_right(self._published, rollout.end)
        length = rollout.end - rollout.start
        self._tokens += length
        self._lag += (len(self._published) - inside) * length
        self._lag += sum(published - rollout.start for published in self._published[first:inside])
        self._max_lag = max(self._max_lag, len(self._published) - first)
