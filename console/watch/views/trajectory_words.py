"""The list of sessions in words: its columns and its sentence, the same on the screen and in plain lines."""

from collections.abc import Callable
from typing import NamedTuple

from console.watch.views.token_words import NONE, weight_text
from console.watch.views.trajectories import TrajectoriesView, TrajectoryRow


class ListColumn(NamedTuple):
    """One column of the list."""

    key: str
    """Of the row, as it is sorted by."""
    title: str
    width: int
    right: bool = False
    wide: bool = False
    """Whether it is left out where there is little room."""

    def cell(self, row: TrajectoryRow) -> str:
        """What stands in it for a session; text of the log is not escaped yet."""
        return _CELLS[self.key](row)


def reward_text(value: float | None) -> str:
    """A reward with its sign; nothing is nothing, and 0 is 0."""
    return NONE if value is None else "0" if value == 0 else f"{value:+.2f}"


def tail_of(name: str, width: int) -> str:
    """The end of a name, where names differ."""
    return name if len(name) <= width else f"…{name[len(name) - width + 1 :]}"


def _count(number: int | None) -> str:
    if number is None:
        return NONE
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def _at_least(row: TrajectoryRow, count: str) -> str:
    return f"{count}+" if row.begun_before and count != NONE else count


def _prefix(row: TrajectoryRow) -> str:
    """Where its first break is, else what was declared."""
    if row.breaks:
        more = f"+{row.breaks - 1}" if row.breaks > 1 else ""
        return f"✗ t{row.break_turn}{more}"
    declared = [
        f"{name}{count}"
        for name, count in (("cmp", row.compactions), ("sub", row.subagents))
        if count is not None and count
    ]
    if row.breaks is None:
        return NONE
    return f"✓ {' '.join(declared)}".rstrip()


def _retok(row: TrajectoryRow) -> str:
    if row.retok_unread:
        return "unread"
    return NONE if row.retok is None else f"✗{row.retok}" if row.retok else "✓"


def _reward(row: TrajectoryRow) -> str:
    return reward_text(row.reward)


def _feedback(row: TrajectoryRow) -> str:
    if not row.judgements:
        return NONE
    return f"{ {'up': '+', 'down': '-', 'mixed': '~'}.get(row.feedback or '', '·') } {row.judgements}"


def _trained(row: TrajectoryRow) -> str:
    if row.trainable is None or row.begun_before:
        return NONE
    reason = f" {row.why_not}" if row.why_not and row.trainable < row.turns else ""
    return f"{row.trainable}/{row.turns}{reason}"


_CELLS: dict[str, Callable[[TrajectoryRow], str]] = {
    "session_id": lambda row: row.session_id,
    "tenant": lambda row: row.tenant or NONE,
    "served": lambda row: row.served or NONE,
    "turns": lambda row: _at_least(row, str(row.turns)),
    "tokens": lambda row: _at_least(row, _count(row.tokens)),
    "context": lambda row: _count(row.context),
    "breaks": _prefix,
    "retok": _retok,
    "reward": _reward,
    "feedback": _feedback,
    "worst_w": lambda row: weight_text(row.worst_w),
    "trainable": _trained,
    "last_at": lambda row: NONE if row.last_at is None else f"{row.last_at:%H:%M:%S}",
}
COLUMNS: tuple[ListColumn, ...] = (
    ListColumn("session_id", "session", 12),
    ListColumn("tenant", "tenant", 8, wide=True),
    ListColumn("served", "adapter@ver", 15),
    ListColumn("turns", "turns", 5, right=True),
    ListColumn("tokens", "tok", 6, right=True),
    ListColumn("context", "ctx", 6, right=True, wide=True),
    ListColumn("breaks", "prefix", 7),
    ListColumn("retok", "retok", 6),
    ListColumn("reward", "reward", 6, right=True),
    ListColumn("feedback", "fb", 4),
    ListColumn("worst_w", "worst w", 7, right=True),
    ListColumn("trainable", "trainable", 13, wide=True),
    ListColumn("last_at", "last", 8, wide=True),
)
"""In the order in which they stand."""
TITLES = {each.key: each.title for each in COLUMNS}


def _broken(view: TrajectoriesView) -> str:
    """How many break, and of how many that is not known."""
    if view.broken is None:
        return "prefix breaks n/d"
    unknown = f" ({view.prefix_unknown:,} n/d)" if view.prefix_unknown else ""
    return f"{view.broken:,} with a prefix break{unknown}"


def list_words(view: TrajectoriesView) -> str:
    """How many sessions there are, how many break, and what they are sorted by."""
    of_part = "" if view.newest_turns is None else "newest part: "
    counts = f"{view.total:,} of {view.sessions:,}" if view.total != view.sessions else f"{view.sessions:,}"
    parts = [f"{of_part}{counts} session{'s' * (view.sessions != 1)}, {view.turns:,} turn{'s' * (view.turns != 1)}"]
    parts.append(_broken(view))
    parts.append(f"{view.unanswered:,} without feedback")
    if view.share is None:
        parts.append("weights not read yet")
    elif view.share < 1:
        parts.append(f"weights of {100 * view.share:.0f}% of the turns")
    if view.sort:
        parts.append(f"by {TITLES.get(view.sort, view.sort)}{' down' if view.descending else ' up'}")
    return " · ".join(parts)
