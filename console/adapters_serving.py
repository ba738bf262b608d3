"""What `roundhouse adapters` does before a version is routed to: sees it served and proved, or loads and proves it."""

import argparse
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from collector.errors import EngineError, UserError
from collector.records import Record, Version
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.writer import Writer
from collector.store.writer_lock import LockHeld
from console.config import RoundhouseConfig, load_config
from trainer.adapter_rules import Refused
from trainer.served_versions import loaded_on, refuse_unloaded, refuse_unproved

if TYPE_CHECKING:
    from trainer.adapters import Load

WRITER = "adapters"
"""Name of the journal that a proof asked for here is written to."""
_ENGINE_TIMEOUT_S = 10.0


def served_check(args: argparse.Namespace, registry: Registry) -> "Load":
    """What raises where a version is not served, or not proved to be; it is loaded and proved where it can be."""

    def check(version: Version) -> None:
        whole = load_config(args.config)
        workers = tuple(args.engine) or whole.trainer.engines
        try:
            loaded = loaded_on(workers, whole.collector.engine_admin_key, _ENGINE_TIMEOUT_S)
            if not loaded:
                refuse_unloaded(version, loaded)
            missing = _missing(args, version, loaded)
            if missing is not None:
                _say(f"{missing}; it is loaded and proved now")
                _load_and_prove(args, whole, version, workers, registry)
        except EngineError as error:
            raise UserError(f"{error}; nothing is changed") from error

    return check


def _missing(args: argparse.Namespace, version: Version, loaded: dict[str, frozenset[str]]) -> str | None:
    """What is missing before the version may be routed to."""
    try:
        refuse_unloaded(version, loaded)
        with Reader(args.store).snapshot(["events"]) as snapshot:
            refuse_unproved(version, snapshot.frame("events", columns=["at", "kind", "adapter", "version", "detail"]))
    except Refused as refusal:
        return str(refusal)
    return None


def _load_and_prove(
    args: argparse.Namespace,
    whole: RoundhouseConfig,
    version: Version,
    workers: tuple[str, ...],
    registry: Registry,
) -> None:
    # They load polars and what reads logs, which most changes do without.
    from console.train.served_base import base_of, real_parts
    from trainer.cycle.serving import load_and_prove

    base = base_of(whole, args.model, workers, say=_say)
    with _journal(args) as write:
        parts = real_parts(args.store, whole, base, write=write, say=_say)
        load_and_prove(args.store, version, registry.snapshot(), parts, write)


@contextmanager
def _journal(args: argparse.Namespace) -> Generator[Callable[[Record], None]]:
    """Writes records of this command; each is durable when the call returns."""
    try:
        writer = Writer(args.store, WRITER)
    except LockHeld as error:
        raise UserError(f"another roundhouse adapters proves a version of this store: {error}") from error

    def write(record: Record) -> None:
        writer.append(record).result()

    with writer:
        yield write


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
