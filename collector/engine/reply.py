"""From the events of one `/generate` reply to deltas, and the engine's contract checked on the way."""

import base64
from collections.abc import Iterable, Iterator, Sequence
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


# Several for each token: without cycles, and so not looked for by the garbage collector.
class _MetaInfo(msgspec.Struct, frozen=True, gc=False):
    id: str | None = None
    completion_tokens: Count | None = None
    prompt_tokens: Count | None = None
    cached_tokens: Count | None = None
    finish_reason: Finish | None = None
    output_token_logprobs: list[tuple[_Logprob, TokenId, str | None]] = []
    output_token_logprobs_length: Count | None = None
    weight_versions: list[Span] | None = None
    routed_experts: str | None = None


class _Refusal(msgspec.Struct, frozen=True, gc=False):
    message: str
    code: int | None = None


class _Event(msgspec.Struct, frozen=True, gc=False):
    output_ids: list[TokenId] = []
    meta_info: _MetaInfo | None = None
    error: _Refusal | None = None


_DECODER = msgspec.json.Decoder(_Event)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_DECODER_OF_MANY = msgspec.json.Decoder(list[_Event])


class _Ending(NamedTuple):
    """What only the last event of a reply tells."""

    spans: list[Span]
    routed_experts: bytes | None


class ReplyReader:
    """Reads one reply, whether its events repeat all output so far or hold what is new."""

    def __init__(self, rid: str) -> None:
        self.rid = rid
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self.ended = False
        """Whether the engine has said its last word: a finish reason or a refusal."""
        self.failure: EngineError | None = None
        """Why nothing more is read: what was to be read next is refused."""

    @property
    def token_count(self) -> int:
        """Tokens read so far."""
        return len(self._ids)

    def read(self, payloads: Sequence[bytes]) -> Delta | None:
        """What these events added, up to the first that is refused; None when they added nothing."""
        start = end = self.token_count
        last: _MetaInfo | None = None
        ending = _Ending([], None)
        try:
            for event in self._decode(payloads):
                meta = event.meta_info
                if meta is None or event.error is not None or self.ended:
                    raise self._out_of_place(event)
                if meta.id is not None and meta.id != self.rid:
                    raise self._broken(f"an event of {meta.id}", "those of this request only")
                self._add(event.output_ids, meta)
                if meta.finish_reason is not None:
                    ending = self._end(meta, meta.finish_reason)
                last, end = meta, len(self._ids)
        except EngineError as error:
            self.failure = error
        if last is None or (end == start and last.finish_reason is None):
            return None
        return Delta(
            token_ids=self._ids[start:end],
            logprobs=self._logprobs[start:end],
            finish=last.finish_reason,
            spans=ending.spans,
            prompt_tokens=last.prompt_tokens if last.finish_reason else None,
            completion_tokens=last.completion_tokens if last.finish_reason else None,
            cached_tokens=last.cached_tokens,
            routed_experts=ending.routed_experts,
        )

    def _out_of_place(self, event: _Event) -> EngineError:
        if event.error is not None:
            return self._refused(event.error.message, event.error.code)
        if self.ended:
            return self._broken("an event after the finish reason", "nothing but [DONE]")
        return self._broken("an event without meta_info", "output_ids and meta_info")

    def _end(self, meta: _MetaInfo, finish: Finish) -> _Ending:
        if not self._ids and finish.type == "abort" and (finish.status_code or 0) >= 400:
            raise self._refused(finish.message, finish.status_code)
        self._check_totals(meta)
        ending = _Ending(self._spans(meta), self._routes(meta))
        self.ended = True
        return ending

    def _decode(self, payloads: Sequence[bytes]) -> Iterable[_Event]:
        try:
            events = _DECODER_OF_MANY.decode(b"[%b]" % b",".join(payloads))
        except _UNREADABLE:
            return self._decode_each(payloads)
        return events if len(events) == len(payloads) else self._decode_each(payloads)

    def _decode_each(self, payloads: Sequence[bytes]) -> Iterator[_Event]:
        for payload in payloads:
            try:
                event = _DECODER.decode(payload)
            except _UNREADABLE as error:
                raise self._broken(
                    f"an event that cannot be read ({error})", "the JSON of a /generate reply"
                ) from error
            yield event

    def _add(self, ids: list[int], meta: _MetaInfo) -> None:
        entries = meta.output_token_logprobs
        entry_ids = [entry[1] for entry in entries]
        seen = len(self._ids)
        total = seen + len(ids) if meta.completion_tokens is None else meta.completion_tokens
        if entry_ids == ids and seen + len(ids) == total:
            self._ids += ids
            self._logprobs += [entry[0] for entry in entries]
            return
        for entry in self._new_entries(ids, [_Sampled(logprob, index) for logprob, index, _ in entries], meta, total):
            self._ids.append(entry.token_id)
            self._logprobs.append(entry.logprob)

    def _new_entries(self, ids: list[int], entries: list[_Sampled], meta: _MetaInfo, total: int) -> list[_Sampled]:
        seen = self.token_count
        same = [entry.token_id for entry in entries] == ids
        if same and len(ids) == total:
            return self._after_what_was_read(entries)
        if _is_abort(meta):
            return self._tokens_of_queued_abort(ids, entries, total)
        if len(entries) != len(ids):
            raise self._broken(f"{len(entries)} log-probabilities for {len(ids)} ids", "as many as ids")
        if not same:
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
        if entries[:seen] != list(zip(self._logprobs, self._ids, strict=True)):
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

    def _routes(self, meta: _MetaInfo) -> bytes | None:
        if meta.routed_experts is None:
            return None
        try:
            return base64.b64decode(meta.routed_experts, validate=True)
        except ValueError as error:
            raise self._broken(f"routed_experts that cannot be read ({error})", "base64 of int32") from error

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
