"""The end of the demo in words: what was captured and where to look next."""

from collections.abc import Sequence
from math import exp
from pathlib import Path

from collector.terminal_text import terminal_safe
from console.demo.agent import SessionResult, TurnResult
from console.demo.settings import ADAPTER
from console.demo.summary import Look, Summary, run_turns

SHOWN_CHARS = 100
"""Longest piece of model text on a line."""


def report(
    summary: Summary,
    store: Path,
    *,
    turns: list[TurnResult],
    sessions: list[SessionResult],
    seconds: float,
    learnt: Sequence[str] = (),
) -> str:
    """The whole report, `learnt` being what the loop adds; model text in it is escaped."""
    parts = [_captured(summary, turns, sessions, seconds), _store(summary)]
    if summary.look is not None:
        parts.append(_turn(summary.look))
    parts += [*learnt, _next(store, looped=bool(learnt))]
    return "\n\n".join(parts)


def interrupted_report(store: Path, *, run_id: str) -> str:
    """What a run that was cut short left in the store."""
    turns = run_turns(store, run_id)
    if turns.is_empty():
        return f"stopped; no turn was captured in {store} yet"
    sessions = turns["session_id"].n_unique()
    return f"stopped; {turns.height} turns of {sessions} sessions are captured in {store}\n\n{_next(store)}"


def _captured(summary: Summary, turns: list[TurnResult], sessions: list[SessionResult], seconds: float) -> str:
    finished = [session for session in sessions if session.score is not None]
    solved = sum(session.score == 1.0 for session in finished)
    outcome = "none posted" if summary.mean_outcome is None else f"{summary.mean_outcome:.2f} of 1"
    share = summary.trainable_turns / summary.turns if summary.turns else 0.0
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(summary.untrainable.items())) or "none"
    rows = [
        ("sessions", f"{summary.sessions}, {len(finished)} finished, {solved} with every file right"),
        ("turns", f"{summary.turns} in {seconds:.0f} s, {_calls(turns)}"),
        ("extending", f"{summary.extending_turns} of {summary.later_turns} later turns, token for token"),
        ("tokens", f"{summary.prompt_tokens:,} prompt, {summary.completion_tokens:,} sampled"),
        ("with mu", f"{summary.tokens_with_mu:,} of {summary.completion_tokens:,} sampled tokens"),
        ("trainable", f"{summary.trainable_turns} turns ({share:.0%}); not trainable: {reasons}"),
        ("feedback", f"{summary.feedback} judgements, mean outcome {outcome}"),
    ]
    return "captured\n" + "\n".join(f"  {name:<10} {text}" for name, text in rows)


def _calls(turns: list[TurnResult]) -> str:
    formed, right = sum(turn.well_formed for turn in turns), sum(turn.right for turn in turns)
    return f"{formed} with a well-formed tool call, {right} did what was asked"


def _store(summary: Summary) -> str:
    lines = [f"verify: {summary.records} records, {'clean' if not summary.faults else 'NOT clean'}"]
    return "\n".join([*lines, *(f"  {fault}" for fault in summary.faults)])


def _turn(look: Look) -> str:
    head = f"one turn: {look.turn_id}, turn {look.turn} of {look.session_id}"
    parent = f"extends {look.parent_turn_id}" if look.parent_turn_id else "has no parent"
    lines = [head, f"  prompt of {look.prompt_tokens} tokens, {parent}", f"  sampled {_line(look.text)}"]
    lines.append(f"  {'id':>6}  {'log mu':>8}  {'mu':>6}  token")
    for token, text, log_mu in look.tokens:
        lines.append(f"  {token:>6}  {log_mu:>8.4f}  {exp(log_mu):>6.4f}  {terminal_safe(text)}")
    return "\n".join(lines)


def _next(store: Path, *, looped: bool = False) -> str:
    query = "select finish_reason, count(*) as turns from turns group by all"
    adapter = [f"  roundhouse adapters show {ADAPTER} --store {store}"] if looped else []
    return "\n".join(
        [
            "where to look next",
            f"  roundhouse check {store}",
            *adapter,
            f'  roundhouse sql --store {store} "{query}"',
            f"  roundhouse export --store {store} --to log.jsonl",
            f"  roundhouse verify {store}",
        ]
    )


def _line(text: str) -> str:
    safe = terminal_safe(text)
    return safe if len(safe) <= SHOWN_CHARS else safe[: SHOWN_CHARS - 1] + "…"
