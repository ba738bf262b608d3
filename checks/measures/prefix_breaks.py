"""Every turn that goes on from an earlier one without extending it: which, at which token, and of which kind.

The first pass keeps hashes. Sessions with a suspect turn are read again, as many at a time as fit in memory, and
there full ids, and messages where they are logged, are compared.
"""

import heapq
from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl

from checks.finding import EVIDENCE_LIMIT
from checks.log import Batch
from checks.measure import Tools
from checks.measures.break_kind import KindTeller
from checks.measures.dialogue import Dialogue, dialogue_of, kind_by_messages
from checks.measures.held_session import HeldTurn, common_prefix, continuations
from checks.measures.turn_chains import NONE, SUSPECT, TurnChains
from checks.ragged import Array, Ragged, ragged

HELD_TOKENS = 32_000_000
"""Ids held at once in the second pass, more only where one session has more: 128 MiB."""
NEAR = 4
"""Tokens on either side of a break that are shown."""
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
        self._waiting: list[int] | None = None
        self._gathered: dict[int, _Gathered] = {}
        self._frames: list[pl.DataFrame] = []
        self._told = 0

    def add(self, batch: Batch) -> None:
        """Chains the batch's turns that have ids."""
        sessions, chains, numbers = self._sessions, self._chains, self._numbers
        turns = _Turns.of(batch.turns)
        prompts, completions = _Bytes.of(turns.prompts), _Bytes.of(turns.completions)
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
        if self._waiting is None:
            chains = self._chains
            flagged = np.frombuffer(chains.flags, np.int8) & SUSPECT if len(chains) else np.empty(0, np.int8)
            suspects = set(np.array(chains.session)[flagged != 0].tolist()) | self._disordered
            self._waiting = sorted(suspects, key=chains.first.__getitem__)
        chosen = set(self._portion(self._waiting))
        self._waiting = [session for session in self._waiting if session not in chosen]
        self._gathered = {session: _Gathered(self._chains, session) for session in chosen}
        return [session_id for session_id, session in self._sessions.items() if session in chosen] if chosen else ()

    def _portion(self, sessions: Sequence[int]) -> Iterator[int]:
        """Sessions in their order, less those that would be open when as much is held as may be."""
        open_until: list[tuple[int, int]] = []
        held = 0
        for session in sessions:
            while open_until and open_until[0][0] < self._chains.first[session]:
                held -= heapq.heappop(open_until)[1]
            tokens = self._tokens_of(session)
            if held == 0 or held + tokens <= self._held_tokens:
                held += tokens
                heapq.heappush(open_until, (self._chains.last[session], tokens))
                yield session

    def _tokens_of(self, session: int) -> int:
        """Ids that the session's turns do not share with their parents."""
        chains, total = self._chains, 0
        for turn in chains.of_session(session):
            parent = chains.parent[turn]
            total += chains.tokens[turn] - (0 if parent == NONE else chains.tokens[parent])
        return total

    def add_again(self, batch: Batch) -> None:
        """Gathers the chosen sessions' turns, and tells of each session once it is whole."""
        rows: list[dict[str, Any]] = []
        turns = _Turns.of(batch.turns)
        for row in turns.rows:
            session_id = turns.sessions[row]
            gathered = self._gathered.get(self._sessions[session_id])
            if gathered is None:
                continue
            gathered.add(
                turns.numbers[row],
                turns.prompts.row(row),
                turns.completions.row(row),
                failed=turns.failed[row],
                dialogue=dialogue_of(batch.turns["request"][row], batch.turns["response"][row]),
            )
            if gathered.missing == 0:
                del self._gathered[self._sessions[session_id]]
                rows += self._rows(session_id, gathered.ordered(self._sessions[session_id] in self._disordered))
        if rows:
            self._frames.append(pl.DataFrame(rows, schema=_SCHEMA))

    def _rows(self, session_id: str, turns: Sequence[HeldTurn]) -> Iterator[dict[str, Any]]:
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
            kind = "other" if self._teller is None else self._teller.kind(before, now, index, previous.prompt_tokens)
            by_messages = kind_by_messages(previous.dialogue, turn.dialogue, in_prompt=in_prompt)
            row["kind"] = by_messages if kind == "other" else kind
        return row

    def frame(self) -> pl.DataFrame:
        """A row for each suspect turn and what it goes on from.

        `relation` is `previous` for the turn that it continues without extending it, and `nearest` for the turn with
        the longest common prefix, whether or not it continues that one. `turn` and `previous_turn` are the log's own
        numbers; `token_index` is the length of the common prefix. Texts are there with a tokenizer only.
        """
        return pl.concat(self._frames) if self._frames else pl.DataFrame(schema=_SCHEMA)


class _Gathered:
    """Turns of one session while it is read a second time."""

    def __init__(self, chains: TurnChains, session: int) -> None:
        self._chains = chains
        self._numbers = list(reversed(list(chains.of_session(session))))
        self._place = {turn: place for place, turn in enumerate(self._numbers)}
        self._turns: list[HeldTurn] = []

    @property
    def missing(self) -> int:
        """Turns still to come."""
        return len(self._numbers) - len(self._turns)

    def add(self, number: int, prompt: Array, completion: Array, *, failed: bool, dialogue: Dialogue | None) -> None:
        """The session's next turn."""
        at = self._numbers[len(self._turns)]
        parent = self._chains.parent[at]
        self._turns.append(
            HeldTurn(
                place=len(self._turns),
                number=number,
                parent=None if parent == NONE else self._turns[self._place[parent]],
                prompt=prompt,
                completion=completion,
                failed=failed,
                suspect=bool(self._chains.flags[at] & SUSPECT),
                dialogue=dialogue,
            )
        )

    def ordered(self, disordered: bool) -> Sequence[HeldTurn]:
        """All of them by number, chained anew where the log has them in another order."""
        if not disordered:
            return self._turns
        chains, turns = TurnChains(), list[HeldTurn]()
        chains.begin_session()
        for turn in sorted(self._turns, key=lambda each: (each.number, each.place)):
            ids = turn.ids()
            prompt, completion = ids[: turn.prompt_tokens], ids[turn.prompt_tokens :]
            at = chains.add(0, _bytes(prompt), _bytes(completion), failed=turn.failed)
            parent = chains.parent[at]
            turns.append(
                HeldTurn(
                    place=at,
                    number=turn.number,
                    parent=None if parent == NONE else turns[parent],
                    prompt=prompt,
                    completion=completion,
                    failed=turn.failed,
                    suspect=bool(chains.flags[at] & SUSPECT),
                    dialogue=turn.dialogue,
                )
            )
        return turns


class _Turns(NamedTuple):
    """The turns of a batch, by row."""

    rows: list[int]
    """Those whose prompt is logged as ids."""
    sessions: list[str]
    numbers: list[int]
    failed: list[bool]
    """Not completed, or nothing sampled."""
    prompts: Ragged
    completions: Ragged

    @classmethod
    def of(cls, turns: pl.DataFrame) -> "_Turns":
        prompts, completions = _ids(turns["prompt_ids"]), _ids(turns["completion_ids"])
        whole = turns["complete"].cast(pl.Boolean).fill_null(True).to_numpy()
        failed = ~whole | (completions.lengths == 0)
        rows = np.flatnonzero(prompts.valid).tolist()
        sessions, numbers = turns["session_id"].to_list(), turns["turn"].to_list()
        return cls(rows, sessions, numbers, failed.tolist(), prompts, completions)


class _Bytes(NamedTuple):
    """Rows of ids as bytes."""

    values: memoryview
    offsets: list[int]

    @classmethod
    def of(cls, ids: Ragged) -> "_Bytes":
        return cls(_bytes(ids.values), (ids.offsets * ids.values.itemsize).tolist())

    def row(self, index: int) -> memoryview:
        """The ids of one row, not copied."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]


def _ids(column: pl.Series) -> Ragged:
    """A column of ids as int32; an id that is null is -1, which is nobody's."""
    if column.list.explode(empty_as_null=False).null_count():
        column = column.list.eval(pl.element().fill_null(-1))
    return ragged(column.cast(pl.List(pl.Int32)))


def _bytes(ids: Array) -> memoryview:
    return ids.data.cast("B") if len(ids) else memoryview(b"")
