"""The turns of a session in words: columns, a sentence and messages, the same on the screen and in plain lines."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from collector.terminal_text import terminal_safe
from console.watch.views.last_turn import LastTurn
from console.watch.views.token_words import NONE, weight_text
from console.watch.views.trajectory_words import reward_text
from console.watch.views.turn import TurnRow, TurnsView


class TurnColumn(NamedTuple):
    """One column of the list of turns."""

    key: str
    title: str
    width: int
    right: bool = False
    wide: bool = False
    """Whether it is left out where there is little room."""

    def cell(self, row: TurnRow) -> str:
        """What stands in it for a turn; text of the log is not escaped yet."""
        return _CELLS[self.key](row)


def _link(row: TurnRow) -> str:
    """How it stands to the earlier turns, by the ids; what was believed at capture where that says more."""
    if row.prefix == "break":
        return f"✗@{row.prefix_index} {row.break_kind}"
    if row.prefix == "declared":
        return row.break_kind or "declared"
    if row.prefix == "unknown":
        return row.link or NONE
    if row.prefix == "root" and row.link == "subagent":
        return "sub-agent"
    return "root" if row.prefix == "root" else f"↳ {row.parent}"


def _tries(row: TurnRow) -> str:
    if row.retry_of is not None:
        return f"of {row.retry_of}"
    return f"+{row.attempts}" if row.attempts else ""


def _seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}s" if value < 100 else f"{value:.0f}s"


def _trained(row: TurnRow) -> str:
    if row.trainable is None:
        return NONE
    return "yes" if row.trainable else f"no: {row.untrainable_reason or '?'}"


def _served(row: TurnRow) -> str:
    if row.adapter is None:
        return NONE if row.adapter_version is None else f"v{row.adapter_version}"
    return f"{row.adapter}@{'?' if row.adapter_version is None else row.adapter_version}"


def _outliers(row: TurnRow) -> str:
    if row.worst_w is None:
        return NONE
    return f"{weight_text(row.worst_w)}{f' ◆{row.outliers}' if row.outliers else ''}"


_CELLS: dict[str, Callable[[TurnRow], str]] = {
    "turn": lambda row: f"{'  ' * min(row.depth, 4)}{row.turn}",
    "link": _link,
    "tries": _tries,
    "served": _served,
    "prompt": lambda row: NONE if row.prompt is None else str(row.prompt),
    "completion": lambda row: NONE if row.completion is None else str(row.completion),
    "cached": lambda row: NONE if row.cached is None else str(row.cached),
    "finish": lambda row: row.finish_reason or (NONE if row.complete is not False else "incomplete"),
    "first": lambda row: _seconds(row.first_token_s),
    "took": lambda row: _seconds(row.duration_s),
    "worst": _outliers,
    "retok": lambda row: NONE if row.retok_spans is None else f"✗{row.retok_spans}" if row.retok_spans else "✓",
    "trainable": _trained,
    "feedback": lambda row: row.feedback or NONE,
    "reward": lambda row: reward_text(row.reward),
    "at": lambda row: NONE if row.started_at is None else f"{row.started_at:%H:%M:%S}",
}
COLUMNS: tuple[TurnColumn, ...] = (
    TurnColumn("turn", "turn", 6),
    TurnColumn("link", "link", 18),
    TurnColumn("tries", "try", 4),
    TurnColumn("served", "adapter@ver", 12, wide=True),
    TurnColumn("prompt", "prompt", 6, right=True),
    TurnColumn("completion", "compl", 5, right=True),
    TurnColumn("finish", "finish", 6),
    TurnColumn("took", "took", 6, right=True),
    TurnColumn("worst", "worst w", 9),
    TurnColumn("retok", "retok", 5, wide=True),
    TurnColumn("trainable", "trainable", 10, wide=True),
    TurnColumn("feedback", "fb", 8, wide=True),
    TurnColumn("reward", "reward", 6, right=True, wide=True),
    TurnColumn("cached", "cached", 6, right=True, wide=True),
    TurnColumn("first", "first", 6, right=True, wide=True),
)
"""In the order in which they stand."""


def session_words(view: TurnsView) -> str:
    """The session in one sentence."""
    if not view.found:
        return f"session {terminal_safe(view.session_id)} is not in what is watched"
    parts = [f"{view.turns} turn{'s' * (view.turns != 1)}"]
    if view.tokens is not None:
        parts.append(f"{view.tokens:,} tokens sampled")
    parts.append("breaks n/d" if view.broken is None else f"{view.broken} break{'s' * (view.broken != 1)}")
    parts.append(f"reward {reward_text(view.reward)}")
    for name, value in (("tenant", view.tenant), ("task", view.task_id), ("group", view.group_id)):
        if value is not None:
            parts.append(f"{name} {terminal_safe(value)}")
    return " · ".join(parts)


def message_lines(view: TurnsView | LastTurn) -> Iterator[tuple[str, str]]:
    """Role and one line of text each: what the selected turn added. Text is escaped, line ends apart."""
    if view.earlier:
        yield "", f"… {view.earlier} earlier messages"
    for message in view.messages:
        role = terminal_safe(message.role)
        if message.reasoning:
            yield from _lines(f"{role} thinks", message.reasoning)
        if message.text:
            yield from _lines(role, message.text)
        for call in message.calls:
            yield from _lines(f"{role} calls", call)
        if not message.text and not message.calls and not message.reasoning:
            yield role, NONE if message.text is None else "(empty)"
        if message.cut_chars:
            yield "", f"… {message.cut_chars:,} more characters"


def _lines(role: str, text: str) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(text.split("\n")):
        yield (role if at == 0 else ""), terminal_safe(line)
