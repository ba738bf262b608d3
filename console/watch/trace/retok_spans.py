"""Where a completion comes back as other ids once it has been text: every span of it."""

from collections.abc import Sequence
from typing import NamedTuple

from checks.measures.reencoding import Difference, Reencoder
from collector.rendering.tokenizer import ChatTokenizer
from console.watch.trace.id_diff import runs


class RetokSpan(NamedTuple):
    """Neighbouring ids of a completion that come back as others."""

    start: int
    end: int
    """One past the last; equal to `start` where ids come back that were not there."""
    recorded: tuple[int, ...]
    encoded: tuple[int, ...]
    same_text: bool
    """Whether both stand for the same bytes."""


class Retokenized(NamedTuple):
    """What encode(decode(ids)) makes of a completion."""

    spans: tuple[RetokSpan, ...]
    kept: int
    """Ids that come back as they are, in their place."""
    first: Difference | None
    """As retokenization-drift reports it: at its first place, and why."""


def retokenized(tokenizer: ChatTokenizer, completion: list[int], prompt: list[int] | None) -> Retokenized:
    """The spans of one completion; a span ends where both ways of writing the text end a token."""
    reencoder = Reencoder(tokenizer)
    again = reencoder.again(completion, prompt)
    if again == completion:
        return Retokenized((), len(completion), None)
    (first,) = reencoder.differences([completion], [prompt])
    pieces = [reencoder.bytes_of(each) for each in completion], [reencoder.bytes_of(each) for each in again]
    if b"".join(pieces[0]) == b"".join(pieces[1]) and all(all(side) for side in pieces):
        spans = _by_text(completion, again, *([len(piece) for piece in side] for side in pieces))
    else:
        spans = _by_ids(completion, again, reencoder)
    return Retokenized(tuple(spans), len(completion) - sum(each.end - each.start for each in spans), first)


def _by_text(
    recorded: list[int], encoded: list[int], sizes: Sequence[int], sizes_now: Sequence[int]
) -> list[RetokSpan]:
    """Both are the same bytes, and every token has some: compared between the places where both end a token."""
    spans: list[RetokSpan] = []
    i = j = 0
    while i < len(recorded):
        if recorded[i] == encoded[j]:
            i, j = i + 1, j + 1
            continue
        start, start_now, done, done_now = i, j, 0, 0
        while done == 0 or done != done_now:
            if done <= done_now:
                done, i = done + sizes[i], i + 1
            else:
                done_now, j = done_now + sizes_now[j], j + 1
        spans.append(RetokSpan(start, i, tuple(recorded[start:i]), tuple(encoded[start_now:j]), True))
    return spans


def _by_ids(recorded: list[int], encoded: list[int], reencoder: Reencoder) -> list[RetokSpan]:
    """The text itself did not come back: aligned so that as many ids as possible are kept."""
    spans: list[RetokSpan] = []
    i = j = 0
    for run in [*runs(recorded, encoded), None]:
        if run is not None and run.kind != "same":
            continue
        start, start_now = (len(recorded), len(encoded)) if run is None else (run.before, run.now)
        if start > i or start_now > j:
            was, now = tuple(recorded[i:start]), tuple(encoded[j:start_now])
            texts = [b"".join(reencoder.bytes_of(each) for each in side) for side in (was, now)]
            spans.append(RetokSpan(i, start, was, now, texts[0] == texts[1]))
        if run is not None:
            i, j = run.before + run.length, run.now + run.length
    return spans
