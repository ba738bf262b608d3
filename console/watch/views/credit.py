"""What a turn was taught: its rewards and who gave them, which version learned from it, and how that one fared."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
import polars as pl

from checks.eval_falls import Change, changes_by_suite
from checks.session_rewards import one_reward_each
from checks.trained_step import trained_step
from collector.records import Version
from collector.store.trained_versions import versions_trained_on
from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.standing import standing
from console.watch.trace.turn_tokens import Scoring
from console.watch.views.falls import RewardMove, reward_move, version_of
from trainer.adapter_standing import gate_summary


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A reward, as it was recorded when its window closed."""

    of: str
    """`turn` or `session`."""
    value: float | None
    """None, in JSON, where the log has a number that is not finite."""
    parts: dict[str, float] = {}
    """What each kind of feedback adds; empty where the log has the sum only."""
    mapping_sha256: str | None = None
    """Of the mapping from feedback to reward."""
    closed_at: datetime | None = None


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback that stands: what another one replaced is not here."""

    of: str
    """`turn` or `session`."""
    kind: str | None
    value: float | None
    source: str | None
    """What posted it."""
    tenant: str | None
    at: datetime | None
    text: str | None = None
    """Its words, as they were received."""


class LearnedBy(msgspec.Struct, frozen=True, kw_only=True):
    """A version that the turn is in the training data of; in a log without a registry, a step that it is logged for."""

    adapter: str | None
    version: int | None
    parent: int | None = None
    first: int | None
    """The first optimizer step that led to it; None where the registry has no steps."""
    last: int | None
    turns: int | None = None
    """How many it learned from, its parents' apart."""
    state: str | None = None
    verdict: str | None = None
    """The gate's."""
    reason: str | None = None
    """The gate's first."""
    change: Change | None = None
    """Its held-out score against the version before; None where they have too few tasks in common."""
    reward: RewardMove | None = None
    scorings: tuple[int, ...] = ()
    """Scorings of the turn that it can have used."""

    @property
    def bad(self) -> bool:
        """Whether it fell, or the gate refused it."""
        return self.verdict == "refuse" or (self.change is not None and self.change.fell)


class Credit(msgspec.Struct, frozen=True, kw_only=True):
    """Of one turn."""

    given: tuple[Given, ...] = ()
    """The newest of the turn and of its session."""
    judged: tuple[Judgement, ...] = ()
    """Oldest first."""
    learned_by: tuple[LearnedBy, ...] | None = None
    """None where nothing says who learned from what; empty where no version did."""
    why_not: str | None = None
    """Why the turn cannot be trained on, or is not meant to be."""


_KEPT: Kept[Credit] = Kept()


def credit_of(held: Held, session_id: str, turn: int, scorings: Sequence[Scoring]) -> Credit | None:
    """The credit of a turn; None where it is not held."""
    frames = (held.turns, held.rewards, held.feedback, held.evals, held.steps, held.versions, held.registry)
    own = held.turns.filter((pl.col("session_id") == session_id) & (pl.col("turn") == turn))
    if own.is_empty():
        return None
    row = own.row(0, named=True)
    return _KEPT.of((*frames, session_id, turn, *map(str, scorings)), lambda: _credit(held, row, scorings))


# Any: a row of a frame.
def _credit(held: Held, row: dict[str, Any], scorings: Sequence[Scoring]) -> Credit:
    registered = held.registry is not None and bool(held.registry.versions)
    learned = _registered(held, row, scorings) if registered else _logged(held, row, scorings)
    meant = row["purpose"] not in ("eval", "probe")
    return Credit(
        given=tuple(_given(held.rewards, row)),
        judged=tuple(_judged(standing(held), row)),
        learned_by=learned,
        why_not=row["untrainable_reason"] if meant else f"its purpose is {row['purpose']}",
    )


def _given(rewards: pl.DataFrame, row: dict[str, Any]) -> list[Given]:
    """The turn's own, then the session's; a log may have that on any of its turns."""
    of_turn = pl.col("turn_id") == pl.lit(row["turn_id"], pl.String)
    of_session = pl.col("turn_id").is_null() & (pl.col("session_id") == row["session_id"])
    found: list[Given] = []
    for name, which in (("turn", of_turn), ("session", of_session)):
        for each in one_reward_each(rewards.filter(which)).iter_rows(named=True):
            parts = msgspec.json.decode(each["parts"], type=dict[str, float]) if each["parts"] else {}
            found.append(
                Given(
                    of=name,
                    value=each["value"],
                    parts=parts,
                    mapping_sha256=each["mapping_sha256"],
                    closed_at=each["closed_at"],
                )
            )
    if not found and row["reward"] is not None:
        found.append(Given(of="session", value=row["reward"]))
    return found


def _judged(feedback: pl.DataFrame, row: dict[str, Any]) -> list[Judgement]:
    of_turn = (pl.col("turn_id") == pl.lit(row["turn_id"], pl.String)).fill_null(False)
    of_session = pl.col("turn_id").is_null() & (pl.col("session_id") == row["session_id"])
    rows = feedback.filter(of_turn | of_session).sort("at", maintain_order=True)
    names = ("kind", "value", "source", "tenant", "at", "text")
    return [
        Judgement(of="session" if each["turn_id"] is None else "turn", **{name: each[name] for name in names})
        for each in rows.iter_rows(named=True)
    ]


def _registered(held: Held, row: dict[str, Any], scorings: Sequence[Scoring]) -> tuple[LearnedBy, ...] | None:
    """By the ranges of records that each version of the registry was trained on."""
    assert held.registry is not None
    if row["writer"] is None or row["seq"] is None:
        return None
    found = versions_trained_on(held.registry.versions, [(row["writer"], row["seq"])])
    records = [version_of(held, each.adapter, each.version) for each in found if each.through is None]
    return tuple(_version(held, each, scorings) for each in records if each is not None)


def _version(held: Held, version: Version, scorings: Sequence[Scoring]) -> LearnedBy:
    parent = version_of(held, version.adapter, version.parent)
    last = version.optimizer_step
    began = None if parent is None else parent.optimizer_step or 0
    change = _change(held, version.adapter, lambda each: each.version == version.version)
    gate = gate_summary(version)
    used = [
        index
        for index, each in enumerate(scorings)
        if each.adapter == version.adapter
        and (each.step is None or began is None or last is None or began <= each.step < last)
    ]
    return LearnedBy(
        adapter=version.adapter,
        version=version.version,
        parent=version.parent,
        first=None if began is None else began + 1,
        last=last,
        turns=sum(end - start + 1 for _, start, end in version.trained_on),
        state=version.state,
        verdict=gate.verdict,
        reason=next(iter(gate.reasons), None),
        change=change,
        reward=None if change is None else reward_move(held, version.adapter, change),
        scorings=tuple(used),
    )


def _logged(held: Held, row: dict[str, Any], scorings: Sequence[Scoring]) -> tuple[LearnedBy, ...] | None:
    """By the steps that the log names beside the scorings of the turn.

    A store names the step that the scoring weights stood at: without its registry nobody knows what that step made.
    """
    if held.source.format == "store":
        return None
    named = [(each.adapter or row["adapter"], each.step, each.version) for each in scorings] or [
        (row["adapter"], row["trainer_step"], row["trainer_version"])
    ]
    schema = {"adapter": pl.String, "trainer_step": pl.Int64, "trainer_version": pl.Int64}
    frame = pl.DataFrame(named, schema=schema, orient="row").with_columns(step=trained_step(held.versions))
    steps: dict[tuple[str | None, int], list[int]] = {}
    for index, (adapter, step) in enumerate(frame.select("adapter", "step").iter_rows()):
        if step is not None:
            steps.setdefault((adapter, step), []).extend([index] if scorings else [])
    return tuple(_step(held, adapter, step, used) for (adapter, step), used in steps.items()) or None


def _step(held: Held, adapter: str | None, step: int, used: Sequence[int]) -> LearnedBy:
    """With the evaluations on either side of it; of several that it may have led to none is chosen."""
    change = None
    if _evals_by_step(held, adapter):
        change = _change(held, adapter, lambda each: each.since < step <= each.step)
    return LearnedBy(
        adapter=adapter,
        version=None,
        first=step,
        last=step,
        change=change,
        reward=None if change is None else reward_move(held, adapter, change),
        scorings=tuple(used),
    )


def _change(held: Held, adapter: str | None, is_meant: Callable[[Change], bool]) -> Change | None:
    """The one change that is meant: on a suite on which it is a fall, else on the first suite that tells of it."""
    meant = [list(filter(is_meant, of)) for of in changes_by_suite(held.evals, held.versions, adapter)]
    found = [each[0] for each in meant if len(each) == 1]
    return next((each for each in found if each.fell), found[0] if found else None)


def _evals_by_step(held: Held, adapter: str | None) -> bool:
    """Whether the evaluations stand on the axis of steps: a version's number is none."""
    mine = pl.col("adapter").eq_missing(adapter)
    stated = held.evals.filter(mine)["step"]
    return not stated.null_count() or not held.versions.filter(mine).drop_nulls("optimizer_step").is_empty()
