"""Which requests are computed next: continuous batching over a budget of cached tokens."""

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

import torch

from collector.engine.wire import Finish, PauseMode
from trainer.engine.adapters import AdapterBank, Slice
from trainer.engine.attention import Row
from trainer.engine.causal_model import CausalModel
from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.kv_buffer import BLOCK_TOKENS, KvBuffer, blocks
from trainer.engine.load import Load, Totals
from trainer.engine.prefix_tree import PrefixTree, shared_prefix
from trainer.engine.sampling import sample
from trainer.engine.sequence import Progress, Sequence
from trainer.engine_config import EngineConfig

MAX_RUNNING = 16
"""Most requests in a step where nothing else is set."""
PREFILL_CHUNK = 128
"""Most prompt tokens in a step where nothing else is set: a third of a second of a 135 M model on one core."""
WORTH_WAITING_TOKENS = 32
"""A request waits for another one's prefill when that would save it more prompt tokens than this."""


class Planned(NamedTuple):
    """A sequence and how many of its tokens the next step computes."""

    sequence: Sequence
    tokens: int

    @property
    def completes(self) -> bool:
        """Whether the step reaches the sequence's end, so that a token can be sampled."""
        return self.sequence.computed + self.tokens == self.sequence.length


class Scheduler:
    """The requests of an engine; everything here runs in the engine's one torch thread."""

    def __init__(self, model: CausalModel, bank: AdapterBank, settings: EngineConfig, kv_tokens: int) -> None:
        self._model = model
        self._bank = bank
        self._settings = settings
        self._max_running = settings.max_running or MAX_RUNNING
        self._prefill_chunk = settings.prefill_chunk or PREFILL_CHUNK
        self.kv_tokens = kv_tokens
        """Tokens that the buffers of running requests and the prefix cache may hold together."""
        self.tree = PrefixTree()
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.held: list[Sequence] = []
        """Requests that came while the engine drains for a weight update."""
        self.draining = False
        self.paused: PauseMode | None = None
        self.weight_version = "default"
        self.generation = 0
        """Counts the weight updates that asked for a flush: older keys and values are not shared on."""
        self.totals = Totals()
        self.deliveries: list[Callable[[], None]] = []
        """What the server's thread still has to be told."""

    @property
    def live(self) -> list[Sequence]:
        """Every request that has not finished, in the order in which they go on."""
        return [*self.running, *self.waiting, *self.held]

    @property
    def live_tokens(self) -> int:
        """Tokens that the buffers of running requests occupy."""
        return sum(sequence.kv.capacity for sequence in self.running if sequence.kv is not None)

    @property
    def has_work(self) -> bool:
        """Whether a step would compute something."""
        return self.paused is None and bool(self.running or self.waiting)

    def submit(self, sequence: Sequence) -> None:
        """Queues a request; the name of a live one is refused."""
        if any(other.rid == sequence.rid for other in self.live):
            raise EngineRefusal(f"Duplicate request ID detected: {sequence.rid}; expected one that no live request has")
        self.totals.requests += 1
        (self.held if self.draining else self.waiting).append(sequence)

    def abort(self, sequences: list[Sequence], message: str, *, status: int | None = None) -> None:
        """Ends requests with what they have."""
        for sequence in sequences:
            self._end(sequence)
            finish = Finish(type="abort", message=message, status_code=status)
            self.totals.aborted += 1
            self._tell(sequence, sequence.progress(self.weight_version, [], [], finish))

    def open_again(self) -> None:
        """Ends a drain: the requests that came meanwhile queue behind the others."""
        self.draining = False
        self.waiting.extend(self.held)
        self.held.clear()

    def change_version(self, version: str) -> None:
        """Names the base weights anew; tokens sampled so far keep the old name."""
        if version != self.weight_version:
            for sequence in self.live:
                sequence.note_version_change(self.weight_version)
            self.weight_version = version

    def load(self) -> Load:
        """How busy the engine is now."""
        return Load(
            at=time.monotonic(),
            running=len(self.running),
            waiting=len(self.waiting) + len(self.held),
            paused=self.paused is not None,
            live_tokens=self.live_tokens,
            cached_tokens=self.tree.tokens,
            kv_tokens=self.kv_tokens,
            adapters=len(self._bank.loaded),
            adapter_slots=self._settings.max_adapters,
            requests_total=self.totals.requests,
            aborted_total=self.totals.aborted,
            retracted_total=self.totals.retracted,
            prompt_tokens_total=self.totals.prompt_tokens,
            cached_prompt_tokens_total=self.totals.cached_tokens,
            generated_tokens_total=self.totals.generated_tokens,
            tokens_per_second=self.totals.tokens_per_second(),
        )

    def retract_all(self) -> None:
        """Sends the running requests back to the head of the queue, without their keys and values."""
        for sequence in reversed(self.running.copy()):
            self._retract(sequence)

    def step(self) -> None:
        """Computes some tokens of the running requests and samples where a prompt or a token is complete."""
        self._admit()
        self._make_room()
        plan = self._plan()
        done = [index for index, planned in enumerate(plan) if planned.completes]
        assert plan, "a request fits the budget, or it would have been refused"
        rows, ids = self._rows(plan)
        asked = [planned.sequence.to_score(row.past, row.tokens) for planned, row in zip(plan, rows, strict=True)]
        scored = [row.start + at - row.past for row, places in zip(rows, asked, strict=True) for at in places]
        logits = self._model.forward(ids, rows, [*(rows[index].end - 1 for index in done), *scored])
        self._score(logits[len(done) :], plan, asked)
        self._sample(logits[: len(done)], [plan[index].sequence for index in done])

    def _score(self, logits_N_V: torch.Tensor, plan: list[Planned], asked: list[range]) -> None:
        """Hands out log-probabilities of prompt tokens; `asked` are the places before them."""
        at = 0
        for planned, places in zip(plan, asked, strict=True):
            if places:
                rows_S_V = logits_N_V[at : at + len(places)].log_softmax(-1)
                targets_S = torch.tensor(
                    [planned.sequence.prompt[place + 1] for place in places], device=rows_S_V.device
                )
                planned.sequence.take_scores(cast("list[float]", rows_S_V.gather(1, targets_S[:, None])[:, 0].tolist()))
            at += len(places)

    def _sample(self, logits_B_V: torch.Tensor, ready: list[Sequence]) -> None:
        for sequence in ready:
            if not sequence.output:
                self._share(sequence, len(sequence.prompt))
        if not ready:
            return
        sampled = sample(logits_B_V, [sequence.draw() for sequence in ready])
        for sequence, token in zip(ready, sampled, strict=True):
            if not token.is_real:
                self.abort([sequence], "The model gave no finite logits; look for NaN in its weights.", status=500)
            elif sequence.params.max_new_tokens:
                self._advance(sequence, sequence.take(token, self.weight_version))
            else:
                self._advance(sequence, sequence.stop_unsampled(self.weight_version))

    def _advance(self, sequence: Sequence, progress: Progress) -> None:
        self.totals.count_tokens(len(progress.token_ids))
        if progress.finish is not None:
            self._end(sequence)
        self._tell(sequence, progress)

    def _tell(self, sequence: Sequence, progress: Progress) -> None:
        self.deliveries.append(lambda: sequence.sink(progress))

    def _end(self, sequence: Sequence) -> None:
        for queue in (self.running, self.waiting, self.held):
            if sequence in queue:
                queue.remove(sequence)
        if sequence.kv is not None:
            self._share(sequence, sequence.computed)
            sequence.kv = None

    def _share(self, sequence: Sequence, tokens: int) -> None:
        assert sequence.kv is not None
        if sequence.kv_generation != self.generation:
            return
        self.tree.insert(sequence.namespace, sequence.tokens[:tokens], sequence.kv.kept[:, :, :, :tokens])
        self.tree.evict(max(0, self.live_tokens + self.tree.tokens - self.kv_tokens))

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self._max_running:
            sequence = self.waiting[0]
            tokens = sequence.tokens
            pieces = self.tree.match(sequence.namespace, tokens, sequence.most_cached)
            known = sum(piece.shape[3] for piece in pieces)
            # The others will grow: without room for that, the newcomer would soon be sent back.
            room = blocks(len(tokens)) + BLOCK_TOKENS * len(self.running)
            if self._another_computes(sequence, known) or not self._reserve(room):
                return
            self.waiting.popleft()
            self.running.append(sequence)
            sequence.kv = KvBuffer(self._model.layout, len(tokens))
            sequence.kv_generation = self.generation
            for piece in pieces:
                sequence.kv.fill(piece)
            if not sequence.retractions:
                sequence.cached_tokens = known
                self.totals.prompt_tokens += len(sequence.prompt)
                self.totals.cached_tokens += known

    def _another_computes(self, sequence: Sequence, known: int) -> bool:
        busy = (other for other in self.running if not other.output and other.namespace == sequence.namespace)
        shared = max((shared_prefix(sequence.prompt, other.prompt) for other in busy), default=0)
        return min(shared, sequence.most_cached) - known > WORTH_WAITING_TOKENS

    def _make_room(self) -> None:
        for sequence in self.running.copy():
            while sequence.kv is not None and sequence.kv.capacity < sequence.length:
                if self._reserve(BLOCK_TOKENS):
                    sequence.kv.grow(sequence.length)
                else:
                    self._retract(self.running[-1])

    def _reserve(self, tokens: int) -> bool:
        short = self.live_tokens + tokens - self.kv_tokens
        if short > 0:
            return False
        self.tree.evict(max(0, short + self.tree.tokens))
        return True

    def _retract(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        sequence.kv = None
        sequence.retractions += 1
        self.totals.retracted += 1
        self.waiting.appendleft(sequence)

    def _plan(self) -> list[Planned]:
        budget = self._prefill_chunk
        plan: list[Planned] = []
        for sequence in self.running:
            open_tokens = sequence.length - sequence.computed
            tokens = 1 if open_tokens == 1 else min(open_tokens, budget)
            if tokens:
                plan.append(Planned(sequence, tokens))
                budget -= tokens if open_tokens > 1 else 0
        # Tokens of one adapter stand together, so that it is applied to one slice.
        return sorted(plan, key=lambda planned: planned.sequence.namespace)

    def _rows(self, plan: list[Planned]) -> tuple[list[Row], list[int]]:
        rows: list[Row] = []
        ids: list[int] = []
        slices: list[Slice] = []
        for sequence, tokens in plan:
            kv, past = sequence.kv, sequence.computed
            assert kv is not None
            start, end = len(ids), len(ids) + tokens
            rows.append(Row(kv, start, end, past))
            ids.extend(sequence.ids(past, tokens))
            if sequence.adapter is not None:
                if slices and slices[-1].adapter is sequence.adapter:
                    start = slices.pop().start
                slices.append(Slice(start, end, sequence.adapter))
        self._bank.active = slices
        return rows, ids
