"""What `--json` prints may be shown on any terminal and is still the same JSON."""

import json

import pytest

from console.commands import watch

HOSTILE = {"text": "a\x1b]0;x\x07\x9b2J\u202eb\u200dé全👩\ue000\\u202e\r\n"}


@pytest.mark.parametrize("ascii_only", [False, True])
def test_json_is_the_same_and_plain_to_a_terminal(ascii_only: bool) -> None:
    text = json.dumps(HOSTILE, ensure_ascii=False)
    safe = watch._json_safe(text, ascii_only=ascii_only)
    assert json.loads(safe) == HOSTILE
    assert safe.isprintable()
    assert safe.isascii() == ascii_only
