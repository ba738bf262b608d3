"""Which earlier turn of its session each suspect turn continues."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from checks.measures.held_turn import HeldTurn
from checks.measures.overlap import Overlap, SessionGrams
from checks.measures.token_grams import GRAM, GramSet, grams
from checks.measures.turn_messages import continued_by_messages

SHARE = 0.5
"""Least share of an earlier prompt's 6-grams that has to reappear in a prompt that continues it."""
_TIES = 32
"""Turns looked at where several have an equally long prefix in common; the newest ones."""


class Continued(NamedTuple):
    """What a suspect turn goes on from."""

    previous: HeldTurn | None
    """The turn that it continues without extending it; None for a new root, or a branch of its parent."""
    nearest: HeldTurn | None
    """The turn with the longest common prefix: what a declared compaction replaced."""


def continuations(turns: Sequence[HeldTurn]) -> Iterator[tuple[HeldTurn, Continued]]:
    """Each suspect turn of a session, and what it goes on from."""
    session = SessionGrams(turns)
    for turn in turns:
        if turn.suspect:
            overlap = Overlap(turn.prompt(), session, turn.place)
            yield turn, _continued(turn, overlap, [each for each in turns[: turn.place] if not each.failed])


def _continued(turn: HeldTurn, overlap: Overlap, whole: Sequence[HeldTurn]) -> Continued:
    # A prompt that ends before it differs takes an earlier state up again.
    pool = [each for each in whole if overlap.common(each) < turn.prompt_tokens]
    if turn.parent is not None:
        pool = [each for each in pool if each is not turn.parent and turn.parent in each.line()]
    told = continued_by_messages(turn.messages, [each.messages for each in pool])
    pool = [pool[place] for place in told.places]
    if told.known:
        chosen = _of_most(overlap, pool)
    elif turn.parent is None:
        gone_on = {id(each.parent) for each in whole}
        chosen = _by_share(overlap, [each for each in pool if id(each) not in gone_on]) or _by_beginning(overlap, pool)
    else:
        chosen = _by_reply(overlap, turn.parent.tokens, pool)
    return Continued(chosen, _nearest(overlap, whole))


def _of_most(overlap: Overlap, turns: Sequence[HeldTurn]) -> HeldTurn | None:
    """Of turns that fit equally well, the one most of which reappears."""
    if len(turns) <= 1:
        return turns[0] if turns else None
    return max(
        turns,
        key=lambda each: (overlap.common(each), overlap.in_prompt(each), overlap.in_completion(each), each.place),
    )


def _by_share(overlap: Overlap, turns: Sequence[HeldTurn]) -> HeldTurn | None:
    """The turn of whose prompt at least half reappears, and of those the one of which most does.

    Turns that were gone on from are not among those given: half of the first prompt of a line comes back in whatever
    has its system prompt, and the line itself went on elsewhere.
    """
    best: list[HeldTurn] = []
    most = 0
    for turn in sorted(turns, key=lambda each: each.prompt_tokens, reverse=True):
        if max(0, turn.prompt_tokens - GRAM + 1) < most:
            break
        if overlap.share(turn) >= SHARE and (found := overlap.in_prompt(turn)) >= most:
            best = [*best, turn] if found == most else [turn]
            most = found
    return _of_most(overlap, best)


def _by_beginning(overlap: Overlap, turns: Sequence[HeldTurn]) -> HeldTurn | None:
    """The turn in whose line the prompt begins with a whole earlier prompt and goes on with another completion.

    However much was dropped since, thinking above all, and however small a share of the line's end is therefore left.
    """
    begun = {id(each) for each in turns if 0 < each.prompt_tokens <= overlap.common(each)}
    if not begun:
        return None
    return _of_most(overlap, [each for each in turns if any(id(above) in begun for above in each.line())])


def _by_reply(overlap: Overlap, shared: int, turns: Sequence[HeldTurn]) -> HeldTurn | None:
    """The deepest turn that the prompt goes on from although it extends an earlier one: its reply is in it, rewritten.

    Either the prompt begins with that turn's whole prompt and goes on with another completion, or at least half of
    the completion's 6-grams reappear after what is extended.
    """
    after = GramSet(grams(overlap.prompt[max(0, shared - GRAM + 1) :]))
    for turn in sorted(turns, key=lambda each: (each.prompt_tokens, each.place), reverse=True):
        of_reply = turn.grams()[turn.grams_of_prompt :]
        begins = turn.prompt_tokens <= overlap.common(turn)
        if begins or (len(of_reply) and after.holds(of_reply).mean() >= SHARE):
            return turn
    return None


def _nearest(overlap: Overlap, turns: Sequence[HeldTurn]) -> HeldTurn | None:
    longest = max((overlap.common(turn) for turn in turns), default=0)
    ties = [turn for turn in turns if overlap.common(turn) == longest][-_TIES:]
    return (
        ties[0] if len(ties) == 1 else max(ties, key=lambda each: (overlap.in_prompt(each), each.place), default=None)
    )
