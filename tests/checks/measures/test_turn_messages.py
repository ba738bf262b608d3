"""Which turn messages say that another one continues, and the kinds of break that they can tell."""

import json
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from checks.measures.turn_messages import TurnMessages, continued_by_messages, kind_by_messages, turn_messages
from checks.suite import run, select_checks

Message = dict[str, Any]
SYSTEM: Message = {"role": "system", "content": "You are terse."}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(text: str, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


def calls(arguments: str | dict[str, Any], **more: Any) -> Message:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    return said("", tool_calls=[call], **more)


def turn(*messages: Message, reply: Message | None = None, tools: list[Any] | None = None) -> TurnMessages:
    request = {"messages": list(messages), "tools": tools}
    messages = turn_messages(json.dumps(request), None if reply is None else json.dumps(reply))
    assert messages is not None
    return messages


FIRST = turn(SYSTEM, user("Hello"), reply=said("Hi."))


def continued(current: TurnMessages, *earlier: TurnMessages | None) -> tuple[bool, tuple[int, ...]]:
    return tuple(continued_by_messages(current, earlier))  # type: ignore[return-value]


def test_who_has_no_answer_yet_continues_nobody() -> None:
    assert continued(turn(SYSTEM, user("Summary: hi was said. Go on.")), FIRST) == (True, ())


def test_what_was_said_before_comes_first_and_an_answer_follows() -> None:
    second = turn(SYSTEM, user("Hello"), said("Hi."), user("Well?"))
    third = turn(SYSTEM, user("Hello"), said("Hi."), user("Well?"), said("Yes."), user("So?"))
    assert continued(second, FIRST) == (True, (0,))
    assert continued(third, FIRST, second) == (True, (1,)), "the longest is continued"


def test_the_system_prompt_and_thinking_do_not_count() -> None:
    current = turn(
        {"role": "system", "content": "It is Tuesday."},
        user("Hello"),
        said("Hi.", reasoning_content="A greeting."),
        user("Well?"),
    )
    assert continued(current, FIRST) == (True, (0,))


def test_of_two_samples_the_one_whose_answer_comes_back() -> None:
    other = turn(SYSTEM, user("Hello"), reply=said("Go away."))
    assert continued(turn(SYSTEM, user("Hello"), said("Go away."), user("Why?")), FIRST, other) == (True, (1,))


def test_an_answer_that_comes_back_after_a_summary_is_continued() -> None:
    long = turn(SYSTEM, user("a"), said("A"), user("b"), said("B"), user("c"), reply=said("C is the third."))
    assert continued(turn(SYSTEM, user("Summary."), said("C is the third."), user("d")), FIRST, long) == (True, (1,))


def test_ids_decide_where_an_earlier_question_comes_back_with_its_answer_though_no_reply_is_logged() -> None:
    """History that was cut short has no more answers than what it was cut from."""
    long = turn(SYSTEM, user("a"), said("A"), user("b"), said("B"), user("c"))
    window = turn(SYSTEM, user("b"), said("B"), user("c"), said("C"), user("d"))
    assert continued(window, turn(SYSTEM, user("a")), long) == (False, (0, 1))


def test_a_window_of_the_history_is_a_compaction_where_no_reply_is_logged() -> None:
    spoken: list[Message] = []
    for number in range(5):
        spoken += [user(f"question {number}"), said(f"answer {number}")]
    # Eight ids for each message.
    ids = list(range(100, 180))
    turns = [
        (ids[: 8 * asked], ids[8 * asked : 8 * (asked + 1)], None, {"messages": [SYSTEM, *spoken[:asked]]})
        for asked in (1, 3, 5, 7, 9)
    ]
    window = ([*ids[:1], *ids[16:], 9], [3], None, {"messages": [SYSTEM, *spoken[2:], user("And?")]})
    assert checked([*turns, window]) == [(6, 5, 1, "compaction")]


def test_another_question_after_the_same_examples_continues_nobody() -> None:
    """Ids are not even asked: who continues has one answer more."""
    examples = (user("1+1"), said("2"))
    asked = turn(SYSTEM, *examples, user("2+2"), reply=said("4"))
    assert continued(turn(SYSTEM, *examples, user("3+3")), asked) == (False, ())


def test_ids_decide_where_history_was_rewritten_and_where_messages_are_not_logged() -> None:
    current = turn(SYSTEM, user("Hello!!"), said("Hi there."), user("Well?"))
    assert continued(current, FIRST, None) == (False, (0, 1))
    assert tuple(continued_by_messages(None, [FIRST])) == (False, (0,))
    assert continued(current, None) == (False, (0,))


@pytest.mark.parametrize(
    "request_text",
    [
        "null",
        "3",
        "{}",
        "{",
        '{"messages": []}',
        '{"messages": 3}',
        '{"messages": ["a"], "tools": 3}',
        '{"messages": [{"role": "user", "content": ["text"]}]}',
        '{"messages": [{"role": "user"}], "tools": [3]}',
        "[" * 20_000,
    ],
)
def test_what_is_no_conversation_never_raises(request_text: str) -> None:
    turn_messages(request_text, request_text)


def kind(previous: TurnMessages, current: TurnMessages, *, in_prompt: bool = False) -> str:
    return kind_by_messages(previous, current, in_prompt=in_prompt)


def test_kinds_that_messages_tell() -> None:
    after = (user("Hello"), said("Hi."), user("Well?"))
    assert kind(FIRST, turn({"role": "system", "content": "It is Tuesday."}, *after), in_prompt=True) == (
        "system_prompt_changed"
    )
    tool = {"type": "function", "function": {"name": "f"}}
    assert kind(FIRST, turn(SYSTEM, *after, tools=[tool]), in_prompt=True) == "system_prompt_changed"
    thinking = turn(SYSTEM, user("Hello"), reply=said("Hi.", reasoning_content="A greeting."))
    assert kind(thinking, turn(SYSTEM, *after)) == "reasoning_stripped"
    kept = turn(SYSTEM, user("Hello"), said("Hi.", reasoning_content="A greeting."), user("Well?"))
    assert kind(thinking, kept) == "other", "the client sent it back; what the template did, messages do not say"
    asked = turn(SYSTEM, user("Rain?"), reply=calls('{"days": 2, "city": "Oslo"}'))
    assert kind(asked, turn(SYSTEM, user("Rain?"), calls({"city": "Oslo", "days": 2}), user("?"))) == (
        "tool_call_reserialized"
    )
    assert kind(asked, turn(SYSTEM, user("Rain?"), calls('{"days": 2, "city": "Oslo"}'), user("?"))) == "other"
    long = turn(SYSTEM, *after, said("Yes."), user("So?"), reply=said("No."))
    assert kind(long, turn(SYSTEM, user("Summary."), said("No."), user("Then?")), in_prompt=True) == "compaction"
    assert kind(FIRST, turn(SYSTEM, *after)) == "other"
    assert kind_by_messages(None, FIRST, in_prompt=True) == "other"


def checked(turns: Sequence[tuple[list[int], list[int], TurnMessages | None, dict[str, Any]]]) -> list[tuple[Any, ...]]:
    frame = pl.DataFrame(
        {
            "session_id": ["s"] * len(turns),
            "turn": range(1, len(turns) + 1),
            "prompt_ids": [prompt for prompt, *_ in turns],
            "completion_ids": [completion for _, completion, *_ in turns],
            "request": [json.dumps(request) for *_, request in turns],
        }
    )
    finding = run({"turns": frame}, checks=select_checks(["prefix-break"])).finding("prefix-break")
    return [(each.turn, each.previous_turn, each.token_index, each.kind) for each in finding.evidence]


def test_messages_win_over_ids_both_ways() -> None:
    """Ids nearly all in common and yet a fresh conversation; ids hardly in common and yet continued."""
    system = list(range(100, 140))
    first = ([*system, 5, 2, 3], [50, 51, 2], None, {"messages": [SYSTEM, user("Hello")]})
    fresh = ([*system, 6, 2, 3], [60, 61, 2], None, {"messages": [SYSTEM, user("Something else")]})
    assert checked([first, fresh]) == []
    rewritten = ([7, 8, 9, 10, 11, 12, 13], [60, 2], None, {"messages": [user("Hello"), said("Hi."), user("Well?")]})
    assert checked([first, rewritten]) == [(2, 1, 0, "system_prompt_changed")]
