"""From feedback to rewards: a visible mapping, a window that closes, and what is missing stays missing."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple, get_args

import msgspec

from collector.records import Feedback, FeedbackKind, Reward
from trainer.advantage import LARGEST


class KindMapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one kind of feedback is worth: weight x (value - low) / (high - low)."""

    weight: float = 1.0
    """Share of the reward; 0 leaves the kind out."""
    low: float = 0.0
    """The value that is worth nothing."""
    high: float = 1.0
    """The value that is worth `weight`."""


def _every_kind() -> dict[FeedbackKind, KindMapping]:
    return {kind: KindMapping() for kind in get_args(FeedbackKind)}


class RewardConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.reward]`: which feedback counts, how much, and until when."""

    kinds: dict[FeedbackKind, KindMapping] = msgspec.field(default_factory=_every_kind)
    """Kind to what it is worth; a kind that is not here counts not at all, and is counted as ignored."""
    window_s: Annotated[float, msgspec.Meta(ge=0)] = 3600.0
    """How long after a session's last turn its reward closes. Before that it is not eligible: early answers are not
    those of the average user."""

    def __post_init__(self) -> None:
        for kind, mapping in self.kinds.items():
            finite = all(map(math.isfinite, (mapping.weight, mapping.low, mapping.high)))
            if not finite or mapping.low == mapping.high:
                raise ValueError(f"kinds.{kind}: low {mapping.low} and high {mapping.high}, expected two finite values")

    def sha256(self) -> str:
        """Hash of the whole mapping: two rewards with the same hash are on one scale."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


class SessionEnd(NamedTuple):
    """A session and when its last turn ended."""

    session_id: str
    ended_at: datetime


class Rewards(NamedTuple):
    """The rewards of the sessions whose window has closed."""

    closed: tuple[Reward, ...]
    """One for each session, its value None where no feedback counts; then one for each turn that was judged itself."""
    open_sessions: int
    """Sessions whose window has not closed: not eligible yet."""
    ignored: Mapping[str, int]
    """Feedback that does not count, by reason."""
    counted: Mapping[str, int]
    """Closed session to how many judgements of it and of its turns count."""


def close_rewards(
    sessions: Sequence[SessionEnd],
    feedback: Iterable[Feedback],
    session_of_turn: Mapping[str, str],
    config: RewardConfig,
    *,
    now: datetime,
) -> Rewards:
    """Rewards of the sessions that ended at least a window before `now`.

    Feedback of one kind on one target is averaged; kinds are added. Feedback on a turn is the turn's, feedback on a
    session the session's. `session_of_turn` is turn id to session id.
    """
    window = timedelta(seconds=config.window_s)
    closes = {each.session_id: each.ended_at + window for each in sessions}
    closed = {name: at for name, at in closes.items() if at <= now}
    ignored: Counter[str] = Counter()
    values: dict[tuple[str, str | None], dict[str, list[float]]] = {(name, None): {} for name in closed}
    for judged in standing(feedback, ignored):
        session = judged.session_id if judged.turn_id is None else session_of_turn.get(judged.turn_id)
        if session is None or session not in closes:
            ignored["unknown_session"] += 1
        elif session not in closed:
            continue
        elif (reason := why_ignored(judged, closed[session], config)) is not None:
            ignored[reason] += 1
        else:
            assert judged.value is not None
            by_kind = values.setdefault((session, judged.turn_id), {})
            by_kind.setdefault(judged.kind, []).append(worth(config.kinds[judged.kind], judged.value))
    sha256 = config.sha256()
    made = tuple(
        _reward(session, turn, by_kind, sha256, closed[session]) for (session, turn), by_kind in values.items()
    )
    counted: Counter[str] = Counter()
    for (session, _), by_kind in values.items():
        counted[session] += sum(map(len, by_kind.values()))
    return Rewards(made, len(closes) - len(closed), dict(ignored), dict(counted))


def standing(feedback: Iterable[Feedback], ignored: "Counter[str]") -> list[Feedback]:
    """Feedback that counts: the same id once, and none that a later one supersedes."""
    by_id: dict[str, Feedback] = {}
    for judged in feedback:
        if judged.feedback_id in by_id:
            ignored["duplicate"] += 1
        else:
            by_id[judged.feedback_id] = judged
    replaced = {judged.supersedes for judged in by_id.values()} & by_id.keys()
    ignored["superseded"] += len(replaced)
    return [judged for name, judged in by_id.items() if name not in replaced]


def why_ignored(judged: Feedback, closes_at: datetime, config: RewardConfig) -> str | None:
    """Why a judgement that stands does not count in a window that closes then; None when it counts."""
    if judged.at > closes_at:
        return "late"
    if judged.kind not in config.kinds or config.kinds[judged.kind].weight == 0:
        return "kind_left_out"
    if judged.value is None:
        return "no_value"
    # NaN is not below either.
    return None if abs(worth(config.kinds[judged.kind], judged.value)) <= LARGEST else "not_finite"


def worth(mapping: KindMapping, value: float) -> float:
    """What a value of a kind adds to the reward."""
    return mapping.weight * (value - mapping.low) / (mapping.high - mapping.low)


def _reward(
    session: str, turn: str | None, by_kind: Mapping[str, Sequence[float]], sha256: str, closed_at: datetime
) -> Reward:
    parts = {kind: math.fsum(values) / len(values) for kind, values in by_kind.items()}
    value = math.fsum(parts.values()) if parts else None
    return Reward(
        session_id=session, turn_id=turn, value=value, parts=parts, mapping_sha256=sha256, closed_at=closed_at
    )
