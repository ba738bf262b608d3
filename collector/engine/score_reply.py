"""From the reply to a `/generate` that samples nothing to the log-probabilities of the given tokens."""

import math

import msgspec

from collector.engine.wire import Count, Finish, Scored, TokenId
from collector.errors import EngineError


class _MetaInfo(msgspec.Struct, frozen=True):
    input_token_logprobs: list[tuple[float | None, TokenId, str | None]]
    finish_reason: Finish | None = None
    cached_tokens: Count | None = None


class _Reply(msgspec.Struct, frozen=True):
    meta_info: _MetaInfo


_DECODER = msgspec.json.Decoder(_Reply)


def read_scored(body: bytes, *, ids: list[int], start: int, rid: str) -> Scored:
    """One number for each token after `start`, and the same ids as were sent; anything else is refused."""
    try:
        meta = _DECODER.decode(body).meta_info
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(rid, f"a reply that cannot be read ({error})", "the JSON of a /generate reply") from error
    finish = meta.finish_reason
    if finish is not None and finish.type == "abort":
        raise EngineError(f"the engine ended {rid}: {finish.message or 'no message'}", status=finish.status_code)
    wanted = ids[start:]
    if not _same_ids([token for _, token, _ in meta.input_token_logprobs], wanted):
        found = f"log-probabilities of {len(meta.input_token_logprobs)} other tokens"
        raise _broken(rid, found, f"those of the {len(wanted)} tokens from {start} on")
    numbers = [number for number, _, _ in meta.input_token_logprobs]
    scored = [number for number in numbers[1:] if number is not None and math.isfinite(number)]
    if numbers[:1] != [None] or len(scored) != len(numbers) - 1:
        raise _broken(rid, f"{len(scored)} finite numbers", f"none for the first token and {len(numbers) - 1} after it")
    return Scored(logprobs=scored, cached_tokens=meta.cached_tokens)


def _same_ids(found: list[int], wanted: list[int]) -> bool:
    # SGLang 0.5.23 says 0 for the last id of the vocabulary (`logprob_result_processor.py`); its number is right.
    last = max(wanted, default=0)
    return len(found) == len(wanted) and all(
        one == other or (one == 0 and other == last) for one, other in zip(found, wanted, strict=True)
    )


def _broken(rid: str, found: str, expected: str) -> EngineError:
    return EngineError(
        f"the engine broke its contract in the reply to {rid}: found {found}, expected {expected}; "
        "check the engine's version (SGLang 0.5.23 is known to work)"
    )
