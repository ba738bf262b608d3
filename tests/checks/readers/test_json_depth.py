"""How deep JSON is nested, whatever its strings hold."""

import json

import pytest

from checks.readers.json_depth import DEPTH_LIMIT, is_deeper


@pytest.mark.parametrize("depth", [DEPTH_LIMIT, DEPTH_LIMIT + 1])
def test_the_limit_is_exact(depth: int) -> None:
    assert is_deeper(b"[" * depth + b"]" * depth) == (depth > DEPTH_LIMIT)
    assert is_deeper(b'{"a":' * depth + b"1" + b"}" * depth) == (depth > DEPTH_LIMIT)


def test_brackets_in_strings_neither_make_nor_hide_depth() -> None:
    assert not is_deeper(json.dumps(["[" * 1000, '\\"' + "{" * 1000, "\\"]).encode())
    hidden = b'["]", ' * (DEPTH_LIMIT + 1) + b"1" + b"]" * (DEPTH_LIMIT + 1)
    json.loads(hidden)
    assert is_deeper(hidden)


def test_many_values_beside_each_other_are_not_deep() -> None:
    assert not is_deeper(json.dumps([[{}]] * 5000).encode())
