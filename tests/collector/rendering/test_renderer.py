"""Conversations to text: what comes before the template."""

from collector.rendering.renderer import Renderer

END = "<|im_end|>"


def test_arguments_nested_too_deep_to_be_read_are_written_as_they_came(qwen3: Renderer) -> None:
    deep = f'{{"a": {"[" * 20_000}{"]" * 20_000}}}'
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": deep}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]
    text = qwen3.text(messages, tools=None)
    assert f'<tool_call>\n{{"name": "f", "arguments": {deep}}}\n</tool_call>{END}\n' in text
