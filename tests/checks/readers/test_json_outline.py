"""The keys of a JSON value from its first bytes."""

from pathlib import Path

from checks.readers.file_head import FileHead
from checks.readers.json_outline import is_cut, outline, tells


def _head(start: bytes) -> FileHead:
    return FileHead(Path("x"), len(start), start)


def test_keys_are_told_apart_by_where_they_stand() -> None:
    found = outline(_head(b'{"a": {"b": 1, "c": [{"d": "}"}]}, "e": "x\\": {", "f":[[1]]}'))
    assert found - {""} == {"a", "a.b", "a.c", "a.c.[]", "a.c.[].d", "e", "f", "f.[]", "f.[].[]"}


def test_a_list_of_objects_begins_with_its_element() -> None:
    assert outline(_head(b' [{"a": 1}, {"b": 2}]')) - {""} == {"[]", "[].a", "[].b"}


def test_only_the_first_value_counts() -> None:
    assert "b" not in outline(_head(b'{"a": 1}\n{"b": 2}\n'))


def test_a_value_cut_anywhere_gives_what_came_before() -> None:
    whole = b'{"a": {"b": "text"}, "c": [1, 2], "d": 3}'
    for end in range(1, len(whole)):
        head = _head(whole[:end])
        assert outline(head) <= outline(_head(whole)), whole[:end]
        assert "" not in outline(head)
    assert is_cut(_head(whole[:-1]))
    assert not is_cut(_head(whole))


def test_early_keys_are_enough_only_for_what_is_cut() -> None:
    assert tells(_head(b'{"a": 1, "b": ['), ("a", "b", "c"), early=("a",))
    assert not tells(_head(b'{"a": 1, "b": []}'), ("a", "b", "c"), early=("a",))


def test_what_is_no_json_has_no_keys() -> None:
    for start in (b"", b"PAR1", b"\x00\xff", b'"a": 1', b"}{", b"]"):
        assert outline(_head(start)) == frozenset()
        assert not is_cut(_head(start))


def test_a_long_string_that_the_head_cuts_is_passed_over_at_once() -> None:
    for text in (b'{"a' + b'\\"' * 130_000, b'{"a": "' + b'\\"' * 130_000 + b"\\", b'{"a' + b'"' * 130_001):
        assert outline(_head(text)) <= {"a", ""}
