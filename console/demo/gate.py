"""The only way from a model's tool call to the machine: three allowed tools, inside one folder, limited in size."""

import json
import os
from pathlib import Path
from typing import NamedTuple, cast

ALLOWED = ("read_file", "write_file", "list_files")
MOST_FILE_BYTES = 4096
MOST_FILES = 32
LONGEST_NAME = 64


class Refused(Exception):
    """A call that is not let through; the text is what the model is told."""


class Done(NamedTuple):
    """What a call did."""

    result: str
    """What the model is told."""
    tool: str | None
    """The tool that ran; None when the call was refused."""
    path: str | None = None
    """The file it ran on."""


class Gate:
    """Runs allowed calls in one folder. Nothing that a model wrote is ever executed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve(strict=True)

    def call(self, name: str, arguments: str) -> Done:
        """Runs a call or says why not; never raises for what a model wrote."""
        try:
            given = _arguments(name, arguments)
            match name:
                case "write_file":
                    return self._write(_text(given, "path"), _text(given, "content"))
                case "read_file":
                    return self._read(_text(given, "path"))
                case _:
                    return self._list()
        except Refused as refusal:
            return Done(f"error: {refusal}", None)

    def _write(self, path: str, content: str) -> Done:
        if len(content.encode("utf-8", "replace")) > MOST_FILE_BYTES:
            raise Refused(f"content is longer than {MOST_FILE_BYTES} bytes")
        place = self._place(path)
        if not place.exists() and len(os.listdir(self._folder)) >= MOST_FILES:
            raise Refused(f"there are {MOST_FILES} files already")
        # A fresh file each time and no link followed: what a name points to is never written through.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        try:
            with open(os.open(place, flags, 0o600), "w", encoding="utf-8", errors="replace", newline="") as file:
                file.write(content)
        except OSError as error:
            raise Refused(f"cannot write {path!r}") from error
        return Done("ok", "write_file", path)

    def _read(self, path: str) -> Done:
        place = self._place(path)
        try:
            with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                content = file.read(MOST_FILE_BYTES + 1)
        except OSError as error:
            raise Refused(f"no file {path!r}") from error
        if len(content) > MOST_FILE_BYTES:
            raise Refused(f"{path!r} is longer than {MOST_FILE_BYTES} bytes")
        return Done(f'{path} says "{content.decode("utf-8", "replace")}"', "read_file", path)

    def _list(self) -> Done:
        names = " ".join(sorted(os.listdir(self._folder)))
        return Done(f'files: "{names}"', "list_files")

    def _place(self, path: str) -> Path:
        """A plain name in the folder: no separators, no parents, no links, nothing hidden."""
        plain = 0 < len(path) <= LONGEST_NAME and path.isprintable() and not path.startswith(".")
        if not plain or Path(path).name != path or "\\" in path:
            raise Refused("path is not a plain file name")
        place = self._folder / path
        if place.is_symlink() or (place.exists() and not place.is_file()):
            raise Refused(f"{path!r} is not a plain file")
        return place


def _arguments(name: str, arguments: str) -> dict[str, object]:
    if name not in ALLOWED:
        raise Refused("no such tool")
    try:
        given: object = json.loads(arguments)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise Refused("arguments are not a JSON object")
    return cast(dict[str, object], given)


def _text(given: dict[str, object], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise Refused(f"{name} is missing")
    return value
