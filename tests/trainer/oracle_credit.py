"""Which turns a cycle trains on and with what advantage, worked from the records by the rules of the design alone."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from collector.records import Feedback, Turn

KINDS = {"thumb": (1.0, 0.0, 1.0), "score": (2.0, -1.0, 1.0)}
"""Kind to weight, low and high."""
WINDOW = timedelta(hours=1)


class Rules(NamedTuple):
    """The settings that decide."""

    batch_sessions: int
    min_sessions: int
    updates: int
    max_staleness: int
    max_user_share: float
    main_only: bool


class Batch(NamedTuple):
    """One batch of turns, each with its advantage and its staleness at the batch's first update."""

    turns: list[Turn]
    advantages: dict[str, float]
    staleness: dict[str, int]
    reward_mean: float


class Sessions:
    """One tenant's sessions as of a moment."""

    def __init__(self, turns: Sequence[Turn], feedback: Sequence[Feedback], now: datetime) -> None:
        self.turns: dict[str, list[Turn]] = {}
        for turn in turns:
            self.turns.setdefault(turn.session_id, []).append(turn)
        first_of_id: dict[str, Feedback] = {}
        for each in feedback:
            first_of_id.setdefault(each.feedback_id, each)
        gone = {each.supersedes for each in first_of_id.values()}
        counted: dict[str, dict[str, list[float]]] = {}
        self.users: dict[str, str] = {}
        for each in first_of_id.values():
            assert each.session_id is not None
            if each.user_hash is not None:
                self.users.setdefault(each.session_id, each.user_hash)
            closes = max(t.finished_at for t in self.turns[each.session_id] if t.finished_at) + WINDOW
            if each.feedback_id in gone or closes > now or each.at > closes or each.kind not in KINDS:
                continue
            weight, low, high = KINDS[each.kind]
            assert each.value is not None
            worth = weight * (each.value - low) / (high - low)
            counted.setdefault(each.turn_id or each.session_id, {}).setdefault(each.kind, []).append(worth)
        self.rewards = {target: sum(map(float, map(np.mean, kinds.values()))) for target, kinds in counted.items()}
        """Session or turn id to its reward."""

    def group(self, session: str) -> str | None:
        """What it is compared within."""
        return self.turns[session][0].group_id

    def reaches(self, turn: Turn, rules: Rules) -> bool:
        """Whether the session's reward goes to the turn."""
        return not rules.main_only or turn.link != "subagent"


def batches(sessions: Sessions, done: set[str], step_of: Mapping[int, int], step: int, rules: Rules) -> list[Batch]:
    """The batches of a cycle; `done` are turns trained on before, `step_of` is version to its optimizer step."""
    kept: dict[str, list[Turn]] = {}
    earlier: set[str] = set()
    for name, turns in sessions.turns.items():
        for turn in turns:
            judged = turn.turn_id in sessions.rewards or (name in sessions.rewards and sessions.reaches(turn, rules))
            if turn.purpose in ("traffic", "canary") and turn.trainable and judged:
                (earlier.add(name) if turn.turn_id in done else kept.setdefault(name, []).append(turn))
    of_session = _session_advantages(sessions, set(kept), earlier)
    of_turn = _turn_advantages(sessions, kept)
    advantages: dict[str, float] = {}
    for name, turns in kept.items():
        for turn in turns:
            parts = [of_turn.get(turn.turn_id), of_session.get(name) if sessions.reaches(turn, rules) else None]
            total = sum(part for part in parts if part is not None)
            if total:
                advantages[turn.turn_id] = total
    waiting = [[t for t in turns if t.turn_id in advantages] for turns in kept.values()]
    made: list[Batch] = []
    for at, chosen in enumerate(_cut([turns for turns in waiting if turns], rules)):
        stale = {t.turn_id: step + at * rules.updates - step_of[t.adapter_version or 0] for t in chosen}
        chosen = [turn for turn in chosen if stale[turn.turn_id] <= rules.max_staleness]
        scales = _scales(sessions, chosen, advantages, rules.max_user_share)
        scaled = {t.turn_id: advantages[t.turn_id] * scales[t.session_id] for t in chosen}
        names = {turn.session_id for turn in chosen}
        targets = [*names, *(t.turn_id for name in names for t in sessions.turns[name])]
        given = [sessions.rewards[target] for target in targets if target in sessions.rewards]
        made.append(Batch(chosen, scaled, {t.turn_id: stale[t.turn_id] for t in chosen}, float(np.mean(given))))
    return made


def _session_advantages(sessions: Sessions, kept: set[str], earlier: set[str]) -> dict[str, float]:
    """Against the group, else against all others of the cycle; nothing for a group that agrees."""
    rewarded = {name for name in kept if name in sessions.rewards}
    found: dict[str, float] = {}
    for name in rewarded:
        mine, group = sessions.rewards[name], sessions.group(name)
        compared = rewarded | {each for each in earlier - kept if each in sessions.rewards}
        peers = [sessions.rewards[each] for each in compared if group and sessions.group(each) == group]
        if len(peers) > 1:
            if len(set(peers)) > 1:
                found[name] = (mine - float(np.mean(peers))) / float(np.std(peers))
        else:
            found[name] = mine - float(np.mean([sessions.rewards[each] for each in rewarded - {name}]))
    return found


def _turn_advantages(sessions: Sessions, kept: Mapping[str, list[Turn]]) -> dict[str, float]:
    """A turn's own reward against those of other sessions' turns."""
    judged = [turn for turns in kept.values() for turn in turns if turn.turn_id in sessions.rewards]
    found: dict[str, float] = {}
    for turn in judged:
        others = [sessions.rewards[each.turn_id] for each in judged if each.session_id != turn.session_id]
        if others:
            found[turn.turn_id] = sessions.rewards[turn.turn_id] - float(np.mean(others))
    return found


def _cut(waiting: list[list[Turn]], rules: Rules) -> list[list[Turn]]:
    """Whole groups, those whose first session is the oldest first."""
    units: dict[str, list[list[Turn]]] = {}
    for turns in waiting:
        units.setdefault(turns[0].group_id or turns[0].session_id, []).append(turns)
    made: list[list[list[Turn]]] = [[]]
    for unit in units.values():
        if len(made[-1]) >= rules.min_sessions and len(made[-1]) + len(unit) > rules.batch_sessions:
            made.append([])
        made[-1] += unit
    if len(made[-1]) < rules.min_sessions:
        rest = made.pop()
        made[-1] += rest
    return [[turn for turns in batch for turn in turns] for batch in made]


def _scales(
    sessions: Sessions, turns: Sequence[Turn], advantages: Mapping[str, float], most: float
) -> dict[str, float]:
    """Session to its user's factor: every user's mass is cut at one level, found by bisection."""
    masses: dict[str, float] = {}
    for turn in turns:
        user = sessions.users.get(turn.session_id, turn.session_id)
        masses[user] = masses.get(user, 0.0) + abs(advantages[turn.turn_id]) * len(turn.completion_ids)
    low, high = min(masses.values()), max(masses.values())
    if high > most * sum(masses.values()):
        for _ in range(200):
            level = (low + high) / 2
            fits = level <= most * sum(min(mass, level) for mass in masses.values())
            low, high = (level, high) if fits else (low, level)
    level = high
    return {t.session_id: min(1.0, level / masses[sessions.users.get(t.session_id, t.session_id)]) for t in turns}
