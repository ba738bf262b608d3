"""What every column means: read from the docstrings below the fields of `collector.records`, its one place.

Those of the views, which are no records, stand with their queries.
"""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from collector import records
from collector.errors import UserError
from collector.records import REGISTRY_TABLES, TABLES, Record
from collector.store.sql_views import VIEWS

DESCRIBED = (*TABLES, *REGISTRY_TABLES, *VIEWS)
"""Every table and view that a query may name."""

KEY_MEANINGS = {
    "writer": "Name of the journal the record was written to.",
    "seq": "Position in that journal: dense, from 1.",
    "crc32": "Checksum of the record's stored form.",
}
"""Meaning of the columns that the store adds to every record of a journal."""


class Meaning(NamedTuple):
    """A column and what it holds."""

    column: str
    """Its name in tables and in the native log."""
    annotation: str
    """The type of the record's field, as in the source."""
    text: str
    """Meaning and unit, on one line."""


def table_meaning(table: str) -> str:
    """What one row of a table or view is."""
    if table in VIEWS:
        return VIEWS[table].text
    return _one_line(_record(table).__doc__ or "")


def column_meanings(table: str) -> list[Meaning]:
    """The columns of a table or view, in their order."""
    if table in VIEWS:
        return [Meaning(name, *described) for name, described in VIEWS[table].columns.items()]
    record = _record(table)
    documented = _documented_fields()[record.__name__]
    columns: list[Meaning] = []
    for field in msgspec.structs.fields(record):
        annotation, text = documented[field.name]
        columns.append(Meaning(field.encode_name, annotation, text))
    if table in TABLES:
        columns += [Meaning(name, "int" if name != "writer" else "str", text) for name, text in KEY_MEANINGS.items()]
    return columns


def _record(table: str) -> type[Record]:
    tables = TABLES | REGISTRY_TABLES
    if table not in tables:
        raise UserError(f"no table {table!r}; there are {', '.join(DESCRIBED)}")
    return tables[table]


@cache
def _documented_fields() -> dict[str, dict[str, tuple[str, str]]]:
    source = Path(records.__file__).read_text(encoding="utf-8")
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return {node.name: _fields(node) for node in classes}


def _fields(struct: ast.ClassDef) -> dict[str, tuple[str, str]]:
    fields: dict[str, tuple[str, str]] = {}
    for node, below in zip(struct.body, [*struct.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            fields[node.target.id] = (ast.unparse(node.annotation), _one_line(_text(below)))
    return fields


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
