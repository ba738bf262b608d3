"""Every turn that goes on from an earlier one without extending it: which, at which token, and of which kind.

The first pass keeps hashes. Sessions with a suspect turn are read again, as many at a time as fit in memory, and
there full ids, and messages where they are logged, are compared.
"""

from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl

from checks.finding import EVIDENCE_LIMIT
from checks.log import Batch
from checks.measure import Tools
from checks.measures.break_kind import KindTeller
from checks.measures.continuations import continuations
from checks.measures.gathered_session import GatheredSession
from checks.measures.held_turn import HeldTurn, common_prefix
from checks.measures.portions import Reading, portion
from checks.measures.turn_chains import SUSPECT, TurnChains
from checks.measures.turn_ids import IdBytes, TurnIds
from checks.measures.turn_messages import kind_by_messages, turn_messages
from checks.ragged import Array

HELD_TOKENS = 32_000_000
"""Ids held at once in the second pass, more only where one session has more: 128 MiB."""
NEAR = 4
"""Tokens on either side of a break that are shown."""
_ROWS = 10_000
"""Rows that are gathered before they are packed."""
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "session_id": pl.String,
    "turn": pl.Int64,
    "relation": pl.String,
    "previous_turn": pl.Int64,
    "token_index": pl.Int64,
    "kind": pl.String,
    "inside_previous": pl.String,
    "index_in_previous_part": pl.Int64,
    "previous_id": pl.Int64,
    "current_id": pl.Int64,
    "previous_tokens_lost": pl.Int64,
    "previous_text_near": pl.String,
    "current_text_near": pl.String,
}


class PrefixBreaks:
    """Suspect turns from hashes, then what each continues from ids and messages."""

    name: ClassVar[str] = "prefix_breaks"
    turn_columns: ClassVar[tuple[str, ...]] = ("prompt_ids", "completion_ids", "complete")
    score_columns: ClassVar[tuple[str, ...]] = ()
    needs_tokenizer: ClassVar[bool] = False
    again_columns: ClassVar[tuple[str, ...]] = (*turn_columns, "request", "response")

    def __init__(self, tools: Tools, *, held_tokens: int = HELD_TOKENS) -> None:
        self._held_tokens = held_tokens
        self._teller = None if tools.tokenizer is None else KindTeller(tools.tokenizer)
        self._sessions: dict[str, int] = {}
        self._chains = TurnChains()
        self._numbers = array("q")
        self._disordered: set[int] = set()
        self._waiting: list[Reading] | None = None
        self._chosen: set[int] = set()
        self._gathered: dict[int, GatheredSession] = {}
        self._rows: list[dict[str, Any]] = []
        self._frames: list[pl.DataFrame] = []
        self._told = 0

    def add(self, batch: Batch) -> None:
        """Chains the batch's turns that have ids."""
        sessions, chains, numbers = self._sessions, self._chains, self._numbers
        turns = TurnIds.of(batch.turns)
        prompts, completions = IdBytes.of(turns.prompts), IdBytes.of(turns.completions)
        for row in turns.rows:
            number = turns.numbers[row]
            session = sessions.get(turns.sessions[row])
            if session is None:
                session = sessions[turns.sessions[row]] = chains.begin_session()
            elif number < numbers[chains.last[session]]:
                self._disordered.add(session)
            chains.add(session, prompts.row(row), completions.row(row), failed=turns.failed[row])
            numbers.append(number)

    def again(self) -> Collection[str]:
        """The next sessions with a suspect turn, as many as can be held at once."""
        self._tell_rest()
        if self._waiting is None:
            self._waiting = self._suspects()
        chosen = portion(self._waiting, self._held_tokens)
        self._waiting = [reading for reading in self._waiting if reading.session not in chosen]
        self._chosen = chosen
        return [session_id for session_id, session in self._sessions.items() if session in chosen] if chosen else ()

    def _suspects(self) -> list[Reading]:
        """Sessions to read again, in the order in which they begin."""
        chains = self._chains
        flagged = np.flatnonzero(np.array(chains.flags) & SUSPECT)
        sessions = set(np.array(chains.session)[flagged].tolist()) | self._disordered
        readings = (
            Reading(chains.first[each], chains.last[each], each, chains.tokens_not_shared(each)) for each in sessions
        )
        return sorted(readings)

    def add_again(self, batch: Batch) -> None:
        """Gathers the chosen sessions' turns, and tells of each session once it is whole."""
        turns = TurnIds.of(batch.turns)
        requests, responses = (batch.turns[name].to_list() for name in ("request", "response"))
        for row in turns.rows:
            session = self._sessions.get(turns.sessions[row])
            # A log that is being written may have gone on since the first pass.
            if session is None or session not in self._chosen:
                continue
            gathered = self._gathered.get(session)
            if gathered is None:
                gathered = self._gathered[session] = GatheredSession(turns.sessions[row], self._chains, session)
            gathered.add(
                turns.numbers[row],
                turns.prompts.row(row),
                turns.completions.row(row),
                failed=turns.failed[row],
                messages=None if requests[row] is None else turn_messages(requests[row], responses[row]),
            )
            if gathered.missing == 0:
                self._tell(session)

    def _tell(self, session: int) -> None:
        gathered = self._gathered.pop(session)
        self._chosen.discard(session)
        self._rows += self._rows_of(gathered.session_id, gathered.ordered(session in self._disordered))
        if len(self._rows) >= _ROWS:
            self._frames.append(pl.DataFrame(self._rows, schema=_SCHEMA))
            self._rows = []

    def _tell_rest(self) -> None:
        """Of sessions that the second pass gave less of than the first one."""
        for session in list(self._gathered):
            self._tell(session)

    def _rows_of(self, session_id: str, turns: Sequence[HeldTurn]) -> Iterator[dict[str, Any]]:
        for turn, found in continuations(turns):
            for relation, previous in found._asdict().items():
                if previous is not None:
                    row = {"session_id": session_id, "turn": turn.number, "relation": relation}
                    yield row | self._break(turn, previous, kind_wanted=relation == "previous")

    def _break(self, turn: HeldTurn, previous: HeldTurn, *, kind_wanted: bool) -> dict[str, Any]:
        before, now = previous.ids(), turn.prompt()
        index = common_prefix(before, now)
        in_prompt = index < previous.prompt_tokens
        row: dict[str, Any] = {
            "previous_turn": previous.number,
            "token_index": index,
            "inside_previous": "prompt" if in_prompt else "completion",
            "index_in_previous_part": index if in_prompt else index - previous.prompt_tokens,
            "previous_id": int(before[index]) if index < len(before) else None,
            "current_id": int(now[index]) if index < len(now) else None,
            "previous_tokens_lost": len(before) - index,
        }
        self._told += 1
        if self._told > 2 * EVIDENCE_LIMIT:
            return row
        if self._teller is not None:
            for name, ids in (("previous_text_near", before), ("current_text_near", now)):
                row[name] = self._teller.text(ids[max(0, index - NEAR) : index + NEAR])
        if kind_wanted:
            row["kind"] = self._kind(before, now, index, previous, turn)
        return row

    def _kind(self, before: Array, now: Array, index: int, previous: HeldTurn, turn: HeldTurn) -> str:
        """From text where there is a tokenizer; messages say more only of what templates need not mark."""
        told = kind_by_messages(previous.messages, turn.messages, in_prompt=index < previous.prompt_tokens)
        if self._teller is None:
            return told
        kind = self._teller.kind(before, now, index, previous.prompt_tokens)
        return told if kind == "other" and told in ("system_prompt_changed", "compaction") else kind

    def frame(self) -> pl.DataFrame:
        """A row for each suspect turn and what it goes on from.

        `relation` is `previous` for the turn that it continues without extending it, and `nearest` for the turn with
        the longest common prefix, whether or not it continues that one. `turn` and `previous_turn` are the log's own
        numbers; `token_index` is the length of the common prefix. Texts are there with a tokenizer only.
        """
        return pl.concat([*self._frames, pl.DataFrame(self._rows, schema=_SCHEMA)])
