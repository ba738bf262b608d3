"""Files that are one JSON document, a list or lines."""

import gzip
import json
from pathlib import Path

import pytest

from checks.readers.json_document import document, documents
from checks.readers.unreadable import UnreadableParts


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"a": 1}', ["x.json:1"]),
        ('{"a": 1}\n{"a": 2}\n', ["x.json:1", "x.json:2"]),
        ('{\n "a": 1\n}', ["x.json"]),
        ('[{"a": 1}, {"a": 2}]', ["x.json[0]", "x.json[1]"]),
        ('\ufeff\n{"a": 1}', ["x.json:2"]),
    ],
)
def test_objects_are_found_on_lines_in_a_list_or_alone(tmp_path: Path, text: str, places: list[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    unreadable = UnreadableParts()
    assert [place for place, _ in documents(path, unreadable)] == places
    assert unreadable.count == 0


def test_a_document_beyond_the_limit_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"a": "x" * 100}))
    unreadable = UnreadableParts()
    assert document(path, unreadable, limit=50) is None
    assert [(each.place, each.reason) for each in unreadable.first] == [
        ("x.json", "one JSON document of more than 50 bytes, expected at most that many")
    ]


@pytest.mark.parametrize(
    "content", [b'{"a": ', b"\xff\xfe{}", b"[" * 100_000, gzip.compress(b'{"a": 1}', mtime=0)[:-12]]
)
def test_what_is_broken_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / ("x.json.gz" if content[:2] == b"\x1f\x8b" else "x.json")
    path.write_bytes(content)
    unreadable = UnreadableParts()
    assert document(path, unreadable) is None
    assert unreadable.count == 1


def test_elements_that_are_no_objects_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('[1, {"a": 2}]')
    unreadable = UnreadableParts()
    assert [each for _, each in documents(path, unreadable)] == [{"a": 2}]
    assert [each.place for each in unreadable.first] == ["x.json[0]"]
