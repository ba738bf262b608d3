"""Which turn a request continues: by what was said, and by the ids themselves."""

import json
from typing import Any

import pytest

from collector.conversation import Reply, ToolCall
from collector.records import ChatRequest
from collector.request_dialogue import RequestDialogue
from collector.session import KnownTurn, Session
from tests.shared_folder import MISSING, find_shared

SYSTEM = {"role": "system", "content": "Be brief."}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str, **more: object) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def session_after(*turns: tuple[list[dict[str, Any]], Reply, list[dict[str, Any]] | None]) -> Session:
    session, prompt = Session("s", "dev"), [1, 2, 3]
    for number, (messages, reply, tools) in enumerate(turns):
        chat = RequestDialogue(ChatRequest(messages=messages, tools=tools))
        known = KnownTurn(
            turn_id=f"t{number + 1}",
            parent=session.deepest_prefix(prompt),
            prompt_ids=prompt,
            completion_ids=[7, number],
            dialogue=chat,
            reply=reply,
            ancestor=session.match(chat).ancestor,
        )
        session.add(known, chat)
        prompt = [*prompt, 7, number, 9]
    return session


def matched(
    session: Session, messages: list[dict[str, Any]], tools: list | None = None
) -> tuple[str | None, str | None]:
    match = session.match(RequestDialogue(ChatRequest(messages=messages, tools=tools)))
    return (match.ancestor.turn_id if match.ancestor else None, match.break_kind)


FIRST = [SYSTEM, user("Hi")]


def test_a_request_that_begins_with_a_turn_and_its_reply_continues_it() -> None:
    session = session_after((FIRST, Reply(content="Hello."), None))
    assert matched(session, [*FIRST, said("Hello."), user("More?")]) == ("t1", None)


def test_the_deepest_turn_is_continued() -> None:
    second = [*FIRST, said("Hello."), user("More?")]
    session = session_after((FIRST, Reply(content="Hello."), None), (second, Reply(content="Yes."), None))
    assert matched(session, [*second, said("Yes."), user("And?")]) == ("t2", None)
    assert matched(session, [*FIRST, said("Hello."), user("Something else?")]) == ("t1", None)


@pytest.mark.parametrize(
    "returned",
    [
        said("Hello."),
        said("Hello.", reasoning_content="Easy."),
        said("Hello.", reasoning_content="\nEasy.\n", refusal=None),
        said("<think>\nEasy.\n</think>\n\nHello."),
        said([{"type": "text", "text": "Hello."}]),
        said(" Hello.\n"),
    ],
)
def test_thinking_left_out_or_sent_back_is_no_rewriting(returned: dict[str, Any]) -> None:
    session = session_after((FIRST, Reply(content="Hello.", reasoning="Easy."), None))
    assert matched(session, [*FIRST, returned, user("More?")]) == ("t1", None)


def test_other_thinking_than_was_sampled_is_a_rewriting() -> None:
    session = session_after((FIRST, Reply(content="Hello.", reasoning="Easy."), None))
    assert matched(session, [*FIRST, said("Hello.", reasoning_content="Hard."), user("More?")]) == (None, "other")


def test_of_samples_with_other_thinking_the_one_sent_back_is_continued() -> None:
    session = session_after(
        (FIRST, Reply(content="Hello.", reasoning="Easy."), None),
        (FIRST, Reply(content="Hello.", reasoning="Hard."), None),
    )
    for thinking, turn in (("Easy.", "t1"), ("Hard.", "t2"), ("Easy.", "t1")):
        messages = [*FIRST, said("Hello.", reasoning_content=thinking), user("More?")]
        assert matched(session, messages) == (turn, None)
    assert matched(session, [*FIRST, said("Hello.", reasoning_content="None."), user("More?")]) == (None, "other")


def test_of_samples_with_the_same_calls_the_one_whose_ids_come_back_is_continued() -> None:
    calls = [ToolCall(id=f"call_{n}", name="f", arguments="{}") for n in (1, 2)]
    session = session_after(*((FIRST, Reply(tool_calls=(call,)), [TOOL]) for call in calls))
    for call, turn in ((calls[0], "t1"), (calls[1], "t2")):
        result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
        assert matched(session, [*FIRST, Reply(tool_calls=(call,)).message(), result], [TOOL]) == (turn, None)


def test_ids_that_came_back_outweigh_a_longer_history_that_reads_the_same() -> None:
    """The second run writes itself what the first run was answered."""
    calls = [ToolCall(id=f"call_{n}", name="f", arguments="{}") for n in (1, 2)]
    result = {"role": "tool", "content": "rain"}
    line = [[*FIRST, Reply(tool_calls=(call,)).message(), result] for call in calls]
    session = session_after(
        (FIRST, Reply(tool_calls=(calls[0],)), [TOOL]),
        (FIRST, Reply(tool_calls=(calls[1],)), [TOOL]),
        (line[0], Reply(content="It rains."), [TOOL]),
    )
    assert matched(session, [*line[1], said("It rains."), user("More?")], [TOOL]) == ("t2", None)
    assert matched(session, [*line[0], said("It rains."), user("More?")], [TOOL]) == ("t3", None)


def test_samples_that_nothing_tells_apart_are_continued_newest_first_each_once() -> None:
    session = session_after(*((FIRST, Reply(content="Hello."), None) for _ in range(3)))
    on = [*FIRST, said("Hello."), user("More?")]
    assert [matched(session, on)[0] for _ in range(4)] == ["t3", "t2", "t1", "t3"]


def test_of_samples_with_other_tools_the_one_with_the_same_tools_is_continued() -> None:
    session = session_after((FIRST, Reply(content="Hello."), [TOOL]), (FIRST, Reply(content="Hello."), None))
    assert matched(session, [*FIRST, said("Hello."), user("More?")], [TOOL]) == ("t1", None)


def test_a_parent_by_its_ids_is_no_part_of_the_dialogue() -> None:
    """One message can spell a whole history; what was said in that history is not asked of the request."""
    session = session_after(
        (FIRST, Reply(content="a", reasoning="A"), None),
        ([*FIRST, said("a"), user("b")], Reply(content="c", reasoning="C"), None),
    )
    flat = [user("all of it in one message")]
    known = KnownTurn(
        turn_id="t3",
        parent=session.deepest_prefix([1, 2, 3, 7, 0, 9, 7, 1, 9]),
        prompt_ids=[1, 2, 3, 7, 0, 9, 7, 1, 9],
        completion_ids=[7],
        dialogue=RequestDialogue(ChatRequest(messages=flat)),
        reply=Reply(content="ok", reasoning="K"),
    )
    assert known.parent is not None
    assert known.parent.turn_id == "t2"
    session.add(known, RequestDialogue(ChatRequest(messages=flat)))
    chat = ChatRequest(messages=[*flat, said("ok"), user("next")])
    assert session.match(RequestDialogue(chat)).ancestor is known
    assert [m.get("reasoning_content") for m in session.with_thinking(chat, known).messages] == [None, "K", None]


def test_a_tool_call_with_its_keys_in_another_order_is_the_same_one() -> None:
    """Case 005: a client that keeps arguments in a sorted map."""
    call = ToolCall(id="call_1", name="f", arguments='{"days": 2, "city": "Oslo"}')
    session = session_after((FIRST, Reply(tool_calls=(call,)), [TOOL]))
    sorted_call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"city":"Oslo","days":2}'}}
    returned = said("", tool_calls=[sorted_call])
    messages = [*FIRST, returned, {"role": "tool", "tool_call_id": "x", "content": "rain"}]
    assert matched(session, messages, [TOOL]) == ("t1", None)
    other = {**sorted_call, "function": {"name": "f", "arguments": '{"city":"Bergen","days":2}'}}
    assert matched(session, [*FIRST, said("", tool_calls=[other]), *messages[3:]], [TOOL]) == (
        None,
        "tool_call_reserialized",
    )


def calling(arguments: str, call_id: str = "x", **more: object) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}
    return said("", tool_calls=[call], **more)


def test_only_other_arguments_of_a_tool_call_are_a_break_of_their_kind() -> None:
    call = ToolCall(id="call_1", name="f", arguments='{"n": 12345678901234567890}')
    session = session_after((FIRST, Reply(tool_calls=(call,), reasoning="Hm."), [TOOL]))
    result = {"role": "tool", "tool_call_id": "x", "content": "rain"}
    rounded = calling('{"n": 12345678901234567000}')
    reserialized = (None, "tool_call_reserialized")
    assert matched(session, [*FIRST, calling('{"n": 12345678901234567890}'), result], [TOOL]) == ("t1", None)
    assert matched(session, [*FIRST, rounded, result], [TOOL]) == reserialized
    assert matched(session, [*FIRST, {**rounded, "reasoning_content": "Hm."}, result], [TOOL]) == reserialized
    assert matched(session, [*FIRST, {**rounded, "reasoning_content": "No."}, result], [TOOL]) == (None, "other")
    assert matched(session, [*FIRST, {**rounded, "content": "And"}, result], [TOOL]) == (None, "other")
    # The system block comes first in the prompt, so that is where it breaks.
    assert matched(session, [*FIRST, rounded, result]) == (None, "system_prompt_changed")
    changed = [{**SYSTEM, "content": "Be long."}, FIRST[1]]
    assert matched(session, [*changed, rounded, result], [TOOL]) == (None, "system_prompt_changed")


def test_of_samples_that_said_the_same_the_one_that_came_back_is_continued() -> None:
    session = session_after(
        (FIRST, Reply(content="Hello.", reasoning="One."), None),
        (FIRST, Reply(content="Hello.", reasoning="Two."), None),
        (FIRST, Reply(content="Hello."), [TOOL]),
    )
    more = user("More?")
    assert matched(session, [*FIRST, said("Hello.", reasoning_content="One."), more]) == ("t1", None)
    assert matched(session, [*FIRST, said("Hello.", reasoning_content="Two."), more]) == ("t2", None)
    assert matched(session, [*FIRST, said("Hello."), more]) == ("t2", None)
    assert matched(session, [*FIRST, said("Hello."), more], [TOOL]) == ("t3", None)
    assert matched(session, [*FIRST, said("Hello.", reasoning_content="Three."), more]) == (None, "other")


def test_of_samples_that_called_the_same_tool_the_one_whose_call_id_came_back_is_continued() -> None:
    calls = [ToolCall(id=name, name="f", arguments="{}") for name in ("a", "b")]
    session = session_after(*((FIRST, Reply(tool_calls=(call,)), None) for call in calls))
    result = {"role": "tool", "tool_call_id": "x", "content": "rain"}
    for call_id, turn_id in (("a", "t1"), ("b", "t2"), ("of the client's own", "t2")):
        assert matched(session, [*FIRST, calling("{}", call_id), result]) == (turn_id, None)


def test_a_shallower_turn_is_continued_where_later_thinking_was_rewritten() -> None:
    second = [*FIRST, said("Hello."), user("More?")]
    session = session_after(
        (FIRST, Reply(content="Hello."), None), (second, Reply(content="Yes.", reasoning="A"), None)
    )
    assert matched(session, [*second, said("Yes.", reasoning_content="B"), user("And?")]) == ("t1", None)


def test_rewritten_thinking_of_a_message_that_was_not_sampled_here_is_a_rewriting() -> None:
    shown = [*FIRST, said("Hello.", reasoning_content="Shown."), user("More?")]
    session = session_after((shown, Reply(content="Yes."), None))
    after = [said("Yes."), user("And?")]
    assert matched(session, [*shown, *after]) == ("t1", None)
    assert matched(session, [*FIRST, said("Hello."), user("More?"), *after]) == ("t1", None)
    other = [*FIRST, said("Hello.", reasoning_content="Other."), user("More?")]
    assert matched(session, [*other, *after]) == (None, "other")
    session = session_after((shown, Reply(content="Yes."), None), ([*shown, *after], Reply(content="So."), None))
    assert matched(session, [*shown, *after, said("So."), user("Then?")]) == ("t2", None)
    assert matched(session, [*other, *after, said("So."), user("Then?")]) == (None, "other")


def test_a_message_that_spells_a_whole_dialogue_is_still_one_message() -> None:
    """Its ids continue a turn of more messages, which are not messages of this request."""
    session = Session("s", "dev")
    long = RequestDialogue(ChatRequest(messages=[*FIRST, said("Hello."), user("More?")]))
    parent = KnownTurn(
        turn_id="t1", parent=None, prompt_ids=[1, 2], completion_ids=[3], dialogue=long, reply=Reply(content="a")
    )
    session.add(parent, long)
    short = RequestDialogue(ChatRequest(messages=[user("all of it, written out")]))
    child = KnownTurn(
        turn_id="t2",
        parent=parent,
        prompt_ids=[1, 2, 3, 4],
        completion_ids=[5],
        dialogue=short,
        reply=Reply(content="b"),
    )
    session.add(child, short)
    chat = ChatRequest(messages=[*short.chat.messages, said("b"), user("On.")])
    assert session.match(RequestDialogue(chat))[:2] == (child, None)
    assert session.with_thinking(chat, child).messages == chat.messages


def test_a_rewritten_reply_is_a_break() -> None:
    session = session_after((FIRST, Reply(content="Hello."), None))
    assert matched(session, [*FIRST, said("Goodbye."), user("More?")]) == (None, "other")
    assert matched(session, [*FIRST, user("More?")]) == (None, "other")


def test_another_system_prompt_or_other_tools_are_a_break_of_their_kind() -> None:
    session = session_after((FIRST, Reply(content="Hello."), None))
    changed = [{**SYSTEM, "content": "Be long."}, FIRST[1], said("Hello."), user("More?")]
    assert matched(session, changed) == (None, "system_prompt_changed")
    assert matched(session, [*FIRST, said("Hello."), user("More?")], [TOOL]) == (None, "system_prompt_changed")


def test_another_sample_of_the_same_messages_is_no_break() -> None:
    session = session_after((FIRST, Reply(content="Hello."), None))
    assert matched(session, FIRST) == (None, None)


def test_a_system_prompt_in_common_is_nothing_in_common() -> None:
    session = session_after((FIRST, Reply(content="Hello."), None))
    assert matched(session, [SYSTEM, user("Another matter")]) == (None, None)


def test_a_developer_message_is_a_system_message() -> None:
    session = session_after((FIRST, Reply(content="Hello."), None))
    developer = {"role": "developer", "content": "Be brief."}
    assert matched(session, [developer, FIRST[1], said("Hello."), user("More?")]) == ("t1", None)


def test_thinking_is_put_back_where_the_client_left_it_out() -> None:
    second = [*FIRST, said("Hello."), user("More?")]
    session = session_after(
        (FIRST, Reply(content="Hello.", reasoning="One."), None),
        (second, Reply(content="Yes.", reasoning="Two."), None),
    )
    chat = ChatRequest(messages=[*second, said("Yes."), user("And?")])
    known = session.match(RequestDialogue(chat)).ancestor
    assert known is not None
    restored = session.with_thinking(chat, known).messages
    assert [message.get("reasoning_content") for message in restored] == [None, None, "One.", None, "Two.", None]
    assert "reasoning_content" not in chat.messages[2]


def test_the_parent_is_the_deepest_turn_whose_ids_begin_the_prompt() -> None:
    session = session_after(
        (FIRST, Reply(content="a"), None), ([*FIRST, said("a"), user("b")], Reply(content="c"), None)
    )
    whole = [1, 2, 3, 7, 0, 9, 7, 1]
    assert session.deepest_prefix([*whole, 5]).turn_id == "t2"
    assert session.deepest_prefix(whole).turn_id == "t2"
    assert session.deepest_prefix([*whole[:5], 8, 8, 8, 8]).turn_id == "t1"
    assert session.deepest_prefix([1, 2, 3, 7]) is None
    assert session.deepest_prefix([2, *whole[1:]]) is None


def test_two_branches_from_one_turn_each_keep_their_ids() -> None:
    session = Session("s", "dev")
    root = KnownTurn(turn_id="r", parent=None, prompt_ids=[1], completion_ids=[2], dialogue=None, reply=None)
    left = KnownTurn(turn_id="a", parent=root, prompt_ids=[1, 2, 3], completion_ids=[4], dialogue=None, reply=None)
    right = KnownTurn(turn_id="b", parent=root, prompt_ids=[1, 2, 5, 6], completion_ids=[7], dialogue=None, reply=None)
    for known in (root, left, right):
        session.add(known, None)
    assert [list(known.ids()) for known in (root, left, right)] == [[1, 2], [1, 2, 3, 4], [1, 2, 5, 6, 7]]
    assert session.tokens == 2 + 2 + 5


def test_ids_of_a_long_branch_are_kept_once() -> None:
    session, prompt = Session("s", "dev"), [0]
    for number in range(200):
        parent = session.deepest_prefix(prompt)
        known = KnownTurn(
            turn_id=str(number),
            parent=parent,
            prompt_ids=prompt,
            completion_ids=[number] * 10,
            dialogue=None,
            reply=None,
        )
        session.add(known, None)
        prompt = [*known.ids(), 1, 2, 3]
    assert session.tokens == 1 + 200 * 10 + 199 * 3


@pytest.mark.parametrize("name", ["002-qwen3-tool-loop-clean", "016-compaction-declared", "017-subagent-interleaved"])
def test_parents_in_the_recorded_cases_are_found(name: str) -> None:
    shared = find_shared()
    if shared is None:
        pytest.skip(MISSING)
    turns = json.loads((shared / "cases" / f"{name}.json").read_text())["input"]["turns"]
    session = Session("s", "dev")
    parents: list[int | None] = []
    for turn in turns:
        parent = session.deepest_prefix(turn["prompt_ids"])
        parents.append(int(parent.turn_id) if parent else None)
        known = KnownTurn(
            turn_id=str(turn["turn"]),
            parent=parent,
            prompt_ids=turn["prompt_ids"],
            completion_ids=turn["completion_ids"],
            dialogue=None,
            reply=None,
        )
        session.add(known, None)
    expected = {
        "002-qwen3-tool-loop-clean": [None, *range(1, len(turns))],
        "016-compaction-declared": [None, 1, None, 3],
        "017-subagent-interleaved": [None, None, 1, 2],
    }
    assert parents == expected[name]
