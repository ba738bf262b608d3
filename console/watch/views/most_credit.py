"""The turns that training pushed hardest, among those that a version or some steps learned from."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from checks.log import Batch
from checks.session_rewards import one_reward_each
from checks.trained_step import trained_step
from collector.errors import UserError
from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.standing import standing
from console.watch.topic import OpenLog
from console.watch.views.learnt_turns import turns_of_steps, turns_within
from console.watch.views.place import Fault, Place

SHOWN = 24
"""Turns that are kept: as many as a wide terminal lists."""


class Learner(NamedTuple):
    """What learned: a version, or in a log without a registry the steps themselves."""

    adapter: str | None
    version: int | None
    first: int
    last: int

    @property
    def name(self) -> str:
        """As it is called where the adapter is known."""
        if self.version is not None:
            return f"v{self.version}"
        return f"step {self.last}" if self.first == self.last else f"steps {self.first}–{self.last}"


class Pushed(NamedTuple):
    """A turn, and the token of it with the greatest advantage either way, the first of equals."""

    session_id: str
    turn: int
    turn_id: str | None
    token_index: int
    trainer_step: int | None
    """Where the trainer stood in the scoring that it is of."""
    advantage: float
    tokens: int


class Credited(NamedTuple):
    """The turns with most credit."""

    lead: str
    """Why these ones; where there are none, what is missing."""
    faults: tuple[Fault, ...]
    """The greatest advantage first."""


class _Read(NamedTuple):
    """What was found of a learner's turns."""

    of: Learner
    """What learned: of some steps, all those of the versions that they are a part of."""
    turns: int
    pushed: tuple[Pushed, ...]
    """The hardest first."""
    error: str | None = None


class MostCredit:
    """Reads the tokens of what a learner was trained on once; what was judged of them as often as it changes."""

    def __init__(self) -> None:
        self._read: Kept[_Read] = Kept()
        self._credited: Kept[Credited] = Kept()

    def of(self, held: Held, learner: Learner, open_log: OpenLog) -> Credited:
        """Of one learner."""
        # What a version learned from is settled before it is registered; steps go on being scored.
        marked = None if learner.version is not None else held.turns.height - held.turns["trainer_step"].null_count()
        key = (learner.name, learner.adapter, marked, held.versions)
        read = self._read.of(key, lambda: _read(held, learner, open_log))
        return self._credited.of((read, held.rewards, held.feedback), lambda: _credited(held, read))


def _read(held: Held, learner: Learner, open_log: OpenLog) -> _Read:
    """Of turns that were pushed alike the longer one comes first, then by name."""
    turns, scored_in = _learnt(held, learner)
    if turns.is_empty():
        return _Read(scored_in, 0, ())
    wanted = set(turns.select("session_id", "turn").iter_rows())
    sessions = turns["session_id"].unique().to_list()
    columns = ("turn_id", "adapter", "loss_mask")
    scored = ("adapter", "trainer_step", "trainer_version", "advantages")
    hardest: dict[tuple[str, int], Pushed] = {}
    try:
        for batch in open_log().batches(columns, scored, sessions=sessions):
            for each in _pushed(batch, held, scored_in):
                place = (each.session_id, each.turn)
                if place in wanted and _size(each) > _size(hardest.get(place)):
                    hardest[place] = each
    except (UserError, OSError) as error:
        return _Read(scored_in, turns.height, (), str(error))
    by_name = sorted(hardest.values(), key=lambda each: (each.session_id, each.turn))
    return _Read(scored_in, turns.height, tuple(sorted(by_name, key=_size, reverse=True)[:SHOWN]))


def _size(pushed: Pushed | None) -> tuple[float, int]:
    return (0.0, 0) if pushed is None else (abs(pushed.advantage), pushed.tokens)


def _learnt(held: Held, learner: Learner) -> tuple[pl.DataFrame, Learner]:
    """The turns, and the steps whose scorings of them count: all those of a version, whose first step scored for all.

    By the registry's ranges of its version, or of every version that a part of these steps made; else by the steps.
    """
    known = () if held.registry is None else held.registry.versions
    steps = {each.version: each.optimizer_step or 0 for each in known if each.adapter == learner.adapter}
    made = [
        (each, steps.get(each.parent or 0, 0) + 1, steps[each.version])
        for each in known
        if each.adapter == learner.adapter and each.trained_on
    ]
    if not made:
        return turns_of_steps(held, learner.adapter, learner.first, learner.last), learner
    if learner.version is not None:
        made = [each for each in made if each[0].version == learner.version]
    else:
        made = [each for each in made if each[1] <= learner.last and each[2] >= learner.first]
    ranges = sorted({span for each, _, _ in made for span in each.trained_on})
    first = min((first for _, first, _ in made), default=learner.first)
    last = max((last for _, _, last in made), default=learner.last)
    return turns_within(held.turns, ranges), learner._replace(first=first, last=last)


def _credited(held: Held, read: _Read) -> Credited:
    learner = read.of
    if read.error is not None:
        return Credited(f"what {learner.name} learned from cannot be read: {read.error}", ())
    if not read.pushed:
        missing = "no advantage is recorded of them" if read.turns else "no turn is recorded as such"
        return Credited(f"what {learner.name} learned from is n/d: {missing}", ())
    ids = [each.turn_id for each in read.pushed if each.turn_id is not None]
    rewards, judged = _rewards(held.rewards, ids), _judged(standing(held), ids)
    faults = [
        Fault(
            place=Place(
                session_id=each.session_id,
                turn=each.turn,
                token_index=each.token_index,
                step=each.trainer_step,
                adapter=learner.adapter,
                value=each.advantage,
            ),
            text=_said(rewards.get(each.turn_id or ""), judged.get(each.turn_id or "")),
        )
        for each in read.pushed
    ]
    of = f"the {read.turns} turns" if read.turns > 1 else "the one turn"
    return Credited(f"most credit (advantage) of {of} that {learner.name} learned from", tuple(faults))


def _pushed(batch: Batch, held: Held, learner: Learner) -> Iterator[Pushed]:
    """Of every scoring that the learner can have used: one of its steps, or one that names no step."""
    turns = batch.turns.with_row_index("row").with_columns(pl.col("adapter").cast(pl.String).alias("of_turn"))
    scores = batch.scores.with_columns(pl.col("adapter").cast(pl.String))
    scores = scores.join(turns.drop("adapter"), on="row", how="inner", maintain_order="left")
    scores = scores.with_columns(adapter=pl.coalesce("adapter", "of_turn"))
    step = trained_step(held.versions)
    used = scores.filter(
        pl.col("advantages").list.len() > 0,
        pl.col("adapter").eq_missing(learner.adapter),
        step.is_null() | step.is_between(learner.first, learner.last),
    )
    columns = ("session_id", "turn", "turn_id", "trainer_step", "advantages", "loss_mask")
    for row in used.select(columns).iter_rows(named=True):
        values = np.array(row["advantages"], np.float64)
        mask = row["loss_mask"]
        if mask is not None and len(mask) >= len(values):
            values = np.where(np.array(mask[len(mask) - len(values) :]) == 0, 0.0, values)
        size = np.where(np.isfinite(values), np.abs(values), 0.0)
        at = int(size.argmax())
        if size[at] > 0:
            place = (row["session_id"], row["turn"], row["turn_id"], at)
            yield Pushed(*place, row["trainer_step"], float(values[at]), len(values))


def _rewards(rewards: pl.DataFrame, turn_ids: Sequence[str]) -> dict[str, float]:
    """Each turn's own."""
    own = one_reward_each(rewards.filter(pl.col("turn_id").is_in(turn_ids)))
    return dict(own.select("turn_id", "value").iter_rows())


def _judged(feedback: pl.DataFrame, turn_ids: Sequence[str]) -> dict[str, str]:
    """The newest judgement of each turn, of those that count."""
    own = feedback.filter(pl.col("turn_id").is_in(turn_ids)).sort("at", maintain_order=True)
    return {
        turn: f"{kind or 'feedback'}{'' if value is None else f' {value:g}'}"
        for turn, kind, value in own.select("turn_id", "kind", "value").iter_rows()
    }


def _said(reward: float | None, judged: str | None) -> str | None:
    parts = [*([f"reward {reward:g}"] if reward is not None else []), *([judged] if judged else [])]
    return ", ".join(parts) or None
