"""The tokens around a fault: cut from the turns of the few pieces of evidence that are shown."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from checks.finding import Evidence
from checks.log import Batch

AROUND = 24
"""Most tokens kept on either side of a fault."""
TURN_COLUMNS = ("prompt_ids", "completion_ids", "sampled_logprobs", "request", "place")
"""Columns of `turns` that the batches must have."""
SCORE_COLUMNS = ("trainer_step", "trainer_logprobs")
"""Columns of `scores` that the batches must have."""

Side = Literal["prompt", "completion"]
PROMPT_CHECKS = frozenset({"prefix-break", "template-mismatch"})
"""Checks whose `token_index` counts in `prompt_ids`; the others count in `completion_ids`."""
WHOLE_CHECKS = frozenset({"retokenization-drift", "template-mismatch"})
"""Checks whose fault is a difference to what the tokenizer or the template makes of the whole turn."""
END_CHECKS = frozenset({"truncation"})
"""Checks whose fault is where the completion ends."""


class Shown(NamedTuple):
    """A piece of evidence that is shown, and the check that it is of."""

    check: str
    evidence: Evidence


class Piece(NamedTuple):
    """Consecutive tokens of a longer sequence."""

    ids: tuple[int, ...]
    start: int
    """Index of the first of them in the sequence."""
    length: int
    """Tokens of the whole sequence."""


class TokenContext(NamedTuple):
    """What stands around one fault. What the log does not hold is None."""

    place: str | None
    """`file:line` of the turn."""
    side: Side
    at: int | None = None
    """Index of the fault; None where the evidence names no token."""
    current: Piece | None = None
    """Tokens around the fault."""
    previous: Piece | None = None
    """For a break: the same indices of the prompt + completion of the turn that it continues."""
    sampled_logprobs: tuple[float | None, ...] = ()
    """Of the tokens of `current`, as far as there are any."""
    trainer_logprobs: tuple[float | None, ...] = ()
    """The same, by the trainer."""
    whole: tuple[int, ...] | None = None
    """Every token of the side, for `WHOLE_CHECKS`."""
    request: str | None = None
    """The request as JSON, for `WHOLE_CHECKS`."""


class _Turn(NamedTuple):
    """One turn of a batch, its lists still columns."""

    columns: dict[str, Any]
    scores: list[dict[str, Any]]


def token_contexts(batches: Iterable[Batch], shown: Sequence[Shown]) -> list[TokenContext | None]:
    """What stands around each piece, in their order; None where the turn was not found. Stops when all were found."""
    contexts: list[TokenContext | None] = [None] * len(shown)
    currents: dict[tuple[str, int], list[int]] = {}
    previous: dict[tuple[str, int], list[int]] = {}
    for index, (_, each) in enumerate(shown):
        if each.session_id is not None and each.turn is not None:
            currents.setdefault((each.session_id, each.turn), []).append(index)
            if each.previous_turn is not None and each.token_index is not None:
                previous.setdefault((each.session_id, each.previous_turn), []).append(index)
    pieces: dict[int, Piece] = {}
    for batch in batches:
        for key, turn in _turns(batch, {*currents, *previous}):
            for index in currents.pop(key, ()):
                contexts[index] = _context(*shown[index], turn)
            for index in previous.pop(key, ()):
                pieces[index] = _previous(shown[index].evidence.token_index or 0, turn)
        if not currents and not previous:
            break
    return [context and context._replace(previous=pieces.get(index)) for index, context in enumerate(contexts)]


def sessions_of(shown: Iterable[Shown]) -> list[str]:
    """The sessions that have to be read for them."""
    return list(dict.fromkeys(each.session_id for _, each in shown if each.session_id is not None and each.turn))


def _turns(batch: Batch, keys: set[tuple[str, int]]) -> Iterable[tuple[tuple[str, int], _Turn]]:
    """The turns of a batch that are among the keys."""
    sessions, numbers = list({key[0] for key in keys}), list({key[1] for key in keys})
    near = batch.turns.with_row_index("row").filter(
        pl.col("session_id").is_in(sessions) & pl.col("turn").is_in(numbers)
    )
    for index in range(near.height):
        columns = {name: near[name][index] for name in ("row", "session_id", "turn", *TURN_COLUMNS)}
        key = (columns["session_id"], columns["turn"])
        if key in keys:
            yield key, _Turn(columns, batch.scores.filter(pl.col("row") == columns["row"]).to_dicts())


def _context(check: str, evidence: Evidence, turn: _Turn) -> TokenContext:
    side = side_of(check, evidence)
    ids: pl.Series | None = turn.columns[f"{side}_ids"]
    at = evidence.token_index
    if at is None and check in END_CHECKS and ids is not None and len(ids):
        at = len(ids) - 1
    bare = TokenContext(turn.columns["place"], side)
    if ids is None or at is None:
        return bare
    start = max(0, min(at, len(ids)) - AROUND)
    sampled = side == "completion"
    whole = check in WHOLE_CHECKS
    return bare._replace(
        at=at,
        current=_piece(ids, start, at + AROUND),
        sampled_logprobs=_numbers(turn.columns["sampled_logprobs"] if sampled else None, start, at + AROUND),
        trainer_logprobs=_numbers(_trainer(turn, evidence) if sampled else None, start, at + AROUND),
        whole=tuple(ids.to_list()) if whole else None,
        request=turn.columns["request"] if whole else None,
    )


def side_of(check: str, evidence: Evidence) -> Side:
    """In which ids `token_index` counts: what the evidence says of itself, else what the check is about."""
    match evidence.detail.get("side"):
        case "prompt":
            return "prompt"
        case "completion":
            return "completion"
        case _:
            return "prompt" if check in PROMPT_CHECKS else "completion"


def _previous(at: int, turn: _Turn) -> Piece:
    """The same indices of the turn before, as it went on."""
    parts = [turn.columns[name] for name in ("prompt_ids", "completion_ids")]
    ids = pl.concat([part for part in parts if part is not None] or [pl.Series([], dtype=pl.Int32)])
    return _piece(ids, max(0, at - AROUND), at + AROUND)


def _piece(ids: pl.Series, start: int, end: int) -> Piece:
    return Piece(tuple(ids.slice(start, max(0, end - start)).to_list()), start, len(ids))


# Any: a polars Series where there is one; polars gives list elements as such.
def _numbers(values: Any, start: int, end: int) -> tuple[float | None, ...]:
    return () if values is None else tuple(values.slice(start, max(0, end - start)).to_list())


# Any: a list of floats, made a Series again.
def _trainer(turn: _Turn, evidence: Evidence) -> Any:
    """The trainer's log-probabilities: of the scoring that the evidence is about, else of the first there is."""
    step = evidence.trainer_step
    scored = [row for row in turn.scores if row["trainer_logprobs"] is not None]
    named = [row for row in scored if step is not None and row["trainer_step"] == step] or scored
    at, value = evidence.token_index, evidence.detail.get("trainer_logprob")
    if at is not None and isinstance(value, int | float):
        named.sort(key=lambda row: _away(row["trainer_logprobs"], at, value))
    return pl.Series(named[0]["trainer_logprobs"]) if named else None


def _away(logprobs: Sequence[float | None], at: int, value: float) -> float:
    """How far a list is from a value at an index."""
    found = logprobs[at] if at < len(logprobs) else None
    away = math.inf if found is None else abs(found - value)
    return math.inf if math.isnan(away) else away
