"""What the tests of hostile files share: what a file comes to, and junk for each of its places."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.columns import SCHEMAS
from checks.readers.file_head import FileHead
from checks.readers.file_log import FileLog
from checks.readers.format import Format
from checks.readers.formats import FORMATS
from tests.checks.readers.seed_file import Seed
from tests.checks.readers.seeds import SEEDS

BY_NAME = {form.name: form for form in FORMATS}
KINDS = [(name, index) for name in BY_NAME for index in range(len(SEEDS.get(name, ())))]
JUNK: list[Any] = [
    None,
    True,
    -1,
    2**31,
    2**63,
    10**400,
    -(10**300),
    1e308,
    float("nan"),
    float("inf"),
    "x",
    "",
    "\x00",
    "9" * 5000,
    "\ud800",
    [],
    [None],
    [[]],
    [-1],
    [2**31],
    [1.5],
    ["1"],
    {},
    {"a": 1},
    [{"a": None}],
]
"""What no field of a log should hold, some of it in every field."""
LINES = ("native", "claude-code", "codex", "agent-lightning")
"""Formats of lines whose first seed is tried in other encodings and depths."""


def every_kind() -> Any:
    """A mark that runs a test for each kind of file of each format."""
    return pytest.mark.parametrize(("name", "index"), KINDS, ids=lambda each: str(each))


def seed_of(name: str, index: int) -> Seed:
    """One format's seed of one kind of file."""
    return SEEDS[name][index]


def outcome(form: Format, path: Path) -> tuple[int, int]:
    """How many rows a file gives and how many pieces were counted; what is raised is what may be raised."""
    log = FileLog(path, [(form, unit) for unit in form.units([FileHead.of(path)])], "told to")
    rows = sum(batch.turns.height for batch in log.batches(list(SCHEMAS["turns"]), ["trainer_logprobs"]))
    rows += sum(log.table(name).height for name in SCHEMAS if name != "turns")
    for each in log.source().unreadable_first:
        assert each.reason, each
        assert "\n" not in each.reason, each
    return rows, log.source().unreadable


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value within a JSON value; of a list, to its first and last."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list) and value:
        for at in {0, len(value) - 1}:
            yield from places(value[at], (*path, at))


def with_junk(text: str, way: tuple[Any, ...], junk: Any) -> str:
    """A JSON text with junk at one place."""
    value = json.loads(text)
    inner = value
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = junk
    return json.dumps(value)


def json_texts(path: Path) -> list[str] | None:
    """The JSON values of a text file: its lines, or the whole; None of any other file."""
    try:
        text = path.read_text()
        return [json.dumps(json.loads(text))]
    except UnicodeDecodeError:
        return None
    except json.JSONDecodeError:
        try:
            return [json.dumps(json.loads(line)) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            return None


def memory() -> int:
    """Most bytes this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
