"""What each command of the command line does."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from collector.errors import UserError
from console.watch.frame.commands import Typed, read_command
from console.watch.frame.export import FORMATS
from console.watch.frame.filter import read_filter
from console.watch.frame.screen_list import TABS
from console.watch.frame.typed_time import EXPECTED, step_asked, typed_time

if TYPE_CHECKING:
    from console.watch.app import WatchApp
    from console.watch.frame.watch_screen import WatchScreen


class _Given(NamedTuple):
    """A command, and where it was given."""

    app: "WatchApp"
    screen: "WatchScreen"
    typed: Typed


def obey(app: "WatchApp", screen: "WatchScreen", line: str) -> None:
    """Does what was typed; UserError says why it cannot."""
    typed = read_command(line)
    if typed.command.name in [tab.topic for tab in TABS]:
        _open_tab(app, typed)
    else:
        _DOES[typed.command.name](_Given(app, screen, typed))


def _open_tab(app: "WatchApp", typed: Typed) -> None:
    topic = typed.command.name
    app.open_tab(topic)
    if not typed.rest:
        return
    if topic == "trajectories":
        _trajectory(app, typed)
    elif topic == "signals":
        _narrow(app, typed.rest)
    else:
        app.filter_front(typed.rest)


def _trajectory(app: "WatchApp", typed: Typed) -> None:
    """A session's turns, or the tokens of one."""
    session_id, *numbers = typed.words
    if len(numbers) > 2 or not all(word.isdecimal() for word in numbers):
        raise UserError(f":trajectories takes {typed.command.argument}, but {typed.rest!r} was given")
    if numbers:
        token = int(numbers[1]) if numbers[1:] else None
        app.open("token", session_id=session_id, turn=int(numbers[0]), token_index=token)
    else:
        app.open("turn", session_id=session_id)


def _adapter(given: _Given) -> None:
    _narrow(given.app, given.typed.rest or None)


def _narrow(app: "WatchApp", name: str | None) -> None:
    if (head := app.facts().head) is not None:
        from console.watch.adapter_names import refuse_unknown

        refuse_unknown(name, head.known)
    app.narrow(name)


def _filter(given: _Given) -> None:
    if given.screen.FIELDS is None:
        raise UserError("there is no list to filter here")
    read_filter(given.typed.rest, given.screen.FIELDS)
    given.screen.filtered(given.typed.rest)


def _at(given: _Given) -> None:
    if (step := step_asked(given.typed.rest)) is not None:
        given.app.go_to_step(step)
        return
    newest = given.app.newest()
    if newest is None:
        raise UserError("no record has a time yet, so there is none to go to")
    at = typed_time(given.typed.rest, newest)
    if at > newest:
        raise UserError(f"{at:%Y-%m-%d %H:%M:%SZ} is after the newest record; {EXPECTED}")
    given.app.feed.seek(at)


def _export(given: _Given) -> None:
    form, _, name = given.typed.rest.partition(" ")
    if form not in FORMATS:
        raise UserError(f"{form!r} is no format, expected {', '.join(FORMATS)}")
    given.app.exporting.begin(given.screen, form, Path(name.strip()) if name.strip() else None)


def _mouse(given: _Given) -> None:
    if given.typed.rest not in ("on", "off"):
        raise UserError(f":mouse takes on or off, but {given.typed.rest!r} was given")
    given.app.set_mouse(given.typed.rest == "on")


def _damage(given: _Given) -> None:
    head = given.app.facts().head
    if head is None or not head.damage:
        raise UserError("nothing of it was found damaged")
    given.app.show_text("what could not be read", "\n".join(head.damage))


def _quit(given: _Given) -> None:
    given.app.exit(0)


_DOES: Mapping[str, Callable[[_Given], None]] = {
    "adapter": _adapter,
    "filter": _filter,
    "at": _at,
    "live": lambda given: given.app.feed.live(),
    "pause": lambda given: given.app.action_pause(),
    "export": _export,
    "copy": lambda given: given.app.copy(given.screen.copied()),
    "mouse": _mouse,
    "damage": _damage,
    "keys": lambda given: given.screen.action_help(),
    "quit": _quit,
}
