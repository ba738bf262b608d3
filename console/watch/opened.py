"""Opens what is watched: a store or a log, with the process that reads its tokens."""

import gc
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from console.watch.allocators import give_back_what_is_freed
from console.watch.options import Options

if TYPE_CHECKING:
    from datetime import datetime

    from console.watch.app import WatchApp
    from console.watch.held import Held
    from console.watch.source.source import Source
    from console.watch.topic import Topic


def open_source(options: Options, *, tokens: bool = True) -> "Source":
    """Loads what reading needs, so it is called in the reading thread. `tokens` has them measured."""
    import pyarrow as pa

    from checks.readers.native_store import is_store
    from console.watch.source.log_rows import is_short
    from console.watch.source.token_news import Order
    from console.watch.source.token_process import TokenProcess

    # Arrow's own pool keeps what a read of everything took; the system's gives it back.
    pa.set_memory_pool(pa.system_memory_pool())
    store = options.reads is None and is_store(options.path)
    short = not store and is_short(options.path)
    order = Order(
        path=str(options.path),
        reads=options.reads,
        tokenizer=None if options.tokenizer is None else str(options.tokenizer.absolute()),
        window_s=options.window_s,
        window_turns=options.window_turns,
        rows=not short,
        tokens=tokens,
    )
    if store:
        from console.watch.source.store_source import StoreSource

        return StoreSource(options.path, tokens=TokenProcess(order) if tokens else None)
    from console.watch.source.log_source import LogSource

    reading = partial(TokenProcess, order) if tokens or not short else None
    return LogSource(options.path, short=short, reads=options.reads, reading=reading)


def opened_app(options: Options) -> "WatchApp":
    """The console for a terminal. The frame first: what reading and the views need is loaded in threads behind it."""
    give_back_what_is_freed()
    # Polars reads it when it is loaded. The frames are small: more threads cost more than they save.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from console.watch.app import WatchApp
    from console.watch.feed import Feed
    from console.watch.widgets.palette import Palette

    if options.keymap is not None:
        from console.watch.frame.keymap import read_keymap

        keymap = read_keymap(options.keymap)
    else:
        keymap = None
    if options.rw:
        from console.watch.acting import Acting

        acting = Acting(options.path, config=options.config)
    else:
        acting = None
    feed = Feed(
        lambda: open_source(options),
        interval_s=options.interval_s,
        at=None if options.at is None else partial(_time_meant, options),
        within=None if options.window_s is None and options.window_turns is None else partial(_within, options),
    )
    return WatchApp(
        feed,
        partial(_topics, options),
        palette=Palette(options.color, ascii=options.ascii),
        adapter=options.adapter,
        acting=acting,
        keymap=keymap,
        mouse=options.mouse,
    )


def _topics(options: Options) -> "Mapping[str, Topic[Any]]":
    from console.watch.topics import topics

    try:
        return topics(options)
    finally:
        if not gc.isenabled():
            # What is loaded by now stays to the end: it is never looked through again.
            gc.freeze()
            gc.enable()


def _time_meant(options: Options, held: "Held") -> "datetime":
    from console.watch.opening_time import time_meant

    assert options.at is not None
    return time_meant(options.at, held, options.adapter)


def _within(options: Options, held: "Held", now: "datetime") -> "Held":
    from checks.readers.store_window import Window
    from console.watch.windowed import held_within

    return held_within(held, Window(options.window_s, options.window_turns), now)
