"""Which turns of one session extend which, and where one goes on without extending: as prefix-break tells it."""

from typing import NamedTuple

import polars as pl

from checks.faults.prefix_break import prefix_break
from checks.finding import Evidence
from checks.measure import Tools
from checks.measures.prefix_breaks import PrefixBreaks
from checks.measures.turn_chains import NONE, TurnChains
from checks.measures.turn_ids import TurnIds, bytes_of
from console.watch.trace.session_turns import SessionTurns


class Break(NamedTuple):
    """A turn that goes on from an earlier one without beginning with its exact tokens."""

    turn: int
    previous: int | None
    """The turn that it continues; None where only an event declares it."""
    at: int | None
    """Length of the common prefix, in tokens of the prompt."""
    kind: str
    declared: bool
    """Whether an event says that it was meant."""


class SessionBreaks(NamedTuple):
    """How the turns of a session stand to each other."""

    breaks: tuple[Break, ...]
    parents: dict[int, int | None]
    """Turn to the deepest earlier turn whose prompt and completion begin its prompt; turns with ids only."""


def session_breaks(session: SessionTurns, events: pl.DataFrame, tools: Tools) -> SessionBreaks:
    """Breaks and parents, by the check's own measure and definition."""
    measure = PrefixBreaks(tools)
    batch = session.batch()
    measure.add(batch)
    while measure.again():
        measure.add_again(batch)
    counted = batch.turns.select(
        "session_id",
        "turn",
        prompt_tokens=pl.col("prompt_ids").list.len().cast(pl.Int64),
        completion_tokens=pl.col("completion_ids").list.len().cast(pl.Int64),
    )
    own = events.filter(pl.col("session_id") == session.session_id)
    finding = prefix_break(measure.frame(), own, counted)
    # What was declared of the session alone is of no turn.
    breaks = tuple(_break(each, each.turn) for each in finding.evidence if each.turn is not None)
    return SessionBreaks(breaks, _parents(session))


def _break(evidence: Evidence, turn: int) -> Break:
    return Break(
        turn=turn,
        previous=evidence.previous_turn,
        at=evidence.token_index,
        kind=evidence.kind or "other",
        declared=evidence.status == "info",
    )


def _parents(session: SessionTurns) -> dict[int, int | None]:
    ids = TurnIds.of(session.turns)
    chains, numbers = TurnChains(), list[int]()
    chains.begin_session()
    for row in ids.rows:
        prompt, completion = bytes_of(ids.prompts.row(row)), bytes_of(ids.completions.row(row))
        chains.add(0, prompt, completion, failed=ids.failed[row])
        numbers.append(ids.numbers[row])
    above = (None if parent == NONE else numbers[parent] for parent in chains.parent)
    return dict(zip(numbers, above, strict=True))
