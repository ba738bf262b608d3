"""Which session a typed name means: lists show the end of a long one, and people type what they see."""

from typing import TypeVar

import msgspec
import polars as pl

from console.watch.held import Held

A = TypeVar("A", bound=msgspec.Struct)


def session_named(held: Held, name: str) -> str:
    """The session of this name, else the only one that ends, or begins, with it; the name itself where none is."""
    told, part = held.turns["session_id"], name.removeprefix("…")
    if not part or (told == name).any():
        return name
    sessions = told.unique().cast(pl.String)
    for found in (sessions.filter(sessions.str.ends_with(part)), sessions.filter(sessions.str.starts_with(part))):
        if len(found) == 1:
            return str(found[0])
    return name


def of_named(held: Held, ask: A) -> A:
    """The same ask, of the session that its `session_id` means."""
    meant = session_named(held, getattr(ask, "session_id"))  # noqa: B009 - every ask of one session has it
    return msgspec.structs.replace(ask, session_id=meant)
