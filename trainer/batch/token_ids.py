"""The ids and log-probabilities of chosen sessions' turns, read in a second pass over the store."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from collector.store.snapshot import Snapshot
from trainer.batch.tenant_capture import Place, TurnFacts, frames
from trainer.rows import Ids, Logprobs

_TYPES: Mapping[str, type[Any]] = {"prompt_ids": np.int32, "completion_ids": np.int32, "sampled_logprobs": np.float32}


class TurnIds(NamedTuple):
    """The tokens of one turn."""

    prompt_ids: Ids
    """Empty where the prompt is lost; the turn is then not trainable. A view of a later turn's prompt that extends
    it, so that a session takes memory with its length and not with its square."""
    completion_ids: Ids
    sampled_logprobs: Logprobs


def read_ids(snapshot: Snapshot, turns: Collection[TurnFacts]) -> dict[Place, TurnIds]:
    """The tokens of these turns; segments that end before the first of them are not opened."""
    found: dict[Place, TurnIds] = {}
    if not turns:
        return found
    parents = _parents(turns)
    for place, ids in _read(snapshot, turns):
        if place in parents:
            found[place] = ids
            _share(place, found, parents)
    return found


def _read(snapshot: Snapshot, turns: Collection[TurnFacts]) -> Iterator[tuple[Place, TurnIds]]:
    """The tokens of the turns' sessions, and of other tenants' sessions of the same names."""
    sessions = list({turn.session_id for turn in turns})
    for frame in frames(snapshot, ("writer", "seq", "session_id", *_TYPES), since=_first_seqs(turns)):
        chosen = frame.filter(pl.col("session_id").is_in(sessions))
        places = zip(chosen["writer"], chosen["seq"], strict=True)
        for place, *arrays in zip(places, *(_arrays(chosen[name], kind) for name, kind in _TYPES.items()), strict=True):
            yield place, TurnIds(*arrays)


def _share(place: Place, found: dict[Place, TurnIds], parents: Mapping[Place, Place | None]) -> None:
    """Makes the prompts that a turn's prompt extends views of it."""
    whole = found[place].prompt_ids
    before = parents[place]
    held = found[before].prompt_ids if before is not None and before in found else None
    if held is None or not np.array_equal(whole[: len(held)], held):
        return
    # Whatever is a view of the parent's prompt becomes a view of this one; then nothing holds the parent's.
    owner = held if held.base is None else held.base
    while before is not None and before in found:
        ids = found[before]
        if ids.prompt_ids is not owner and ids.prompt_ids.base is not owner:
            break
        found[before] = ids._replace(prompt_ids=whole[: len(ids.prompt_ids)])
        before = parents[before]


def _parents(turns: Collection[TurnFacts]) -> dict[Place, Place | None]:
    """Each turn's parent; None where it has none among them that is numbered lower."""
    named = {(turn.session_id, turn.turn_id): turn for turn in turns}
    found = {turn.place: named.get((turn.session_id, turn.parent_turn_id or "")) for turn in turns}
    return {
        turn.place: parent.place if (parent := found[turn.place]) is not None and parent.turn < turn.turn else None
        for turn in turns
    }


def _first_seqs(turns: Collection[TurnFacts]) -> dict[str, int]:
    first: dict[str, int] = {}
    for writer, seq in (turn.place for turn in turns):
        first[writer] = min(seq, first.get(writer, seq))
    return first


# Any: NumPy's own parameter for an element type.
def _arrays(lists: pl.Series, kind: type[Any]) -> list[np.ndarray[Any, np.dtype[Any]]]:
    """A list column as arrays that own their memory; a null one is empty."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    values = lists.filter(lists.list.len() > 0).explode().to_numpy()
    return [part.astype(kind) for part in np.split(values, np.cumsum(lengths)[:-1])] if len(lengths) else []
