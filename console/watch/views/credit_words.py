"""What a token was taught, as text: the fault first, then each fact; the same on the screen and in plain lines."""

import math
from collections.abc import Iterator

from checks.eval_falls import Change
from collector.terminal_text import terminal_safe
from console.watch.views.credit import Credit, Given, Judgement, LearnedBy
from console.watch.views.fall_words import HINT, interval_text, reward_text, score_text, steps_text, tasks_text
from console.watch.views.token import TokenRow, TokenView
from console.watch.views.token_words import logprob_text, scoring_text

SHOWN = 4
"""Judgements that are told one by one: the newest."""


def credit_lines(view: TokenView, position: int, because: str | None = None) -> list[str]:
    """The answer first. `because`: why this token was opened, where no check names it. Text of the log is escaped."""
    row, credit = view.row(position), view.credit
    if row is None or credit is None:
        return []
    if row.index is None:
        return ["a token of the prompt: credit goes to the turn that sampled it"]
    if is_bare(view):
        return [terminal_safe(_nothing(credit))]
    used = [each for each in credit.learned_by or () if _is_of(view, each)]
    lines = [_answer(view, row, credit, used)]
    lines += [] if because is None else [f"opened for {because}"]
    for each in _worst_first(credit.learned_by or ()):
        lines += _against(each)
    lines += [_reward(given) for given in credit.given]
    lines += [] if not credit.judged else [_judgements(credit.judged)]
    lines.append(_advantage(view, row))
    for each in _worst_first(credit.learned_by or ()):
        lines.append(_learner(view, each))
    return [terminal_safe(line) for line in lines]


def is_bare(view: TokenView) -> bool:
    """Whether nothing is recorded of what the turn was worth, and no registry says who learned from it."""
    credit = view.credit
    if credit is None:
        return True
    registered = any(each.version is not None for each in credit.learned_by or ()) or credit.learned_by == ()
    return not (credit.given or credit.judged or "advantage" in view.has or registered)


def _nothing(credit: Credit) -> str:
    names = " and ".join(name_of(each) for each in credit.learned_by or ())
    logged = f"; it is logged for {names}" if names else ""
    return f"CREDIT n/d: no reward, no judgement and no advantage is recorded of this turn{logged}"


def _worst_first(learned: tuple[LearnedBy, ...]) -> list[LearnedBy]:
    return sorted(learned, key=lambda each: not each.bad)


def _is_of(view: TokenView, each: LearnedBy) -> bool:
    """Whether the scoring that is shown can be the one it learned by."""
    return view.chosen is None or view.chosen in each.scorings


def _answer(view: TokenView, row: TokenRow, credit: Credit, used: list[LearnedBy]) -> str:
    """Taught what, by whom, and what became of that one."""
    chain = " → ".join([_rewarded(credit), *_pushed(row, used)])
    if credit.learned_by is None:
        return f"CREDIT n/d: {chain}; which version or step learned from it is not recorded"
    if not credit.learned_by:
        why = "" if credit.why_not is None else f" ({credit.why_not})"
        scored = "" if view.chosen is None else f", though it was scored at {scoring_text(view, view.chosen)}"
        return f"NOT TAUGHT: no version is registered that was trained on it{why}{scored}; {_rewarded(credit)}"
    if not used:
        names = " and ".join(name_of(each) for each in credit.learned_by)
        return f"TAUGHT by another scoring than {scoring_text(view, view.chosen)}: {names}"
    bad = [each for each in used if each.bad]
    fared = "; ".join(fared_text(each) for each in _worst_first(tuple(used)))
    lead = "TAUGHT" if _direction(row) is not None else "CREDIT n/d"
    if bad and lead == "TAUGHT" and row.counted:
        lead = _lead(bad[0])
    return f"{lead}: {chain}; {fared}"


def _lead(bad: LearnedBy) -> str:
    if bad.version is None:
        return f"TAUGHT AT {name_of(bad).upper()}, BEFORE HELD-OUT FELL"
    return f"TAUGHT {name_of(bad).upper()}, WHICH {'FELL' if _fell(bad) else 'WAS REFUSED'}"


def _direction(row: TokenRow) -> str | None:
    """Which way training pushed the token: that of its recorded advantage; None where none is recorded."""
    value = row.advantage
    if value is None or not math.isfinite(value):
        return None
    return "up" if value > 0 else "down" if value < 0 else "neither way"


def _fell(each: LearnedBy) -> bool:
    return each.change is not None and each.change.fell


def name_of(each: LearnedBy) -> str:
    """A version, or the step that the log names."""
    return f"v{each.version}" if each.version is not None else f"step {each.last}"


def _rewarded(credit: Credit) -> str:
    if not credit.given:
        return "reward n/d"
    given = credit.given[0]
    parts = ", ".join(f"{kind} {value:g}" for kind, value in given.parts.items())
    of = "" if given.of == "turn" else "session's "
    return f"{of}reward {_signed(given.value)}{f' ({parts})' if parts else ''}"


def _signed(value: float | None) -> str:
    return "n/d" if value is None else f"{value:+g}" if value else "0"


def _pushed(row: TokenRow, used: list[LearnedBy]) -> Iterator[str]:
    value, way = row.advantage, _direction(row)
    yield "advantage n/d" if value is None else f"advantage {value:+.3g}"
    if not used:
        return
    sure = all(len(each.scorings) < 2 for each in used)
    names = (" and " if sure else " or ").join(name_of(each) for each in used)
    if not row.counted:
        yield f"loss mask 0: not pushed by {names}"
    elif way is None:
        yield f"learned by {names}, which way is n/d"
    else:
        yield f"pushed {way} by {names}" + ("" if sure else ", if by this scoring: which one they used is n/d")


def fared_text(each: LearnedBy) -> str:
    """What became of a version: its held-out score, and what the gate said."""
    change = each.change
    if change is None:
        said = f"{name_of(each)}: held-out n/d"
    else:
        name = name_of(each)
        if each.version is None:
            made = "" if change.version is None else f"v{change.version} of "
            name = f"{made}steps {steps_text(change.first, change.step)}"
        said = f"{name} {_way(change)} on held-out {score_text(change.score)} over {tasks_text(change)}"
    verdict = {"refuse": "was refused", "pass": "passed the gate", "inconclusive": "the gate could not tell"}
    told = verdict.get(each.verdict or "")
    live = "is live" if each.state == "live" else None
    parts = [said, *([told] if told else []), *([live] if live else [])]
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _way(change: Change) -> str:
    """What the scores surely did; all tasks alike have no interval and leave no doubt."""
    score = change.score
    if change.fell:
        return "fell"
    if score.by > 1e-12 and (score.low is None or score.low > 0):
        return "rose"
    return "may have fallen" if score.high is not None and score.high < 0 else "stood"


def _against(each: LearnedBy) -> Iterator[str]:
    """Where a version fell: what the rewards did meanwhile, and what that may mean."""
    move = each.reward
    if not _fell(each) or move is None:
        return
    yield f"rewards of {name_of(each)} beside held-out: {reward_text(move)}"
    if move.against or (move.before is not None and move.after > move.before):
        yield f"hint: {HINT}"


def _reward(given: Given) -> str:
    at = "" if given.closed_at is None else f", closed {given.closed_at:%Y-%m-%d %H:%M:%SZ}"
    mapping = ", mapping n/d" if given.mapping_sha256 is None else f", mapping {given.mapping_sha256[:8]}"
    parts = " + ".join(f"{kind} {value:g}" for kind, value in given.parts.items()) or "parts n/d"
    return f"reward {_signed(given.value)} of the {given.of} = {parts}{mapping}{at}"


def _judgements(judged: tuple[Judgement, ...]) -> str:
    more = f"{len(judged) - SHOWN} earlier; " if len(judged) > SHOWN else ""
    return f"judged: {more}" + "; ".join(_judgement(each) for each in judged[-SHOWN:])


def _judgement(each: Judgement) -> str:
    value = "" if each.value is None else f" {each.value:g}"
    who = f" by {each.source}" if each.source is not None else ""
    tenant = f" ({each.tenant})" if each.tenant is not None else ""
    at = "" if each.at is None else f" {each.at:%H:%M:%SZ}"
    words = f' "{each.text}"' if each.text else ""
    return f"{each.of} {each.kind or 'feedback'}{value}{words}{who}{tenant}{at}"


def _advantage(view: TokenView, row: TokenRow) -> str:
    """As recorded, and where the token is scored again what became of its probability."""
    if view.chosen is None:
        return "advantage n/d: the trainer did not score this turn"
    said = "no advantage is" if row.advantage is None else f"advantage {row.advantage:+.4f} as"
    now = ""
    if row.pi_now is not None and row.pi_old is not None and view.newest is not None:
        later = scoring_text(view, view.newest, short=True)
        now = f"; log p {logprob_text(row.pi_old)}, at {later} {logprob_text(row.pi_now)}"
    return f"{said} recorded by the trainer at {scoring_text(view, view.chosen)}{now}"


def _learner(view: TokenView, each: LearnedBy) -> str:
    of = "" if each.adapter is None else f" of {each.adapter}"
    other = ""
    if each.scorings and not _is_of(view, each):
        other = f" by scoring {' or '.join(str(index + 1) for index in each.scorings)} (v)"
    if each.version is None:
        told = [f"{name_of(each)}{of}, as the log has it{other}"]
    else:
        steps = (
            f", {'step' if each.first == each.last else 'steps'} {steps_text(each.first, each.last)}"
            if each.first is not None and each.last is not None
            else ""
        )
        from_ = "" if each.parent is None else f" from v{each.parent}"
        told = [f"{name_of(each)}{of}:{from_}{steps} on {each.turns} turns, {each.state}{other}"]
    if each.verdict is not None:
        told.append(f"gate {each.verdict}{f': {each.reason}' if each.reason else ''}")
    told.append("held-out n/d" if each.change is None else f"held-out {interval_text(each.change)}")
    return "; ".join(told)
