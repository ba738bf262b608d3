"""The turns of a session: how they stand to each other, what was tried again, and what was said."""

import json
from datetime import timedelta
from typing import Any

import pytest

from console.watch.held import Held
from console.watch.plain.turn import plain_turn
from console.watch.views.turn import TOPIC, TurnAsk, TurnsView
from tests.console.watch.drill.held_log import SAMPLED_AT, held_of, log_of, turn


def seen(turns: list[dict[str, Any]], asked: TurnAsk | None = None, **tables: list[dict[str, Any]]) -> TurnsView:
    log = log_of(turns, **tables)
    view = TOPIC.build(held_of(log), asked or TurnAsk(session_id="s"), lambda: log)
    assert isinstance(view, TurnsView)
    return view


def test_a_line_of_turns_and_a_fork() -> None:
    view = seen(
        [
            turn(1, prompt_ids=[1, 2], completion_ids=[3]),
            turn(2, prompt_ids=[1, 2, 3, 4], completion_ids=[5]),
            turn(3, prompt_ids=[1, 2, 3, 6], completion_ids=[7]),
            turn(4, prompt_ids=[1, 2, 3, 6, 7, 8], completion_ids=[9]),
        ]
    )
    assert [(row.turn, row.parent, row.depth, row.prefix) for row in view.rows] == [
        (1, None, 0, "root"),
        (2, 1, 0, "extends"),
        (3, 1, 1, "extends"),
        (4, 3, 1, "extends"),
    ]


def test_a_break_is_where_the_check_has_it() -> None:
    long = list(range(100, 160))
    view = seen(
        [
            turn(1, prompt_ids=long, completion_ids=[3, 4]),
            turn(2, prompt_ids=[*long[:50], *[7] * 12], completion_ids=[8]),
            turn(3, prompt_ids=[*long[:50], *[7] * 12, 8, 9], completion_ids=[8]),
        ]
    )
    row = view.rows[1]
    assert (row.prefix, row.prefix_index, row.break_kind, row.parent) == ("break", 50, "other", None)
    assert (view.broken, view.selected, view.selected_row) == (1, 2, 1)


def test_a_declared_subagent_is_no_break() -> None:
    long = list(range(100, 160))
    turns = [
        turn(1, prompt_ids=long, completion_ids=[3, 4]),
        turn(2, prompt_ids=[*long[:50], *[7] * 12], completion_ids=[8]),
    ]
    view = seen(turns, events=[{"kind": "subagent", "session_id": "s", "turn": 2}])
    assert (view.rows[1].prefix, view.broken) == ("root", 0)


def test_a_retry_is_told_by_its_event() -> None:
    turns = [turn(1, prompt_ids=[1], completion_ids=[], complete=False), turn(2, prompt_ids=[1], completion_ids=[2])]
    detail = json.dumps({"turn_id": "s-2", "retry_of": "s-1"})
    view = seen(turns, events=[{"kind": "retry", "session_id": "s", "turn": 2, "detail": detail}])
    assert (view.rows[0].attempts, view.rows[1].retry_of) == (1, 1)
    assert (view.rows[0].retry_of, view.rows[1].attempts) == (None, 0)


def test_times_counts_and_weights() -> None:
    turns = [
        turn(
            1,
            prompt_ids=[1, 2],
            completion_ids=[3, 4],
            sampled_logprobs=[-1.0, -1.0],
            trainer_logprobs=[-1.0, -2.5],
            finish_reason="stop",
            cached_tokens=1,
        ),
        turn(2, prompt_ids=[1, 2, 3, 4], completion_ids=[], finished_at=None, first_token_at=None),
    ]
    first, second = seen(turns).rows
    assert (first.first_token_s, first.duration_s, first.prompt, first.completion, first.cached) == (0.2, 3.0, 2, 2, 1)
    assert first.worst_w == pytest.approx(0.22313016014842982)
    assert first.outliers == 1
    assert (second.first_token_s, second.duration_s, second.worst_w, second.outliers) == (None,) * 4
    assert (second.completion, second.retok_spans, second.trainable) == (0, None, None)


def request(*messages: dict[str, Any]) -> str:
    return json.dumps({"messages": list(messages)})


def test_only_what_is_new_is_said() -> None:
    system, ask = {"role": "system", "content": "Be terse."}, {"role": "user", "content": "17 + 25?"}
    said = {"role": "assistant", "content": "42", "reasoning_content": "add them"}
    again = {"role": "user", "content": [{"type": "text", "text": "Double it"}, {"type": "image_url"}]}
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": '{"a": 1}'}}]}
    turns = [
        turn(1, prompt_ids=[1], completion_ids=[2], request=request(system, ask), response=json.dumps(said)),
        turn(
            2,
            prompt_ids=[1, 2, 3],
            completion_ids=[4],
            request=request(system, ask, said, again),
            response=json.dumps(call),
        ),
    ]
    view = seen(turns, TurnAsk(session_id="s", turn=2))
    assert view.earlier == 3
    assert [(each.role, each.text, each.calls) for each in view.messages] == [
        ("user", "Double it[image_url]", ()),
        ("assistant", None, ('add({"a": 1})',)),
    ]
    first = seen(turns, TurnAsk(session_id="s", turn=1))
    assert [(each.role, each.text, each.reasoning) for each in first.messages] == [
        ("system", "Be terse.", None),
        ("user", "17 + 25?", None),
        ("assistant", "42", "add them"),
    ]


@pytest.mark.parametrize("broken", ["{", "[]", '{"messages": 3}', '{"messages": [1, null, {"content": {"a": 1}}]}'])
def test_requests_of_any_shape_are_read_without_harm(broken: str) -> None:
    turns = [turn(1, prompt_ids=[1], completion_ids=[2], request=broken, response=broken)]
    assert seen(turns).found


def test_what_models_say_cannot_drive_the_terminal() -> None:
    evil = {"role": "user\x1b[2J", "content": "a\x1b]0;t\x07b\nnext\u202e"}
    view = seen([turn(1, prompt_ids=[1], completion_ids=[2], request=request(evil))])
    assert all(line.isprintable() for line in plain_turn(view, 100))
    assert any("a\\x1b]0;t\\x07b" in line for line in plain_turn(view, 100))


def test_a_log_of_text_shows_its_text() -> None:
    view = seen([turn(1, prompt_text="Hello", completion_text="Hi")])
    assert [(each.role, each.text) for each in view.messages] == [("prompt", "Hello"), ("completion", "Hi")]
    assert view.rows[0].prefix == "unknown"


def test_a_long_session_is_given_in_windows() -> None:
    turns = [turn(number, prompt_ids=list(range(number)), completion_ids=[number]) for number in range(1, 121)]
    view = seen(turns, TurnAsk(session_id="s", first=40, count=10))
    assert (view.total, view.first, [row.turn for row in view.rows]) == (120, 40, list(range(41, 51)))


def test_a_session_that_is_not_there_is_said_to_be_missing() -> None:
    view = seen([turn(1, prompt_ids=[1], completion_ids=[2])], TurnAsk(session_id="other"))
    assert (view.found, view.total) == (False, 0)
    assert plain_turn(view, 80) == ["session other: session other is not in what is watched"]


def test_a_replay_shows_no_later_turn_and_no_later_score() -> None:
    more = [{"trainer_step": 9, "trainer_logprobs": [-9.0]}]
    rows = [
        turn(
            1,
            prompt_ids=[1],
            completion_ids=[2],
            sampled_logprobs=[-1.0],
            trainer_logprobs=[-1.0],
            trainer_step=3,
            more_scores=more,
        ),
        turn(2, prompt_ids=[1, 2, 3], completion_ids=[4]),
    ]
    log = log_of(rows, steps=[{"step": 3, "adapter": "a", "at": SAMPLED_AT + timedelta(seconds=14)}])
    held: Held = held_of(log)
    view = TOPIC.build(held.until(SAMPLED_AT + timedelta(seconds=15)), TurnAsk(session_id="s"), lambda: log)
    assert isinstance(view, TurnsView)
    assert [(row.turn, row.worst_w) for row in view.rows] == [(1, 1.0)]


def test_a_filter_keeps_turns_and_the_rest_is_still_told() -> None:
    turns = [
        turn(1, prompt_ids=[1, 2], completion_ids=[3], finish_reason="length"),
        turn(2, prompt_ids=[1, 2, 3, 4], completion_ids=[5, 6, 7], finish_reason="stop"),
        turn(3, prompt_ids=[1, 2, 3, 4, 5, 6, 7, 8], completion_ids=[9], finish_reason="length"),
    ]
    view = seen(turns, TurnAsk(session_id="s", filter="finish:length prompt>3"))
    assert ([row.turn for row in view.rows], view.total, view.turns, view.selected) == ([3], 1, 3, 3)
    assert view.selected_row == 0
    longest = seen(turns, TurnAsk(session_id="s", turn=1, filter="tok>=3"))
    assert ([row.turn for row in longest.rows], longest.selected, longest.selected_row) == ([2], 1, 0)
