"""Tools in words: what the template cannot express is in the prompt all the same, and reads back as what it was."""

import json

from collector.parsing.reply import ReplyParser
from collector.rendering.template import Abilities
from collector.rendering.tool_text import call_text, spell_out

NOTHING = Abilities(tools=False, tool_calls=False, tool_results=False, content_parts=False)
EVERYTHING = Abilities(tools=True, tool_calls=True, tool_results=True, content_parts=False)
TOOL = {"type": "function", "function": {"name": "f", "description": "Does <f>", "parameters": {"type": "object"}}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 'x"y'}}}
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Look.", "tool_calls": [CALL, CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "done"},
]


def test_a_template_that_can_gets_the_messages_as_they_are() -> None:
    assert spell_out(MESSAGES, [TOOL], EVERYTHING) == MESSAGES


def test_definitions_join_the_system_message_or_make_one() -> None:
    joined = spell_out(MESSAGES, [TOOL], NOTHING)[0]
    assert joined["content"].startswith("Be brief.\n\n")
    assert json.dumps(TOOL["function"]) in joined["content"].splitlines()
    made = spell_out(MESSAGES[1:2], [TOOL], NOTHING)
    assert [message["role"] for message in made] == ["system", "user"]
    assert spell_out(MESSAGES[1:2], None, NOTHING) == MESSAGES[1:2]


def test_calls_and_results_become_text() -> None:
    _, _, said, told = spell_out(MESSAGES, [TOOL], NOTHING)
    text = call_text("f", {"a": 'x"y'})
    assert said == {"role": "assistant", "content": f"Look.\n{text}\n{text}"}
    assert told == {"role": "user", "content": "<tool_response>\ndone\n</tool_response>"}


def test_a_call_in_words_reads_back_as_the_same_call() -> None:
    parser = ReplyParser(seed="s", thinking_open=False, parse_tools=True)
    parser.add(call_text("f", {"a": 'x"y\n', "b": [1, None]}))
    parser.finish()
    (call,) = parser.reply().tool_calls
    assert (call.name, json.loads(call.arguments)) == ("f", {"a": 'x"y\n', "b": [1, None]})
