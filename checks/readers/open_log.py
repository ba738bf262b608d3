"""Opens a path as a log: a file, or a folder of files of one run."""

from pathlib import Path

from checks.log import Log
from checks.readers.file_head import FileHead
from checks.readers.file_log import FileLog
from checks.readers.format import Format, Unit
from checks.readers.formats import FORMATS
from collector.errors import UserError


def open_log(path: Path, *, reads: str | None = None) -> Log:
    """The log at a path. `reads` names the format instead of letting the content tell it."""
    if not path.exists():
        raise UserError(f"{path} does not exist; give a log file, a folder of one run's logs, or a store")
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    heads = [FileHead.of(file) for file in files]
    found: dict[str, list[FileHead]] = {}
    reasons: dict[str, str] = {}
    for head in heads:
        for form in FORMATS if reads is None else [_named(reads)]:
            reason = form.recognise(head) if reads is None else f"--reads {reads}"
            if reason is not None:
                found.setdefault(form.name, []).append(head)
                reasons.setdefault(form.name, reason)
                break
    if not found:
        raise UserError(f"{path}: no file of a known format; roundhouse check --formats lists what can be read")
    units: list[tuple[Format, Unit]] = [
        (_named(name), unit) for name, of_format in found.items() for unit in _named(name).units(of_format)
    ]
    return FileLog(path, units, "; ".join(f"{name}: {reason}" for name, reason in reasons.items()))


def _named(name: str) -> Format:
    form = next((form for form in FORMATS if form.name == name), None)
    if form is None:
        raise UserError(f"no format {name!r}, expected one of {', '.join(form.name for form in FORMATS)}")
    return form
