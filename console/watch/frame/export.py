"""Writing what a screen shows into a file: json, csv or svg."""

import csv
import io
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import cast

import msgspec

from collector.errors import UserError
from console.watch.topic import View

FORMATS = ("json", "csv", "svg")


def file_name(topic: str, at: datetime | None, form: str) -> str:
    """What an exported view is called, unless a name is given."""
    when = f"-{at:%Y%m%dT%H%M%SZ}" if at is not None else ""
    return f"roundhouse-{topic.replace('_', '-')}{when}.{form}"


def as_json(view: View) -> str:
    """The view, to be read again by its own type."""
    return msgspec.json.format(msgspec.json.encode(view), indent=2).decode() + "\n"


def as_csv(rows: Sequence[object]) -> str:
    """Rows of one kind, a column for each field; nested values are JSON. What is not observed is empty."""
    made = [cast("dict[str, object]", msgspec.to_builtins(row)) for row in rows]
    if not made:
        raise UserError("this view has no rows for csv; json has all of it")
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=[*made[0]], lineterminator="\n")
    writer.writeheader()
    for row in made:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return out.getvalue()


def without_remote_fonts(svg: str) -> str:
    """The picture with the fonts of whoever looks at it: Textual's names one that a browser fetches from a CDN."""
    style, end, drawn = svg.partition("</style>")
    return re.sub(r"\s*@font-face \{.*?\}", "", style, flags=re.DOTALL) + end + drawn


def write_new(text: str, path: Path) -> Path:
    """Writes a file that is not there yet."""
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} is there already; give another name") from None
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}; give another name") from error
    return path.absolute()


def _cell(value: object) -> object:
    if value is None:
        return ""
    return msgspec.json.encode(value).decode() if isinstance(value, list | tuple | dict) else value
