"""Levels of lists and objects are counted, whatever they hold."""

import json

import pytest

from collector.nesting import nested_deeper


@pytest.mark.parametrize(
    ("text", "levels"), [("1", 0), ('"[["', 0), ("[]", 1), ("[1, 2]", 1), ('{"a": {}, "b": 1}', 2), ("[[], [[0]]]", 3)]
)
def test_levels(text: str, levels: int) -> None:
    assert not nested_deeper(json.loads(text), levels)
    assert levels == 0 or nested_deeper(json.loads(text), levels - 1)
