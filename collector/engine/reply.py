"""From the events of one `/generate` reply to deltas, and the engine's contract checked on the way."""

from typing import Annotated, NamedTuple

import msgspec

from collector.engine.wire import Count, Delta, Finish, Span, TokenId
from collector.errors import EngineError

# What a 32-bit float holds: a record keeps log-probabilities as such.
_MOST = 3.4028234663852886e38
_Logprob = Annotated[float, msgspec.Meta(ge=-_MOST, le=_MOST)]


class _Sampled(NamedTuple):
    """One entry of `output_token_logprobs`."""

    logprob: float
    token_id: int


class _MetaInfo(msgspec.Struct, frozen=True):
    completion_tokens: Count | None = None
    prompt_tokens: Count | None = None
    cached_tokens: Count | None = None
    finish_reason: Finish | None = None
    output_token_logprobs: list[tuple[_Logprob, TokenId, str | None]] = []
    output_token_logprobs_length: Count | None = None
    weight_versions: list[Span] | None = None


class _Refusal(msgspec.Struct, frozen=True):
    message: str
    code: int | None = None


class _Event(msgspec.Struct, frozen=True):
    output_ids: list[TokenId] = []
    meta_info: _MetaInfo | None = None
    error: _Refusal | None = None


_DECODER = msgspec.json.Decoder(_Event)


class ReplyReader:
    """Reads one reply, whether its events repeat all output so far or hold what is new."""

    def __init__(self, rid: str) -> None:
        self.rid = rid
        self._sampled: list[_Sampled] = []
        self.ended = False
        """Whether the engine has said its last word: a finish reason or a refusal."""

    @property
    def token_count(self) -> int:
        """Tokens read so far."""
        return len(self._sampled)

    def read(self, payload: bytes) -> Delta | None:
        """What this event added; None when it added nothing."""
        event = self._decode(payload)
        meta = event.meta_info
        if event.error is not None:
            raise self._refused(event.error.message, event.error.code)
        if self.ended:
            raise self._broken("an event after the finish reason", "nothing but [DONE]")
        if meta is None:
            raise self._broken("an event without meta_info", "output_ids and meta_info")
        new = self._new_tokens(event.output_ids, meta)
        self._sampled += new
        finish = meta.finish_reason
        if finish is None:
            return _delta(new, meta) if new else None
        if not self._sampled and finish.type == "abort" and (finish.status_code or 0) >= 400:
            raise self._refused(finish.message, finish.status_code)
        self._check_totals(meta)
        spans = self._spans(meta)
        self.ended = True
        return msgspec.structs.replace(
            _delta(new, meta),
            finish=finish,
            spans=spans,
            prompt_tokens=meta.prompt_tokens,
            completion_tokens=meta.completion_tokens,
        )

    def _decode(self, payload: bytes) -> _Event:
        try:
            return _DECODER.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._broken(f"an event that cannot be read ({error})", "the JSON of a /generate reply") from error

    def _new_tokens(self, ids: list[int], meta: _MetaInfo) -> list[_Sampled]:
        entries = [_Sampled(logprob, token_id) for logprob, token_id, _ in meta.output_token_logprobs]
        seen = self.token_count
        total = seen + len(ids) if meta.completion_tokens is None else meta.completion_tokens
        if [entry.token_id for entry in entries] == ids:
            if seen + len(ids) == total:
                return entries
            if len(ids) == total:
                return self._after_what_was_read(entries)
        if _is_abort(meta):
            return self._tokens_of_queued_abort(ids, entries, total)
        if len(entries) != len(ids):
            raise self._broken(f"{len(entries)} log-probabilities for {len(ids)} ids", "as many as ids")
        if [entry.token_id for entry in entries] != ids:
            raise self._broken("log-probabilities of other ids than output_ids", "the same ids in the same order")
        raise self._broken(
            f"{len(ids)} ids after {seen} at completion_tokens {total}", f"{total - seen} or {total} ids"
        )

    def _tokens_of_queued_abort(self, ids: list[int], entries: list[_Sampled], total: int) -> list[_Sampled]:
        # SGLang 0.5.23 answers the abort of a queued request that had output (it was retracted) with its last id
        # once more and all log-probabilities once more, merged behind any events not yet sent.
        new = self._after_what_was_read(entries[len(entries) - total :]) if len(entries) >= total else None
        repeated = [entry.token_id for entry in entries[-1:]]
        if new is None or ids != [entry.token_id for entry in new] + repeated:
            raise self._broken(f"{len(entries)} log-probabilities for {len(ids)} ids in an abort", "as many as ids")
        return new

    def _after_what_was_read(self, entries: list[_Sampled]) -> list[_Sampled]:
        seen = self.token_count
        if entries[:seen] != self._sampled:
            raise self._broken(f"a repetition that differs from the {seen} tokens read before", "the same tokens")
        return entries[seen:]

    def _check_totals(self, meta: _MetaInfo) -> None:
        count = self.token_count
        if meta.completion_tokens != count or meta.output_token_logprobs_length != count:
            raise self._broken(
                f"completion_tokens {meta.completion_tokens} and output_token_logprobs_length "
                f"{meta.output_token_logprobs_length}",
                f"{count} in both, the number of ids",
            )

    def _spans(self, meta: _MetaInfo) -> list[Span]:
        if not meta.weight_versions:
            return []
        spans = [span for span in meta.weight_versions if span.start != span.end]
        starts = [span.start for span in spans] + [self.token_count]
        ends = [0] + [span.end for span in spans]
        if starts != ends or any(span.start > span.end for span in spans):
            found = ", ".join(f"{span.version}: {span.start} to {span.end}" for span in meta.weight_versions)
            raise self._broken(f"weight_versions {found}", f"spans that cover 0 to {self.token_count} exactly once")
        return spans

    def _refused(self, message: str | None, status: int | None) -> EngineError:
        self.ended = True
        return EngineError(f"the engine refused {self.rid}: {message or 'no message'}", status=status)

    def _broken(self, found: str, expected: str) -> EngineError:
        return EngineError(
            f"the engine broke its contract in the reply to {self.rid}: found {found}, expected {expected}; "
            "the reply is not to be used, check the engine's version (SGLang 0.5.23 is known to work)"
        )


def _is_abort(meta: _MetaInfo) -> bool:
    return meta.finish_reason is not None and meta.finish_reason.type == "abort"


def _delta(new: list[_Sampled], meta: _MetaInfo) -> Delta:
    return Delta(
        token_ids=[entry.token_id for entry in new],
        logprobs=[entry.logprob for entry in new],
        cached_tokens=meta.cached_tokens,
    )
