"""The base model and the engines that settings and the command line name, and the real parts over them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from collector.errors import UserError
from collector.listening import url_of
from collector.records import Record
from console.config import RoundhouseConfig
from trainer.cycle.parts import Engines, RealParts
from trainer.engine.model_folder import find_model

if TYPE_CHECKING:
    from trainer.cycle.orders import Orders


class Base(NamedTuple):
    """A base model, and who serves it."""

    folder: Path
    name: str
    """As the collector records it."""
    engines: Engines


def base_of(whole: RoundhouseConfig, model: str | None, urls: Sequence[str], *, say: Callable[[str], None]) -> Base:
    """`model` and `urls` are what the command line names; what it leaves out is in the settings."""
    engine = msgspec.structs.replace(whole.engine, model=model or whole.engine.model)
    folder = Path(find_model(engine, say))
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no config.json found, expected the folder of the base model; give --model")
    workers = tuple(urls) or whole.collector.engines or (url_of(engine.host, engine.port),)
    name = whole.collector.model_name or folder.resolve().name
    return Base(folder, name, Engines(workers, whole.collector.engine_admin_key))


def real_parts(
    store: Path,
    whole: RoundhouseConfig,
    base: Base,
    *,
    write: Callable[[Record], None],
    check: Callable[[], None] = lambda: None,
    tell: Callable[[Sequence[str]], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
    orders: "Orders | None" = None,
) -> RealParts:
    """A cycle's parts; the callables and `orders` are those of `RealParts`."""
    return RealParts(
        store,
        whole.trainer,
        model=base.folder,
        base_model=base.name,
        engines=base.engines,
        checks=whole.checks,
        write=write,
        check=check,
        tell=tell,
        say=say,
        orders=orders,
    )
