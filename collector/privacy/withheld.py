"""Turns that are not trained on for a person's sake, and what of them is left out of the store."""

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from collector.records import Link, Turn

Withheld = Literal["redacted", "opted_out"]
"""Why a turn is withheld from training, the graver first."""
WITHHELD: tuple[Withheld, ...] = get_args(Withheld)


def graver(reasons: Iterable[str | None]) -> Withheld | None:
    """The gravest of some reasons; None when none of them withholds."""
    found = set(reasons)
    return next((reason for reason in WITHHELD if reason in found), None)


def inherited(earlier: Iterable[str | None], link: Link, in_session: Iterable[str], *, lost: bool) -> Withheld | None:
    """What withholds a turn because of the turns before it, whose text it carries on.

    `earlier` is why each turn that it continues is withheld, `in_session` why any turn of the session is. A break
    rewrites the history, which may carry any of them; of secrets the search tells. `lost` says that turns of the
    session were read back without their ids: nobody knows any more what of them is carried on.
    """
    reasons = [*earlier]
    if link in ("break", "compaction"):
        reasons += [reason for reason in in_session if reason == "opted_out"]
    if lost and link not in ("root", "subagent"):
        reasons += in_session
    return graver(reasons)


def without_tokens(turn: Turn) -> Turn:
    """The turn without what its text could be read from: ids and log-probabilities."""
    return msgspec.structs.replace(
        turn,
        prompt_ids=[],
        completion_ids=[],
        sampled_logprobs=[],
        weight_versions=[],
        logit_bias=None,
        loss_mask=None,
        routed_experts=None,
    )


def bare(turn: Turn) -> Turn:
    """The turn without tokens and without texts."""
    return msgspec.structs.replace(without_tokens(turn), request=None, response=None)
