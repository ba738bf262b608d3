"""One live request inside the engine, and what it tells the server as it goes."""

from collections.abc import Callable
from typing import NamedTuple

from collector.engine.wire import Finish, GenerateRequest, Span
from trainer.engine.adapters import BASE_NAMESPACE, Adapter
from trainer.engine.kv_buffer import KvBuffer
from trainer.engine.sampling import Draw, Sampled
from trainer.engine.stopping import StopRule


class Progress(NamedTuple):
    """What one step added to a reply; the last one carries the finish and the spans."""

    token_ids: list[int]
    logprobs: list[float]
    completion_tokens: int
    """Sampled so far."""
    cached_tokens: int
    """Prompt tokens taken from the prefix cache."""
    retractions: int
    """How often the request lost its keys and values and was computed again."""
    weight_version: str
    finish: Finish | None = None
    spans: tuple[Span, ...] = ()
    input_logprobs: tuple[tuple[float | None, int], ...] = ()
    """Prompt tokens from `logprob_start_len` on, each with its log-probability at T = 1; the first has none."""


Sink = Callable[[Progress], None]
"""Where a request's progress goes; called in the server's thread."""


class Sequence:
    """A request with what was sampled for it and its keys and values."""

    def __init__(
        self, request: GenerateRequest, *, adapter: Adapter | None, rule: StopRule, seed: int, sink: Sink
    ) -> None:
        self.rid = request.rid
        self.prompt = request.input_ids
        self.params = request.sampling_params
        self.adapter = adapter
        self.sink = sink
        self.output: list[int] = []
        self.kv: KvBuffer | None = None
        self.kv_generation = 0
        """Generation of the base weights that its keys and values began with."""
        self.cached_tokens = 0
        self.retractions = 0
        self.score_from = request.logprob_start_len if request.return_logprob else -1
        """First prompt token whose log-probability is wanted; -1 for none."""
        self._input_logprobs: list[float] = []
        self._rule = rule
        self._seed = seed
        self._version_changes: list[tuple[str, int]] = []

    @property
    def namespace(self) -> int:
        """Where its prefix may be shared: one load of one adapter."""
        return self.adapter.namespace if self.adapter is not None else BASE_NAMESPACE

    @property
    def tokens(self) -> list[int]:
        """Prompt and what was sampled."""
        return self.prompt + self.output

    def ids(self, start: int, count: int) -> list[int]:
        """So many tokens from `start` on."""
        prompt = len(self.prompt)
        if start >= prompt:
            return self.output[start - prompt : start - prompt + count]
        return self.tokens[start : start + count]

    @property
    def length(self) -> int:
        """Tokens of the prompt and sampled ones."""
        return len(self.prompt) + len(self.output)

    @property
    def computed(self) -> int:
        """Tokens whose keys and values are there."""
        return self.kv.length if self.kv is not None else 0

    @property
    def most_cached(self) -> int:
        """Longest prefix that may come from the cache: what is scored is computed."""
        most = self.length - 1
        known = self.score_from + len(self._input_logprobs)
        return most if self.score_from < 0 or known >= len(self.prompt) - 1 else min(most, known)

    def to_score(self, past: int, tokens: int) -> range:
        """Which of the tokens of a step, `tokens` from `past` on, predict a prompt token that is to be scored."""
        if self.score_from < 0:
            return range(0)
        first = max(past, self.score_from + len(self._input_logprobs))
        return range(first, min(past + tokens, len(self.prompt) - 1))

    def take_scores(self, logprobs: list[float]) -> None:
        """Adds log-probabilities of the next prompt tokens."""
        self._input_logprobs += logprobs

    def draw(self) -> Draw:
        """What the sampling of the next token needs to know."""
        return Draw(self.params, self._seed, self.length - 1, self.output, self._rule.stop_ids)

    def take(self, sampled: Sampled, version: str) -> Progress:
        """Adds a sampled token."""
        self.output.append(sampled.token_id)
        finish = self._rule.finish(self.output)
        return self.progress(version, [sampled.token_id], [sampled.logprob], finish)

    def stop_unsampled(self, version: str) -> Progress:
        """Ends a request for no tokens at all: its prompt is computed, and that is all."""
        return self.progress(version, [], [], Finish(type="length", length=0))

    def progress(self, version: str, token_ids: list[int], logprobs: list[float], finish: Finish | None) -> Progress:
        """What to tell the server after a step."""
        return Progress(
            token_ids,
            logprobs,
            completion_tokens=len(self.output),
            cached_tokens=self.cached_tokens,
            retractions=self.retractions,
            weight_version=version,
            finish=finish,
            spans=self._spans(version) if finish is not None else (),
            input_logprobs=self._scores(),
        )

    def note_version_change(self, old: str) -> None:
        """Ends a span: the tokens so far were sampled by the old base weights."""
        if self.output:
            self._version_changes.append((old, len(self.output)))

    def _scores(self) -> tuple[tuple[float | None, int], ...]:
        if self.score_from < 0:
            return ()
        return tuple(zip((None, *self._input_logprobs), self.prompt[self.score_from :], strict=False))

    def _spans(self, version: str) -> tuple[Span, ...]:
        spans: list[Span] = []
        for name, end in [*self._version_changes, (version, len(self.output))]:
            start = spans[-1].end if spans else 0
            if spans and spans[-1].version == name:
                spans[-1] = Span(version=name, start=spans[-1].start, end=end)
            elif end > start or not spans:
                spans.append(Span(version=name, start=start, end=end))
        return tuple(spans)
