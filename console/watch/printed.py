"""One screen as text or JSON, for scripts and screen readers: the same views, printed once."""

import importlib
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from checks.readers.store_window import Window
from collector.errors import UserError
from collector.terminal_text import terminal_safe
from console.watch.adapter_names import adapter_names, refuse_unknown
from console.watch.held import Held
from console.watch.opened import open_source
from console.watch.opening_time import time_meant
from console.watch.options import Options
from console.watch.print_progress import PrintProgress
from console.watch.source.source import Source
from console.watch.topic import Ask
from console.watch.topics import topics
from console.watch.views.logs import LogsAsk
from console.watch.views.prefix_diff import PrefixDiffAsk
from console.watch.views.retok_diff import RetokDiffAsk
from console.watch.views.signals import SignalsAsk
from console.watch.views.token import TokenAsk, TokenView
from console.watch.views.token_words import no_token
from console.watch.views.turn import TurnAsk, TurnsView
from console.watch.windowed import held_within

WITHOUT_TOKENS = ("traffic", "adapters", "logs")
"""Screens that show nothing that only the tokens tell."""
PLACED = ("turn", "token", "prefix_diff", "retok_diff")
"""Screens of one session, or of one turn of it."""
_LOOK_S = 0.05


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which session, turn and token a screen below the tabs is of."""

    session: str | None = None
    turn: int | None = None
    token: int | None = None


class Printed(NamedTuple):
    """A screen, and what it is without."""

    text: str
    """In lines, or one JSON object."""
    damage: tuple[str, ...]
    """What could not be read, a line each."""


def printed(options: Options, screen: str, place: Place, *, rows: int, width: int | None) -> Printed:
    """The screen in lines of `width`, or as JSON where it is None."""
    topic, ask = topics(options)[screen], ask_of(screen, place, options, rows)
    source = open_source(options, tokens=screen not in WITHOUT_TOKENS)
    try:
        with PrintProgress(sys.stderr) as progress:
            held = shown(whole(source, screen not in WITHOUT_TOKENS, progress), options)
        refuse_unknown(options.adapter, adapter_names(held))
        view = topic.build(held, ask, source.log)
        _refuse_missing(view, place)
        _refuse_beyond(view, place)
    finally:
        source.close()
    text = msgspec.json.encode(view).decode() if width is None else "\n".join(lines_of(screen, view, width))
    return Printed(text, held.damage)


def whole(source: Source, tokens: bool, progress: PrintProgress) -> Held:
    """What the source holds, once all of it was read, and its tokens too."""
    held: Held | None = None
    while True:
        held = source.poll() or held
        part = None if held is None else held.source.part
        progress.seen(part)
        if (
            held is not None
            and part is None
            and (not tokens or held.tokens.share == 1 or held.tokens.error is not None)
        ):
            return held
        time.sleep(_LOOK_S)


def shown(held: Held, options: Options) -> Held:
    """At the time and in the window that were asked for."""
    now = datetime.now(UTC)
    if options.at is not None:
        now = time_meant(options.at, held, options.adapter)
        held = held.until(now)
    window = Window(options.window_s, options.window_turns)
    return held if window == Window() else held_within(held, window, now)


def _refuse_missing(view: object, place: Place) -> None:
    """A session or a turn that is not there: a script must be able to tell by the exit code."""
    another = isinstance(view, TurnsView) and place.turn is not None and view.selected != place.turn
    if another or not getattr(view, "found", True):
        turn = "" if place.turn is None else f", turn {place.turn}"
        raise UserError(f"session {terminal_safe(place.session or '')}{turn} is not in what is watched")


def _refuse_beyond(view: object, place: Place) -> None:
    """A token that is not there: another one would be printed in its place."""
    if isinstance(view, TokenView) and place.token is not None:
        refusal = no_token(view, place.token, "completion")
        if refusal is not None:
            raise UserError(f"--token {place.token}: {refusal}")


def _refuse_unplaced(screen: str, place: Place) -> None:
    """What names a place on a screen that is not of one would be passed over in silence."""
    of = {"session": PLACED, "turn": PLACED, "token": ("token",)}
    for name, screens in of.items():
        if getattr(place, name) is not None and screen not in screens:
            raise UserError(f"{screen} takes no --{name}: that is for {', '.join(screens)}; leave it out")


def ask_of(screen: str, place: Place, options: Options, rows: int) -> msgspec.Struct:
    """The topic's own ask, filled with what the command line says of it."""
    _refuse_unplaced(screen, place)
    adapter = options.adapter
    if screen == "signals":
        return SignalsAsk(adapter=adapter, count=rows)
    if screen == "logs":
        return LogsAsk(adapter=adapter, count=rows)
    if screen not in PLACED:
        return Ask(adapter=adapter, count=rows)
    session, turn = place.session, place.turn
    if session is None:
        raise UserError(f"{screen} is of one session: give --session ID")
    if screen == "turn":
        return TurnAsk(adapter=adapter, count=rows, session_id=session, turn=turn)
    if turn is None:
        raise UserError(f"{screen} is of one turn: give --turn N beside --session")
    if screen == "token":
        return TokenAsk(adapter=adapter, count=rows, session_id=session, turn=turn, token_index=place.token)
    ask = PrefixDiffAsk if screen == "prefix_diff" else RetokDiffAsk
    return ask(adapter=adapter, count=rows, session_id=session, turn=turn)


# Any: the plain twin of a view takes that view.
def lines_of(screen: str, view: Any, width: int) -> list[str]:
    """A view as text, a line for each row."""
    plain: Callable[[Any, int], list[str]] = getattr(
        importlib.import_module(f"console.watch.plain.{screen}"), f"plain_{screen}"
    )
    return [terminal_safe(line) for line in plain(view, width)]
