"""What `roundhouse adapters` does before a version is routed to: sees it served and proved, or loads and proves it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from collector.errors import EngineError, UserError
from collector.records import Record, Version
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.writer import Writer
from collector.store.writer_lock import LockHeld
from collector.workers.proofs import Proofs
from console.config import RoundhouseConfig, load_config
from trainer.adapter_rules import Refused
from trainer.served_versions import loaded_on, processes_on, refuse_started_anew, refuse_unloaded, refuse_unproved

if TYPE_CHECKING:
    from trainer.adapters import Load

WRITER = "adapters"
"""Name of the journal that a proof asked for here is written to."""
_ENGINE_TIMEOUT_S = 10.0


class Serving(NamedTuple):
    """What is to be known to see a version served, or to have it loaded and proved."""

    store: Path
    config: Path | None = None
    """Settings; ./roundhouse.toml if there."""
    engines: tuple[str, ...] = ()
    """Engine workers; those of `[collector] engines` when none is given."""
    model: str | None = None
    """Folder of the base model; `[engine] model` when not given."""
    say: Callable[[str], None] = lambda _: None
    """Told in a line of what takes its time."""


def served_check(serving: Serving, registry: Registry) -> "Load":
    """What raises where a version is not served, or not proved to be; it is loaded and proved where it can be."""

    def check(version: Version) -> None:
        whole = load_config(serving.config)
        workers = serving.engines or whole.collector.engines
        try:
            loaded = loaded_on(workers, whole.collector.engine_admin_key, _ENGINE_TIMEOUT_S)
            if not loaded:
                refuse_unloaded(version, loaded)
            processes = processes_on(workers, whole.collector.engine_admin_key, _ENGINE_TIMEOUT_S)
            missing = _missing(serving.store, version, loaded, processes)
            if missing is not None:
                serving.say(f"{missing}; it is loaded and proved now")
                _load_and_prove(serving, whole, version, workers, registry)
        except EngineError as error:
            raise UserError(f"{error}; nothing is changed") from error

    return check


def _missing(
    store: Path,
    version: Version,
    loaded: dict[str, frozenset[str]],
    processes: dict[str, str | None],
) -> str | None:
    """What is missing before the version may be routed to."""
    try:
        refuse_unloaded(version, loaded)
        with Reader(store).snapshot(["events"]) as snapshot:
            refuse_unproved(version, snapshot.frame("events", columns=["at", "kind", "adapter", "version", "detail"]))
            proofs = Proofs()
            proofs.take(snapshot)
        refuse_started_anew(version, proofs, processes)
    except Refused as refusal:
        return str(refusal)
    return None


def _load_and_prove(
    serving: Serving,
    whole: RoundhouseConfig,
    version: Version,
    workers: tuple[str, ...],
    registry: Registry,
) -> None:
    # They load polars and what reads logs, which most changes do without.
    from console.train.served_base import base_of, real_parts
    from trainer.cycle.serving import load_and_prove

    base = base_of(whole, serving.model, workers, say=serving.say)
    with _journal(serving.store) as write:
        parts = real_parts(serving.store, whole, base, write=write, say=serving.say)
        load_and_prove(serving.store, version, registry.snapshot(), parts, write)


@contextmanager
def _journal(store: Path) -> Generator[Callable[[Record], None]]:
    """Writes records of this command; each is durable when the call returns."""
    try:
        writer = Writer(store, WRITER)
    except LockHeld as error:
        raise UserError(f"another roundhouse adapters proves a version of this store: {error}") from error

    def write(record: Record) -> None:
        writer.append(record).result()

    with writer:
        yield write
