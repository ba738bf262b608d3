"""A fall on held-out tasks as words, the same on the first screen and in the token view."""

from checks.eval_falls import Change
from checks.paired_tasks import Paired
from console.watch.views.falls import RewardMove, ToldFall

HINT = "the reward asks for what the held-out check counts as worse"
"""What it usually is where rewards went the other way; always said to be a hint."""


def score_text(score: Paired) -> str:
    """Before and after."""
    return f"{score.before:.2f} → {score.after:.2f}"


def tasks_text(change: Change) -> str:
    """How many tasks, and where the adapter was tried on several suites, of which."""
    of = "" if change.suites < 2 else f" of suite {change.suite or 'without a name'}"
    return f"{change.score.tasks} tasks{of}"


def interval_text(change: Change) -> str:
    """The difference over the tasks, with its interval where there is one."""
    score = change.score
    bounds = "" if score.low is None or score.high is None else f" (95 % {score.low:+.2f} to {score.high:+.2f})"
    return f"{score.by:+.2f}{bounds} paired over {tasks_text(change)}"


def fall_text(told: ToldFall, label: str, *, short: bool = False) -> str:
    """Which signal, over which steps, by which version, and what the rewards did meanwhile."""
    fall = told.fall
    of = "" if fall.version is None else f" v{fall.version}" if short else f" by v{fall.version}"
    standing = _standing(told)
    what = f"held-out {score_text(fall.score)}{of}" + (f"{'' if short else ','} {standing}" if standing else "")
    steps = f"@{steps_text(fall.first, fall.step)}"
    reward = reward_text(told.reward, short=short)
    if short:
        return f"{label}{steps} {what} ┊ {reward}"
    return f"{label} {steps}: {what} ┊ {reward} ┊ {interval_text(fall)}"


def _standing(told: ToldFall) -> str | None:
    """Whether sessions go to it: what serves them weighs more than what the gate said before."""
    serving = {"live": "live", "canary": "on trial"}.get(told.state or "")
    return serving or ("refused" if told.refused else None)


def steps_text(first: int, last: int) -> str:
    """One step, or the first and the last."""
    return f"{first}–{last}" if first < last else str(last)


def reward_text(move: RewardMove | None, *, short: bool = False) -> str:
    """What the train reward did while held-out fell, and whether it had gone against held-out before."""
    if move is None:
        return "reward n/d"
    if move.before is None:
        return f"reward {move.after:.2f}, before n/d"
    numbers = f"{move.before:.2f} → {move.after:.2f}"
    if move.against and move.held_out is not None and not short:
        way = "rose" if move.held_out.by > 0 else "fell"
        sampled = f"v{move.sampler_before} → v{move.sampler_after}"
        return f"reward {numbers} where held-out {way} {score_text(move.held_out)} (turns of {sampled})"
    if short:
        return f"reward {numbers}"
    return f"reward {numbers} {'fell too' if move.after < move.before else 'did not fall'}"


def hint_of(told: ToldFall) -> str | None:
    """Only where reward and held-out contradict each other."""
    move = told.reward
    if move is None or move.before is None:
        return None
    return HINT if move.against or move.after > move.before else None
