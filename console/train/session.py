"""A trainer at work: its journal, the registry, models and engines opened, cycles run, everything closed again."""

import argparse
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from collector.errors import EngineError, UserError
from collector.records import Record
from collector.store.layout import Layout
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.writer import Writer
from collector.store.writer_lock import LockHeld, WriterLock
from console.config import RoundhouseConfig, launch
from console.stopping import stopping
from console.train.alerts import alerts_of
from console.train.outputs import Outputs, shown_on
from console.train.served_base import base_of, real_parts
from trainer.cycle.cycle import Setting
from trainer.cycle.history import History
from trainer.cycle.loop import Stopped, TrainLoop, run_once
from trainer.cycle.registration import refuse_mismatch
from trainer.cycle.schedule import Schedule

if TYPE_CHECKING:
    from trainer.cycle.orders import Orders

_LOCK = "trainer"
"""Two trainers would train the same turns twice, and each would supersede what the other had made."""


def train(args: argparse.Namespace, whole: RoundhouseConfig, names: tuple[str, ...], schedule: Schedule | None) -> int:
    """One cycle, or cycles by a schedule; the exit code."""
    with ExitStack() as stack:
        stop = stack.enter_context(stopping())
        shown = stack.enter_context(shown_on(as_json=args.json, plain=args.plain))
        writer = owned(stack, args.store, whole.trainer.writer)
        registry = stack.enter_context(Registry(args.store))
        chosen = {name: whole.trainer.adapters[name] for name in names}
        refuse_mismatch(chosen, registry.snapshot(), None)
        write = _writing(writer, shown)
        check = _checking(stop)
        base = base_of(whole, args.model, args.engine, say=shown.problem)
        orders = stack.enter_context(_leading(whole)) if launch().size > 1 else None
        parts = real_parts(
            args.store, whole, base, write=write, check=check, tell=shown.lines, say=shown.problem, orders=orders
        )
        setting = Setting(
            store=args.store,
            config=whole.trainer,
            names=names,
            reader=Reader(args.store),
            registry=registry,
            parts=parts,
            history=History(config.tenant for config in chosen.values()),
            write=write,
            check=check,
        )
        watch = stack.enter_context(alerts_of(args.store, whole.checks, stop, shown.problem))
        if schedule is not None:
            return TrainLoop(setting, schedule, stop, shown, watch).run()
        try:
            return run_once(setting, shown, watch)
        except EngineError as error:
            raise UserError(f"{error}; nothing was trained") from error


def _leading(whole: RoundhouseConfig) -> "AbstractContextManager[Orders]":
    """Meets the processes that torchrun started beside this one, which follow its orders."""
    from trainer.base_model import device_of
    from trainer.cycle.orders import leading
    from trainer.ranks import Ranks

    return leading(Ranks.join(device_of(whole.trainer)))


def owned(stack: ExitStack, store: Path, name: str) -> Writer:
    """The trainer's journal, and the lock that makes this process the one trainer of the store, whatever its name."""
    try:
        writer = stack.enter_context(Writer(store, name))
        if name != _LOCK:
            stack.callback(WriterLock(Layout(store), _LOCK).release)
        return writer
    except LockHeld as error:
        raise UserError(f"another trainer owns this store: {error}") from error


def _writing(writer: Writer, shown: Outputs) -> Callable[[Record], None]:
    def write(record: Record) -> None:
        writer.append(record).result()
        shown.record(record)

    return write


def _checking(stop: threading.Event) -> Callable[[], None]:
    def check() -> None:
        if stop.is_set():
            raise Stopped

    return check
