"""What a query gave, as a JSON array or as a table for a terminal."""

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

import msgspec
from rich.cells import cell_len, set_cell_size

from collector.store.meanings import DESCRIBED, column_meanings, table_meaning
from collector.store.sql import QueryResult
from collector.terminal_text import terminal_safe

SHOWN_ROWS = 200
"""Rows of a table shown before the rest is left to --json or LIMIT."""
_SHOWN_LETTERS = 400
_NARROWEST_COLUMN = 8
_GAP = "  "
_WORD = re.compile(r"[\w.:@+-]{0,64}", re.ASCII)
"""An id, a digest, a number, a time."""
_INTEGERS = ("tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint")
_NUMBERS = frozenset((*_INTEGERS, "uhugeint", "bignum", "float", "double", "decimal"))
_ENCODER = msgspec.json.Encoder(decimal_format="number")

# Any throughout: a query computes whatever it likes; DuckDB's Python values are turned into what JSON can hold.
Convert = Callable[[Any], Any]


def write_json(result: QueryResult, out: BinaryIO) -> None:
    """Writes one array of objects, a row per line."""
    converters = [json_converter(kind) for kind in result.types]
    separator = b"[\n"
    for row in result.rows:
        values = [value if convert is None else convert(value) for convert, value in zip(converters, row, strict=True)]
        out.write(separator + _ENCODER.encode(dict(zip(result.names, values, strict=True))))
        separator = b",\n"
    out.write(b"[]\n" if separator == b"[\n" else b"\n]\n")
    out.flush()


def print_table(result: QueryResult) -> None:
    """Prints the first rows as a table: as wide as the terminal, or one value a line where columns do not fit.

    What is no terminal gets every cell whole.
    """
    whole = not sys.stdout.isatty()
    converters = [json_converter(kind) for kind in result.types]
    rows = [
        [
            _cell(value, convert, None if whole else _SHOWN_LETTERS)
            for value, convert in zip(row, converters, strict=True)
        ]
        for row in islice(result.rows, SHOWN_ROWS + 1)
    ]
    names = [terminal_safe(name) for name in result.names]
    numbers = [kind.id in _NUMBERS for kind in result.types]
    width = None if whole else shutil.get_terminal_size().columns
    for line in grid_lines(names, rows[:SHOWN_ROWS], numbers, width):
        print(line)
    if len(rows) > SHOWN_ROWS:
        print(f"the first {SHOWN_ROWS} rows; --json prints all, LIMIT and OFFSET choose others")
    else:
        print(f"{len(rows)} row{'' if len(rows) == 1 else 's'}")


def grid_lines(names: list[str], rows: list[list[str]], numbers: list[bool], width: int | None) -> Iterator[str]:
    """The lines of a table no wider than `width`: a row each, or a value each where columns would be too narrow."""
    natural = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
    sizes = natural if width is None else _sizes(natural, _words(rows, len(names)), width)
    if sizes is None:
        assert width is not None
        yield from _record_lines(names, rows, width)
        return
    yield _GAP.join(_fit(name, size, right) for name, size, right in zip(names, sizes, numbers, strict=True)).rstrip()
    yield _GAP.join("─" * size for size in sizes)
    for row in rows:
        yield _GAP.join(_fit(cell, size, right) for cell, size, right in zip(row, sizes, numbers, strict=True)).rstrip()


def _words(rows: list[list[str]], columns: int) -> list[int]:
    """How wide each column must be at least: ids, numbers and times mean nothing when they are cut, text still does."""
    if not rows:
        return [0] * columns
    return [
        max(map(len, column)) if all(map(_WORD.fullmatch, column)) else _NARROWEST_COLUMN
        for column in zip(*rows, strict=True)
    ]


def _sizes(natural: list[int], least: list[int], width: int) -> list[int] | None:
    """Widths that fit, the widest columns cut first and none below its least; None when there are none."""
    room = width - len(_GAP) * (len(natural) - 1)

    def capped(cap: int) -> list[int]:
        return [min(size, max(cap, low)) for size, low in zip(natural, least, strict=True)]

    widest = next((cap for cap in range(max(room, 0), -1, -1) if sum(capped(cap)) <= room), None)
    return None if widest is None else capped(widest)


def _record_lines(names: list[str], rows: list[list[str]], width: int) -> Iterator[str]:
    words = max((len(cell) for row in rows for cell in row if _WORD.fullmatch(cell)), default=0)
    left = max(_NARROWEST_COLUMN, min(width // 2, width - len(_GAP) - words))
    name_size = min(max(map(cell_len, names)), left)
    for number, row in enumerate(rows, 1):
        yield f"─ row {number} ".ljust(width, "─")
        for name, cell in zip(names, row, strict=True):
            yield (_fit(name, name_size, False) + _GAP + _fit(cell, width - name_size - len(_GAP), False)).rstrip()


def _fit(text: str, size: int, right: bool) -> str:
    length = cell_len(text)
    if length > size:
        return set_cell_size(text, size - 1) + "…"
    return " " * (size - length) + text if right else text + " " * (size - length)


def _cell(value: Any, convert: Convert | None, letters: int | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return repr(value)
    plain = value if convert is None else convert(value)
    text = plain if isinstance(plain, str) else _ENCODER.encode(plain).decode().strip('"')
    return terminal_safe(text[:letters])


def json_converter(kind: Any) -> Convert | None:
    """What turns DuckDB's values of a type into what the JSON encoder writes; None where it can already."""
    if str(kind) == "JSON":
        return _whole(lambda text: msgspec.Raw(text.encode()))
    if kind.id == "blob":
        return _whole(bytes.hex)
    if kind.id == "bignum":
        return _whole(int)
    if kind.id in ("list", "array"):
        inner = json_converter(kind.children[0][1])
        return inner and _whole(lambda values: [inner(value) for value in values])
    if kind.id == "struct":
        fields = {name: json_converter(child) for name, child in kind.children}
        return _whole(
            lambda row: {name: convert(row[name]) if convert else row[name] for name, convert in fields.items()}
        )
    if kind.id == "map":
        key, inner = (json_converter(child) for _, child in kind.children)
        return _whole(partial(_map, key, inner))
    return None


def _whole(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _map(convert_key: Convert | None, convert: Convert | None, value: dict[Any, Any]) -> dict[str, Any]:
    # A map whose keys Python cannot hash comes as its lists of keys and values.
    listed = isinstance(value.get("key"), list) and isinstance(value.get("value"), list) and len(value) == 2
    pairs = zip(value["key"], value["value"], strict=True) if listed else value.items()
    return {
        _key(convert_key(key) if convert_key else key): convert(inner) if convert else inner for key, inner in pairs
    }


def _key(key: Any) -> str:
    return key if isinstance(key, str) else _ENCODER.encode(key).decode().strip('"')


def describe(tables: Sequence[str] | None, *, as_json: bool) -> None:
    """Prints columns with type and meaning."""
    chosen = DESCRIBED if tables is None else tables
    if as_json:
        described = [
            {"table": table, "column": column.column, "type": column.annotation, "meaning": column.text}
            for table in chosen
            for column in column_meanings(table)
        ]
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(described)) + b"\n")
        return
    width = shutil.get_terminal_size().columns
    for table in chosen:
        print(f"{table}: {table_meaning(table)}")
        columns = column_meanings(table)
        name_size = max(len(column.column) for column in columns)
        for column in columns:
            text = f"{column.annotation}. {column.text}"
            indent = " " * (name_size + 4)
            print(
                textwrap.fill(text, width, initial_indent=f"  {column.column:<{name_size}}  ", subsequent_indent=indent)
            )
        print()
