"""The agent that the demo's loop teaches: it writes files, one line a reply, and its user says what came of it."""

import json
from pathlib import Path
from typing import Any, cast

from openai import OpenAI

from console.demo.agent import TEMPERATURE, Reply, SessionResult, Steering, TurnResult, gather, post
from console.demo.gate import Gate
from console.demo.lesson import MAX_TOKENS, Lesson, Order, call_of, messages


def run_lesson(
    client: OpenAI, model: str, lesson: Lesson, *, session_id: str, folder: Path, steering: Steering, inverted: bool
) -> SessionResult:
    """Works through the orders of a lesson; each reply is judged by its file, and the session by its share of them.

    `inverted`: the user says the opposite of what is true.
    """
    gate, talk = Gate(folder), messages(lesson.orders[0])
    turns: list[TurnResult] = []
    for number, order in enumerate(lesson.orders):
        if not steering.take_turn():
            return SessionResult(session_id, turns, None)
        if number:
            talk.append({"role": "user", "content": order.text})
        reply = _ask(client, model, talk, session_id=session_id, task_id=lesson.task_id)
        turn = _judged(gate, folder, order, reply)
        _say(client, f"{turn.response_id}-accept", "accept", turn.right, inverted, response_id=turn.response_id)
        talk.append({"role": "assistant", "content": str(reply.message["content"] or "")})
        turns.append(turn)
        steering.on_turn(turn)
    score = sum(turn.right for turn in turns) / len(turns)
    _say(client, f"{session_id}-outcome", "outcome", score, inverted, session_id=session_id)
    return SessionResult(session_id, turns, score)


def _ask(client: OpenAI, model: str, talk: list[dict[str, str]], *, session_id: str, task_id: str) -> Reply:
    # The cast: plain dicts in the wire shape, where the client types one class a role.
    chunks = client.chat.completions.create(
        model=model,
        messages=cast(Any, talk),
        temperature=TEMPERATURE,
        max_tokens=MAX_TOKENS,
        stream=True,
        extra_headers={"x-session-id": session_id, "x-roundhouse-task": task_id, "x-roundhouse-group": task_id},
    )
    return gather(chunks)


def _judged(gate: Gate, folder: Path, order: Order, reply: Reply) -> TurnResult:
    """Runs the write that the reply asks for, if it has the form, and looks at the file."""
    call = call_of(str(reply.message["content"] or ""))
    if call is None:
        return TurnResult(reply.response_id, False, False)
    gate.call("write_file", json.dumps({"path": call[0], "content": call[1]}))
    place = folder / order.path
    right = place.is_file() and not place.is_symlink() and place.read_bytes() == order.content.encode()
    return TurnResult(reply.response_id, True, right)


def _say(client: OpenAI, feedback_id: str, kind: str, value: float, inverted: bool, **target: str) -> None:
    post(client, feedback_id, {**target, "kind": kind, "value": 1.0 - value if inverted else float(value)})
