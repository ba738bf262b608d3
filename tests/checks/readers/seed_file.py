"""How a seed, a small valid file of a format, is written."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Seed = Callable[[Path], Path]
"""Writes a file into a folder and returns its path."""


def lines(path: Path, values: Iterable[Mapping[str, Any]]) -> Path:
    """A file with a JSON object on each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in values))
    return path


def document(path: Path, value: Any) -> Path:
    """A file that is one JSON document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1))
    return path
