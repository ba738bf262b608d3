"""Copying out of the console: OSC 52 for the terminal, and a file for when the terminal takes none."""

import base64
import os
from pathlib import Path
from typing import NamedTuple

from collector.terminal_text import terminal_safe

MOST_BYTES = 74_994
"""Longest text that goes by OSC 52: terminals take 100,000 bytes in all, and base64 makes four of three."""


class Copied(NamedTuple):
    """What a copy came to."""

    sequence: str | None
    """What the terminal is sent; None when the text is too long for it."""
    said: str


def clip_file() -> Path:
    """Where the last copy lies."""
    return Path.home() / ".cache" / "roundhouse" / "clip.txt"


def copy_text(text: str, path: Path | None = None, *, keep: bool = True) -> Copied:
    """Writes a text to the file and makes the sequence; control characters are written as their escapes.

    Pasted into a shell, raw ones would act: the exact text is what `e` writes. Not kept, no file is written: what a
    browser shows leaves nothing on the machine that serves it.
    """
    safe = terminal_safe(text, keep="\n\t")
    raw = safe.encode("utf-8", "surrogateescape")
    letters = f"{len(safe):,} characters" if len(safe) != 1 else "1 character"
    path = (path or clip_file()) if keep else None
    try:
        kept = "in no file" if path is None else f"in {_written(raw, path)}".replace(f"in {Path.home()}/", "in ~/")
    except OSError as error:
        kept = f"not in {path}: {error.strerror}"
    if len(raw) > MOST_BYTES:
        return Copied(None, f"{kept}: {letters}, too many for OSC 52 ({MOST_BYTES:,} bytes)")
    payload = base64.b64encode(raw).decode("ascii")
    return Copied(f"\x1b]52;c;{payload}\a", f"copied {letters} by OSC 52, and {kept}")


def _written(raw: bytes, path: Path) -> Path:
    """Replaces the file; only its owner may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(raw)
    fresh.replace(path)
    return path
