"""The demo's tasks: small file-editing jobs, made from a seed, with the files a right answer leaves behind."""

import random
from collections.abc import Iterator
from typing import Literal, NamedTuple

Family = Literal["write", "copy", "list"]

FAMILIES: tuple[Family, ...] = ("write", "copy", "list")

FILES = ("animal", "rock", "sound", "time", "sea", "game", "city", "house", "garden", "music", "train", "winter")
ADJECTIVES = ("blue", "loud", "old", "deep", "fast", "big", "soft", "new", "dark", "small")
NOUNS = ("fox", "bell", "clock", "wave", "ball", "town", "chair", "song", "night", "cat")


class Request(NamedTuple):
    """One thing to do, the tool call that does it, and what it leaves."""

    text: str
    """What the agent is told."""
    tool: str
    """The tool that does it."""
    path: str | None = None
    """The file it is about; None where it is about the whole folder."""
    content: str | None = None
    """For a write: what the file holds afterwards."""


class Task(NamedTuple):
    """A job of several requests in one folder."""

    task_id: str
    family: Family
    files: dict[str, str]
    """Files that are there at the start; those that no request writes stay as they are."""
    requests: tuple[Request, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools the job needs, in the order they are offered."""
        return tuple(dict.fromkeys(request.tool for request in self.requests))

    @property
    def written(self) -> dict[str, str]:
        """The files a right answer writes, some of them over those of the start."""
        return {r.path: r.content for r in self.requests if r.path is not None and r.content is not None}


def tasks(seed: int = 0) -> Iterator[Task]:
    """An endless list of different tasks, the families in turn; the same seed gives the same list."""
    draw = random.Random(seed)
    number = 0
    while True:
        for family in FAMILIES:
            yield make_task(family, f"{family}-{number}", draw)
            number += 1


def make_task(family: Family, task_id: str, draw: random.Random) -> Task:
    """One task of a family with words of its own."""
    names = [f"{name}.txt" for name in draw.sample(FILES, 3)]
    pairs = zip(draw.sample(ADJECTIVES, 3), draw.sample(NOUNS, 3), strict=True)
    texts = [f"{adjective} {noun}" for adjective, noun in pairs]
    match family:
        case "write":
            return Task(task_id, family, {}, tuple(map(_write, names, texts)))
        case "copy":
            source, target, other = names
            read = Request(f"Read {source}.", "read_file", source)
            copy = Request(f"Write to {target} the text of {source}.", "write_file", target, texts[0])
            return Task(task_id, family, {source: texts[0]}, (read, copy, _write(other, texts[1])))
        case "list":
            listing = Request("List the files.", "list_files")
            return Task(task_id, family, {names[0]: texts[0]}, (listing, *map(_write, names[:2], texts[1:])))


def _write(path: str, content: str) -> Request:
    return Request(f'Write to {path} the text "{content}".', "write_file", path, content)
