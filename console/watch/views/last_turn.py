"""The last turn of one session as it stands: what was asked and said, what was judged, and what was credited."""

from typing import Any

import msgspec
import polars as pl

from checks.session_rewards import one_reward_each
from collector.errors import UserError
from console.watch.held import Held
from console.watch.standing import standing
from console.watch.topic import OpenLog
from console.watch.trace.messages import Message, new_messages
from console.watch.trace.trace import RECENT, ToolsOf


class Credit(msgspec.Struct, frozen=True, kw_only=True):
    """The reward of one turn of the session."""

    turn: int
    reward: float


class LastTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn; what was not observed is None."""

    session_id: str
    turn: int
    served: str | None
    """`adapter@version`."""
    completion: int | None
    duration_s: float | None
    messages: tuple[Message, ...] = ()
    """What is new in its request, and the reply."""
    earlier: int = 0
    """Messages of its request that its parent had too."""
    feedback: tuple[str, ...] = ()
    """Judgements of the session, oldest first: kind, value and words. Words of clients are as they were logged."""
    credits: tuple[Credit, ...] = ()
    error: str | None = None
    """Why its messages cannot be read."""


def last_turn(held: Held, session_id: str, open_log: OpenLog, tools: ToolsOf) -> LastTurn | None:
    """None where the session is not there."""
    own = held.turns.filter(pl.col("session_id") == session_id).sort("turn", maintain_order=True)
    if own.is_empty():
        return None
    last = own.row(-1, named=True)
    made = LastTurn(
        session_id=session_id,
        turn=last["turn"],
        served=_served(last),
        completion=last["completion_tokens"],
        duration_s=_seconds(last),
        feedback=_feedback(held, own),
        credits=_credits(held, own),
    )
    try:
        trace = RECENT.of(held, session_id, open_log, tools())
    except (UserError, OSError) as error:
        return msgspec.structs.replace(made, error=str(error))
    row = None if trace is None else trace.log.row_of(last["turn"])
    if trace is None or row is None:
        return made
    said = new_messages(trace.log.turns, row, trace.parent_row(last["turn"]))
    return msgspec.structs.replace(made, messages=said.messages, earlier=said.earlier)


# Any: rows of a frame.
def _served(row: dict[str, Any]) -> str | None:
    version = "?" if row["adapter_version"] is None else row["adapter_version"]
    return None if row["adapter"] is None else f"{row['adapter']}@{version}"


def _seconds(row: dict[str, Any]) -> float | None:
    begin, end = row["started_at"], row["finished_at"]
    return None if begin is None or end is None else (end - begin).total_seconds()


def _feedback(held: Held, own: pl.DataFrame) -> tuple[str, ...]:
    """What stands: a judgement that another one replaced, or that is there twice, is said once or not."""
    of_turn = pl.col("turn_id").is_in(own["turn_id"].drop_nulls().implode()).fill_null(False)
    of_session = pl.col("turn_id").is_null() & (pl.col("session_id") == own["session_id"][0])
    rows = standing(held).filter(of_turn | of_session)
    return tuple(_judged(row) for row in rows.sort("at", nulls_last=True).iter_rows(named=True))


def _judged(row: dict[str, Any]) -> str:
    value = "" if row["value"] is None else f" {row['value']:g}"
    words = f' "{row["text"]}"' if row["text"] else ""
    return f"{row['kind'] or 'feedback'}{value}{words}"


def _credits(held: Held, own: pl.DataFrame) -> tuple[Credit, ...]:
    turns = own.select("turn", "turn_id").drop_nulls()
    rewards = one_reward_each(held.rewards.filter(pl.col("turn_id").is_in(turns["turn_id"].implode())))
    found = turns.join(rewards.select("turn_id", "value"), on="turn_id", maintain_order="left")
    return tuple(Credit(turn=turn, reward=value) for turn, _, value in found.iter_rows())
