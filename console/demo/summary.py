"""What a demo run left in the store, read back, and whether it is what it should be."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from collector.store.reader import Reader
from collector.store.verify import verify
from console.losses_text import loss_lines


class Look(NamedTuple):
    """One captured turn, closely."""

    turn_id: str
    session_id: str
    turn: int
    prompt_tokens: int
    parent_turn_id: str | None
    text: str
    tokens: list[tuple[int, str, float]]
    """Id, text and log mu of the first sampled tokens."""


class Summary(NamedTuple):
    """The run as the store has it. Counts are of this run's sessions only."""

    sessions: int
    turns: int
    prompt_tokens: int
    completion_tokens: int
    tokens_with_mu: int
    trainable_turns: int
    untrainable: dict[str, int]
    """Turns that are not trainable, by reason."""
    later_turns: int
    """Turns after the first of their session."""
    extending_turns: int
    """Later turns whose prompt starts with the tokens of the turn before, prompt and completion."""
    feedback: int
    mean_outcome: float | None
    """Mean of the sessions' outcomes; None when none was posted."""
    missing: list[str]
    """Responses that the agents got and the store does not have."""
    records: int
    """Records of the whole store that were verified."""
    faults: list[str]
    """What `verify` found wrong."""
    look: Look | None

    def problems(self) -> list[str]:
        """What is not as it should be; empty when the run did what it should."""
        found: list[str] = [f"verify: {fault}" for fault in self.faults]
        if self.turns == 0:
            found.append("no turn was captured")
        if self.missing:
            found.append(f"{len(self.missing)} replies are not in the store, the first is {self.missing[0]}")
        if self.tokens_with_mu != self.completion_tokens:
            found.append(f"{self.completion_tokens - self.tokens_with_mu} sampled tokens have no log-probability")
        if self.extending_turns != self.later_turns:
            found.append(f"{self.later_turns - self.extending_turns} later turns do not extend the turn before")
        if self.turns > 1 and self.later_turns == 0:
            found.append("no session got past its first turn")
        return found


def summarize(store: Path, *, run_id: str, response_ids: Sequence[str], tokenizer_file: Path) -> Summary:
    """Reads the run back through the store's reader and verifies the store."""
    with Reader(store).snapshot(["turns", "feedback"]) as snapshot:
        turns = _of_run(snapshot.frame("turns"), run_id).sort("session_id", "turn")
        feedback = _of_run(snapshot.frame("feedback"), run_id)
        damage = list(snapshot.damage)
    verified = verify(store)
    rows = turns.to_dicts()
    stored = set(turns["turn_id"])
    outcomes = feedback.filter(pl.col("kind") == "outcome")["value"].drop_nulls()
    reasons = turns.filter(~pl.col("trainable"))["untrainable_reason"].value_counts()
    return Summary(
        sessions=turns["session_id"].n_unique(),
        turns=turns.height,
        prompt_tokens=sum(len(row["prompt_ids"]) for row in rows),
        completion_tokens=sum(len(row["completion_ids"]) for row in rows),
        tokens_with_mu=sum(min(len(row["sampled_logprobs"]), len(row["completion_ids"])) for row in rows),
        trainable_turns=turns.filter(pl.col("trainable")).height,
        untrainable={str(reason): count for reason, count in reasons.iter_rows()},
        later_turns=sum(row["turn"] > 1 for row in rows),
        extending_turns=_extending(rows),
        feedback=feedback.height,
        mean_outcome=None if outcomes.is_empty() else float(sum(outcomes)) / len(outcomes),
        missing=[response for response in response_ids if response.removeprefix("chatcmpl-") not in stored],
        records=verified.records,
        faults=[*damage, *map(str, verified.faults), *loss_lines(verified.losses)],
        look=_look(rows, tokenizer_file),
    )


def run_turns(store: Path, run_id: str) -> pl.DataFrame:
    """The turns of a run, as the store has them."""
    with Reader(store).snapshot(["turns"]) as snapshot:
        return _of_run(snapshot.frame("turns"), run_id)


def _of_run(frame: pl.DataFrame, run_id: str) -> pl.DataFrame:
    # A tenant's sessions are stored under the tenant's name.
    return frame.filter(pl.col("session_id").str.contains(f"(^|/){run_id}-"))


def _extending(rows: list[dict[str, Any]]) -> int:  # Any: cells of a row
    """Later turns that name the turn before as parent and start with its tokens."""
    count = 0
    for before, row in pairwise(rows):
        if row["session_id"] == before["session_id"]:
            ids = [*before["prompt_ids"], *before["completion_ids"]]
            linked = row["parent_turn_id"] == before["turn_id"] and row["link"] == "extends"
            count += linked and row["prompt_ids"][: len(ids)] == ids
    return count


def _look(rows: list[dict[str, Any]], tokenizer_file: Path, most: int = 8) -> Look | None:
    """The longest session's last turn."""
    from tokenizers import Tokenizer

    if not rows:
        return None
    row = max(rows, key=lambda row: row["turn"])
    tokenizer = Tokenizer.from_file(str(tokenizer_file))

    def text(ids: list[int]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=False)

    ids: list[int] = row["completion_ids"]
    sampled: list[float] = row["sampled_logprobs"]
    return Look(
        turn_id=row["turn_id"],
        session_id=row["session_id"],
        turn=row["turn"],
        prompt_tokens=len(row["prompt_ids"]),
        parent_turn_id=row["parent_turn_id"],
        text=text(ids),
        tokens=[(token, text([token]), mu) for token, mu in zip(ids[:most], sampled, strict=False)],
    )
