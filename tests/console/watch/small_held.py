"""A few turns, judgements, rewards and events by hand, as they are held."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import polars as pl

from collector.records import Audit
from console.watch.held import TABLES, Held
from tests.console.watch.fake_feed import NOW, held


def ago(seconds: float) -> datetime:
    """So many seconds before what is shown."""
    return NOW - timedelta(seconds=seconds)


def frame(table: str, rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """Rows of a table; columns that are not given were not observed."""
    return pl.DataFrame([dict.fromkeys(TABLES[table]) | dict(row) for row in rows], schema=dict(TABLES[table]))


def turn(session: str, number: int, started: float, **more: object) -> dict[str, object]:
    """A turn that took two seconds, trainable unless said otherwise."""
    row: dict[str, object] = {
        "session_id": session,
        "turn": number,
        "turn_id": f"{session}.{number}",
        "tenant": "acme",
        "adapter": "refund",
        "adapter_version": 3,
        "purpose": "traffic",
        "started_at": ago(started),
        "first_token_at": ago(started - 0.5),
        "finished_at": ago(started - 2),
        "completion_tokens": 10,
        "prompt_tokens": 100,
        "complete": True,
        "trainable": True,
        "finish_reason": "stop",
        "link": "root" if number == 1 else "extends",
    }
    return row | more


def small_held() -> Held:
    """Three sessions: one trained on, one that cannot be, one of an evaluation."""
    turns = [
        turn("s-a", 1, 90, trainer_step=7),
        turn("s-a", 2, 30, link="break", break_kind="reasoning_stripped"),
        turn("s-b", 1, 60, tenant="zeta", trainable=False, untrainable_reason="top_p"),
        turn(
            "s-b", 2, 7200, tenant="zeta", trainable=False, untrainable_reason="error", complete=False,
            finish_reason="error", completion_tokens=None, first_token_at=None, finished_at=None,
        ),
        turn("s-c", 1, 20, purpose="eval"),
    ]  # fmt: skip
    feedback = [
        {"feedback_id": "f1", "turn_id": "s-a.1", "kind": "thumb", "value": 1.0, "at": ago(78)},
        {"feedback_id": "f2", "turn_id": "s-a.1", "kind": "thumb", "value": 0.0, "at": ago(68), "supersedes": "f1"},
        {"feedback_id": "f3", "session_id": "s-b", "kind": "outcome", "value": -1.0, "at": NOW},
        {"feedback_id": "f3", "session_id": "s-b", "kind": "outcome", "value": -1.0, "at": NOW},
    ]
    rewards = [
        {"session_id": "s-a", "turn_id": "s-a.1", "value": 0.0, "closed_at": ago(40)},
        {"session_id": "s-b", "turn_id": None, "value": None, "closed_at": ago(10)},
    ]
    steps = [
        {"adapter": "refund", "step": 7, "at": ago(35), "loss": 0.036671, "grad_norm": 0.1485, "writer": "trainer"}
    ]
    events = [
        {"at": ago(300), "kind": "cycle", "severity": "info", "writer": "trainer", "text": "collect"},
        {"at": ago(200), "kind": "proof", "severity": "warn", "adapter": "refund", "version": 3, "text": "undecided"},
        {"at": ago(25), "kind": "redacted", "severity": "fail", "session_id": "s-a", "turn": 2, "writer": "collector",
         "text": "a \x1b[31msecret\u202e was taken out"},
    ]  # fmt: skip
    audit = (
        Audit(revision=1, at=ago(250), actor="ana", reason="passes all", action="promote", adapter="refund", version=3),
    )
    return held(
        turns=frame("turns", turns),
        feedback=frame("feedback", feedback),
        rewards=frame("rewards", rewards),
        steps=frame("steps", steps),
        events=frame("events", events),
        runs=frame("runs", [{"at": ago(400), "hardware": "1 x CPU"}]),
        audit=audit,
    )
