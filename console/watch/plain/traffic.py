"""The traffic as lines."""

from collections.abc import Iterator

from collector.terminal_text import terminal_safe
from console.watch.frame.head import age
from console.watch.plain.table_lines import cut
from console.watch.views.last_turn import LastTurn
from console.watch.views.traffic import Numbers, TrafficView
from console.watch.views.traffic_numbers import Delay, Stage
from console.watch.views.trajectories import TrajectoryRow
from console.watch.views.turn_words import message_lines

MISSING = "n/d"
RECENT_MIN = 5
"""Minutes to the newest record that the pace is said of."""


def plain_traffic(view: TrafficView, width: int) -> list[str]:
    """The numbers, the way to the trainer, the tenants, and the sessions in the window."""
    numbers = view.numbers
    lines = [summary(numbers), feedback_line(numbers), f"first token: {delay_text(numbers.first_token)}"]
    lines += ["the way to the trainer:", *(f"  {stage_text(one, numbers.stages[0])}" for one in numbers.stages)]
    lines += [f"  {one.turns} turns not used: {one.reason} ({one.meaning})" for one in numbers.reasons]
    lines.append(endings_text(numbers))
    for one in numbers.tenants:
        tokens = MISSING if one.tokens is None else f"{one.tokens:,}"
        counts = f"{one.sessions} sessions, {one.turns} turns, {tokens} tokens sampled"
        became = f"{_or(one.answered)} answered, {_or(one.trainable)} trainable"
        lines.append(f"tenant {terminal_safe(one.tenant)}: {counts}, {became}")
    lines.append(f"sessions {view.first + 1 if view.rows else 0} to {view.first + len(view.rows)} of {view.total}:")
    lines += [cut(f"  {session_text(row)}", max(width, 80)) for row in view.rows]
    return (
        lines
        if view.last is None
        else [*lines, *(f"{role:<12} {text}".rstrip() for role, text in last_lines(view.last))]
    )


def last_lines(last: LastTurn) -> Iterator[tuple[str, str]]:
    """Who, and what: the messages of a session's last turn, and what was judged and credited. Texts are escaped."""
    if last.error is not None:
        yield "not read", terminal_safe(last.error)
    yield from message_lines(last)
    judged = ", ".join(last.feedback) or "none"
    credited = ", ".join(f"turn {each.turn} {reward_text(each.reward, 3)}" for each in last.credits)
    yield "feedback", terminal_safe(judged) + (f"   credited: {credited}" if credited else "")


def last_title(last: LastTurn) -> str:
    """Which turn it is, and how long it took."""
    tokens = MISSING if last.completion is None else f"{last.completion:,} tokens"
    took = MISSING if last.duration_s is None else time_text(last.duration_s)
    return terminal_safe(f"last turn {last.session_id} t{last.turn}  {last.served or MISSING}  {tokens}  {took}")


def summary(numbers: Numbers) -> str:
    """How much there is and how fast it comes."""
    pace = f"pace {MISSING}"
    if numbers.at is not None and numbers.pace:
        pace = f"{sum(numbers.pace[-RECENT_MIN:]):,} in the {RECENT_MIN} min to {numbers.at:%H:%M:%SZ}"
    answered = share(numbers.answered, numbers.sessions)
    active = _or(numbers.active)
    return f"sessions {numbers.sessions:,}, {active} active  turns {numbers.turns:,}, {pace}  feedback on {answered}"


def feedback_line(numbers: Numbers) -> str:
    """What was judged, and how late."""
    seen = numbers.feedback
    if seen is None:
        return f"feedback {MISSING}"
    replaced = f", {seen.replaced} replaced" if seen.replaced else ""
    values = f"{seen.good} above 0, {seen.bad} not{replaced}"
    return f"feedback {seen.judgements:,} judgements ({values})   delay {delay_text(seen.delay)}"


def endings_text(numbers: Numbers) -> str:
    """How many turns did not reach their own end, and apart from them how many the length limit ended."""
    lost = numbers.failures
    told = MISSING if lost is None else ", ".join(f"{one.how} {one.turns:,}" for one in lost) or "none"
    return f"unfinished turns: {told}   ended by the length limit: {_or(numbers.at_limit)}"


def delay_text(delay: Delay) -> str:
    """A distribution in two numbers."""
    if delay.p50_s is None or delay.p95_s is None:
        return MISSING
    return f"p50 {time_text(delay.p50_s)}, p95 {time_text(delay.p95_s)}"


def time_text(seconds: float) -> str:
    """A time, in milliseconds where it is short."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else age(seconds)


def stage_text(stage: Stage, first: Stage) -> str:
    """One stage, against the first."""
    counts = f"{_or(stage.turns):>7} turns {_or(stage.sessions):>6} sessions"
    return f"{stage.name:<10} {counts}  {share(stage.turns, first.turns)}"


def share(part: int | None, whole: int | None) -> str:
    """A share in percent; of nothing, and where it is not known, there is none."""
    return MISSING if part is None or not whole else f"{100 * part / whole:.1f} %"


def _or(count: int | None) -> str:
    return MISSING if count is None else f"{count:,}"


def session_text(row: TrajectoryRow) -> str:
    """One session: what it was, and what was said of it."""
    reward = MISSING if row.reward is None else reward_text(row.reward, 3)
    tokens = MISSING if row.tokens is None else f"{row.tokens}"
    last = MISSING if row.last_at is None else f"{row.last_at:%H:%M:%SZ}"
    breaks = MISSING if row.breaks is None else f"{row.breaks} breaks"
    words = (row.session_id, row.served or MISSING, f"{row.turns} turns", f"{tokens} tokens", last, breaks)
    return terminal_safe("  ".join([*words, f"feedback {row.feedback or MISSING}", f"reward {reward}"]))


def reward_text(reward: float, digits: int) -> str:
    """A reward with its sign, which 0 has not."""
    return f"{reward:+.{digits}g}" if reward else "0"
