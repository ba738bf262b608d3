"""Opens a path as a log: a store, a file, or a folder of files of one run."""

from collections.abc import Sequence
from pathlib import Path

import zstandard

from checks.log import Log, Unreadable
from checks.readers.file_head import HEAD_BYTES, FileHead
from checks.readers.file_log import FileLog
from checks.readers.format import Format, Unit
from checks.readers.formats import FORMATS, recognised
from checks.readers.joined_log import JoinedLog
from checks.readers.native_duckdb import DuckdbTables, is_duckdb
from checks.readers.native_log import NativeLog
from checks.readers.native_parquet import REQUIRED, ParquetTables, columns_of, native_table
from checks.readers.native_store import StoreTables
from checks.readers.walk import walk
from collector.errors import UserError

_HEADS_BYTES = 256 * 2**20
"""Of the starts of all files of a folder together."""
NATIVE = "native"
"""The format's name, whichever of its forms a log has: a store, Parquet, DuckDB or JSON lines."""


def open_log(path: Path, *, reads: str | None = None) -> Log:
    """The log at a path. `reads` names the format instead of letting the content tell it."""
    if reads is not None:
        _named(reads)
    found = walk(path)
    skipped: list[Unreadable] = []
    heads = _heads(found.files, skipped)
    logs: list[Log] = []
    if reads in (None, NATIVE):
        logs += [NativeLog(StoreTables(store)) for store in found.stores]
        parquet, heads = _native_parquet(path, heads)
        logs += [NativeLog(parquet)] if parquet is not None else []
        databases, heads = _native_databases(path, heads, skipped)
        logs += [NativeLog(database) for database in databases]
    files = _file_log(path, heads, reads, skipped)
    logs += [files] if files is not None else []
    if not logs:
        raise UserError(_nothing_found(path, skipped, reads))
    return logs[0] if len(logs) == 1 and not skipped else JoinedLog(path, logs, skipped)


def _heads(files: Sequence[Path], skipped: list[Unreadable]) -> list[FileHead]:
    heads: list[FileHead] = []
    most = min(HEAD_BYTES, _HEADS_BYTES // max(1, len(files)))
    for file in files:
        try:
            head = FileHead.of(file, most=most)
        except (OSError, EOFError, zstandard.ZstdError) as error:
            skipped.append(Unreadable(place=str(file), reason=f"cannot be read: {error}"))
            continue
        if head.start:
            heads.append(head)
        else:
            skipped.append(Unreadable(place=str(file), reason="is empty"))
    return heads


def _native_parquet(path: Path, heads: Sequence[FileHead]) -> tuple[ParquetTables | None, list[FileHead]]:
    """Native tables in Parquet, where there is one of turns, and the files that are something else."""
    tables: dict[str, list[Path]] = {}
    for head in heads:
        if head.is_parquet and (table := native_table(head.path, path)) is not None:
            tables.setdefault(table, []).append(head.path)
    if "turns" not in tables:
        return None, list(heads)
    native = {file for files in tables.values() for file in files}
    others = [head for head in heads if head.path not in native and not _unchecked(head)]
    return ParquetTables(path, tables), others


def _unchecked(head: FileHead) -> bool:
    """Whether a file is a table that an export writes beside the others and no check reads."""
    return head.is_parquet and head.path.stem in ("adapters", "routes", "audit")


def _native_databases(
    path: Path, heads: Sequence[FileHead], skipped: list[Unreadable]
) -> tuple[list[DuckdbTables], list[FileHead]]:
    databases: list[DuckdbTables] = []
    others: list[FileHead] = []
    for head in heads:
        if not is_duckdb(head.start):
            others.append(head)
            continue
        try:
            databases.append(DuckdbTables(head.path))
        except UserError as error:
            if head.path == path:
                raise
            skipped.append(Unreadable(place=str(head.path), reason=str(error)))
    return databases, others


def _file_log(path: Path, heads: Sequence[FileHead], reads: str | None, skipped: list[Unreadable]) -> FileLog | None:
    """The files that readers know, as one log."""
    found: dict[str, list[FileHead]] = {}
    reasons: dict[str, tuple[int, str]] = {}
    unknown: list[FileHead] = []
    for head in heads:
        told = recognised(head, FORMATS if reads is None else [_named(reads)])
        if told is None:
            unknown.append(head)
            continue
        name = told.form.name
        found.setdefault(name, []).append(told.head)
        reasons[name] = max((head.size, told.reason), reasons.get(name, (-1, "")))
    if reads is not None and not found and unknown and (reads != NATIVE or unknown[0].path == path):
        _refuse_binary(unknown[0]) if reads == NATIVE else None
        found, reasons, unknown = {reads: unknown}, {reads: (0, f"--reads {reads}")}, []
    skipped += [Unreadable(place=str(head.path), reason=_seems(head)) for head in unknown]
    units: list[tuple[Format, Unit]] = [
        (_named(name), unit) for name, of_format in found.items() for unit in _named(name).units(of_format)
    ]
    # The largest file of a format is the log, and small ones stand beside it.
    reason = "; ".join(f"{name}: {reason}" for name, (_, reason) in reasons.items())
    return FileLog(path, units, reason) if units else None


def _refuse_binary(head: FileHead) -> None:
    if head.is_parquet:
        missing = ", ".join(sorted(REQUIRED - columns_of(head.path)))
        raise UserError(f"{head.path}: has no column {missing}, expected turns of the native log; rename its columns")


def _seems(head: FileHead) -> str:
    if head.is_parquet:
        return "Parquet with columns of no known format"
    if head.is_sqlite or is_duckdb(head.start):
        return "a database with tables of no known format"
    if head.is_zip or head.is_pickle:
        return "a zip or pickle of no known format"
    if head.keys:
        return f"JSON with keys of no known format: {', '.join(sorted(head.keys)[:8])}"
    return "no known format"


def _nothing_found(path: Path, skipped: Sequence[Unreadable], reads: str | None) -> str:
    wanted = "of a known format" if reads is None else f"that {reads} reads"
    what = f"expected a store or a file {wanted}; roundhouse check --formats lists what can be read"
    if len(skipped) == 1 and skipped[0].place == str(path):
        return f"{path}: {skipped[0].reason}, {what}"
    first = "".join(f"; {Path(each.place).name}: {each.reason}" for each in skipped[:3])
    files = "1 file" if len(skipped) == 1 else f"{len(skipped) or 'no'} files"
    return f"{path}: holds {files}, none of a known format{first}; {what}"


def _named(name: str) -> Format:
    form = next((form for form in FORMATS if form.name == name), None)
    if form is None:
        raise UserError(f"no format {name!r}, expected one of {', '.join(form.name for form in FORMATS)}")
    return form
