"""What tells replies apart that read the same."""

from typing import Any

from collector.echo import Agreement, Echo, Trail

ASK = {"role": "user", "content": "Hi"}


def said(text: str, *ids: str, **more: object) -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}} for one in ids]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {}), **more}


def agreement(reply: dict[str, Any], returned: dict[str, Any]) -> Agreement:
    return Echo([ASK, returned, ASK]).agreement(Trail([ASK], reply, None))


def test_a_reply_sent_back_as_it_was_agrees_in_everything() -> None:
    reply = said("Yes.", "call_1", reasoning_content="Easy.")
    assert agreement(reply, reply) == Agreement(call_ids=1, clashes=0, alike=2)


def test_ids_the_client_made_up_agree_with_nothing_and_clash_with_nothing() -> None:
    assert agreement(said("", "call_1"), said("", "mine")) == Agreement(call_ids=0, clashes=0, alike=1)


def test_thinking_left_out_does_not_clash_and_other_thinking_does() -> None:
    assert agreement(said("Yes.", reasoning_content="A"), said("Yes.")) == Agreement(alike=1)
    assert agreement(said("Yes.", reasoning_content="A"), said("Yes.", reasoning_content=" A\n")) == Agreement(alike=2)
    assert agreement(said("Yes.", reasoning_content="A"), said("Yes.", reasoning_content="B")) == Agreement(0, 1, 1)
    assert agreement(said("Yes."), said("Yes.", reasoning_content="B")) == Agreement(0, 1, 1)


def test_wording_tells_white_space_and_the_spelling_of_arguments_apart() -> None:
    assert agreement(said("Yes. "), said("Yes.")) == Agreement()
    other = said("", "x")
    other["tool_calls"][0]["function"]["arguments"] = '{"a":1}'
    assert agreement(said("", "x"), other) == Agreement(call_ids=1)


def test_the_whole_line_counts_and_what_the_client_wrote_itself() -> None:
    first = Trail([ASK], said("Yes.", "call_1"), None)
    messages = [ASK, said("Yes.", "call_1"), ASK, said("Mine.", reasoning_content="M"), ASK]
    second = Trail(messages, said("No."), first)
    assert [mark.place for mark in second.added] == [3, 5]
    echo = Echo([*messages, said("No."), ASK])
    assert echo.agreement(second) == Agreement(call_ids=1, clashes=0, alike=4)
    assert echo.agreement(first) == Agreement(call_ids=1, clashes=0, alike=1)
    changed = [*messages[:3], said("Mine.", reasoning_content="N"), ASK, said("No."), ASK]
    assert Echo(changed).agreement(second).clashes == 1


def test_a_line_of_many_turns_is_compared_without_recursion() -> None:
    messages, trail = [ASK], None
    for _ in range(3_000):
        trail = Trail(messages, said("Yes."), trail)
        messages += [said("Yes."), ASK]
    assert trail is not None
    assert Echo(messages).agreement(trail) == Agreement(alike=3_000)
