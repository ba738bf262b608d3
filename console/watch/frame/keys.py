"""Every key of the console: its id, what it does, and where it works."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from textual.binding import Binding

EVERYWHERE = "everywhere"


class Key(NamedTuple):
    """One thing a key does."""

    id: str
    keys: str
    """Textual's names of its keys, separated by commas."""
    label: str
    """One or two words for the bottom row."""
    help: str
    """What it does, in a sentence."""
    places: tuple[str, ...] = (EVERYWHERE,)
    """Where it works: two keys may share a letter only where they never meet."""


MOVING = (
    "signals", "traffic", "alerts", "trajectories", "turn", "token", "prefix_diff", "retok_diff", "logs", "adapters",
)  # fmt: skip
SIDEWAYS = tuple(place for place in MOVING if place != "adapters")
SEARCHED = ("traffic", "trajectories", "turn", "token", "prefix_diff", "retok_diff", "logs")
TABLES = tuple(place for place in MOVING if place != "token")
SORTED = ("traffic", "trajectories", "adapters")

KEYS: tuple[Key, ...] = (
    Key("screen.signals", "1", "signals", "The eight signals, and which moved first."),
    Key("screen.traffic", "2", "traffic", "Sessions, feedback, and what became trainable."),
    Key("screen.adapters", "3", "adapters", "Adapters: live and candidate versions, gates, the cycle."),
    Key("screen.alerts", "4", "alerts", "Alerts, grouped by incident."),
    Key("screen.trajectories", "5", "trajectories", "Sessions, to their turns and tokens."),
    Key("screen.logs", "6", "logs", "All events in one log."),
    Key("frame.back", "escape", "back", "Back one layer."),
    Key("frame.help", "question_mark", "help", "The keys of the focused pane; Enter runs one."),
    Key("frame.command", "colon", "cmd", "Type a command: :adapters, :traj 7f3a, :at 11:31, :q."),
    Key("frame.palette", "ctrl+p", "palette", "Find a command by its words."),
    Key("frame.filter", "slash", "filter", "Filter the list: adapter:refund fb:- turns>3 !word."),
    Key("frame.next_pane", "tab", "next pane", "Focus the next pane."),
    Key("frame.previous_pane", "shift+tab", "previous pane", "Focus the previous pane."),
    Key("pane.bigger", "plus", "bigger", "Half the screen for the focused pane, then all of it."),
    Key("pane.smaller", "underscore", "smaller", "Less of the screen for the focused pane."),
    Key("frame.copy", "y", "copy", "Copy the focused thing, by OSC 52 and into a file."),
    Key("frame.copy_menu", "Y", "copy menu", "Choose what to copy, with a preview."),
    Key("frame.export", "e", "export", "Write this view as json, csv or svg."),
    Key("frame.mouse", "M", "mouse", "Hand the mouse to the terminal, or take it back (Shift-drag selects too)."),
    Key("frame.repaint", "R", "repaint", "Draw the whole screen again."),
    Key("frame.quit", "q", "quit", "Leave the console."),
    Key("frame.suspend", "ctrl+z", "suspend", "Stop the console for the shell; fg brings it back."),
    Key("frame.interrupt", "ctrl+c", "quit", "Copy selected text; without any, leave the console."),
    Key("time.pause", "space", "pause", "Freeze the screen; records are still read."),
    Key("time.previous", "left_square_bracket", "previous", "One sample back; in a trajectory one turn back."),
    Key("time.next", "right_square_bracket", "next", "One sample on; in a trajectory one turn on."),
    Key("time.previous_ten", "left_curly_bracket", "ten back", "Ten samples or turns back."),
    Key("time.next_ten", "right_curly_bracket", "ten on", "Ten samples or turns on."),
    Key("time.goto", "b", "go to", "Go to a time: 11:31, -5m, 2026-11-29T11:31Z."),
    Key("time.live", "L", "live", "Back to live."),
    Key("time.signals", "T", "signals then", "The signals at the time of the selected row."),
    Key("move.down", "j,down", "down", "One row down.", MOVING),
    Key("move.up", "k,up", "up", "One row up.", MOVING),
    Key("move.first", "g,home", "first", "To the first row.", tuple(place for place in MOVING if place != "token")),
    Key("token.first", "home", "first", "To the first token.", ("token",)),
    Key("token.goto", "g", "go to", "Go to a position, or with c85 to completion token 85; both from 0.", ("token",)),
    Key(
        "token.scoring",
        "v",
        "scoring",
        "Another scoring of the turn, where the trainer met it more than once.",
        ("token",),
    ),
    Key("diff.open_run", "o", "open run", "Open or fold the run of the cursor.", ("prefix_diff",)),
    Key("diff.layout", "u", "layout", "One column or two.", ("prefix_diff",)),
    Key("move.last", "G,end", "last", "To the last row.", MOVING),
    Key("move.page_down", "pagedown,ctrl+d", "page down", "A page down.", MOVING),
    Key("move.page_up", "pageup,ctrl+u", "page up", "A page up.", MOVING),
    Key("move.left", "h,left", "left", "Left: token, column, fold.", SIDEWAYS),
    Key("move.right", "l,right", "right", "Right: token, column, fold.", SIDEWAYS),
    Key("open", "enter", "open", "Open what is selected.", TABLES),
    Key("search.next", "n", "next", "The next match; in tokens the next outlier.", SEARCHED),
    Key("search.previous", "N", "previous", "The previous match; in tokens the previous outlier.", SEARCHED),
    Key("list.wide", "w", "wide", "All columns; in logs the whole of a line, wrapped.", TABLES),
    Key("list.sort", "S", "sort", "Sort by the next column.", SORTED),
    Key("list.order", "o", "order", "Turn the order round.", (*SORTED, "signals")),
    Key("list.follow", "f", "follow", "Keep the newest row in view.", ("traffic", "trajectories", "turn", "logs")),
    Key("list.faults", "F", "faults", "Show faults only.", ("trajectories", "logs", "signals")),
    Key("logs.minute_on", "m", "+1 min", "A minute on.", ("logs",)),
    Key("logs.minute_back", "B", "-1 min", "A minute back.", ("logs",)),
    Key("logs.times", "t", "times", "Times of the day, dated, or ages.", ("logs",)),
    Key("token.colour", "m", "colour", "Colour by log w, mu, pi_old, entropy, version or mask.", ("token",)),
    Key(
        "token.prefix_diff",
        "d",
        "prefix diff",
        "Where this prompt stops extending the earlier turn.",
        ("turn", "token", "retok_diff"),
    ),
    Key(
        "token.retok_diff",
        "t",
        "retok diff",
        "Where decoding and encoding gives other ids.",
        ("turn", "token", "prefix_diff"),
    ),
    Key("token.ids", "i", "ids", "Ids instead of text, and back.", ("token", "prefix_diff")),
    Key("alerts.acknowledge", "a", "ack", "Acknowledge the alert.", ("alerts", "signals")),
    Key("alerts.silence", "s", "silence", "Silence the alert, for a time and a reason.", ("alerts", "signals")),
    Key("alerts.comment", "c", "comment", "Comment on the alert.", ("alerts", "signals")),
    Key("adapters.promote", "p", "promote", "Promote the candidate.", ("adapters",)),
    Key("adapters.override", "P", "override", "Promote against the gate; needs a reason.", ("adapters",)),
    Key("adapters.rollback", "r", "rollback", "Roll back to the version before.", ("adapters",)),
    Key("adapters.hold", "h", "hold", "Hold, or let go on.", ("adapters",)),
    Key("adapters.canary", "c", "canary", "Give the candidate a share of the traffic.", ("adapters",)),
    Key("adapters.reject", "x", "reject", "Reject the candidate or canary.", ("adapters",)),
)
"""Each key once; `keymap.toml` changes its letters by id."""

ALWAYS = frozenset(("frame.quit", "frame.interrupt", "frame.suspend", "frame.repaint", "frame.mouse"))
"""Keys of the console itself, whatever it shows."""
WITHOUT_VIEW = ALWAYS | {
    *(key.id for key in KEYS if key.id.startswith("screen.")),
    "frame.back",
    "frame.help",
    "frame.command",
    "frame.palette",
    "frame.filter",
    "time.pause",
    "time.goto",
    "time.live",
}
"""Keys that mean the same on a screen that shows nothing yet."""

ALONG_ROWS = ("move.down", "move.up", "move.page_down", "move.page_up")
"""Keys that are held down: they move what is selected, and nothing opens."""

BY_ID: Mapping[str, Key] = {key.id: key for key in KEYS}

_SHOWN = {
    "question_mark": "?", "colon": ":", "slash": "/", "left_square_bracket": "[", "right_square_bracket": "]",
    "left_curly_bracket": "{", "right_curly_bracket": "}", "space": "Space", "escape": "Esc", "tab": "Tab",
    "plus": "+", "underscore": "_", "minus": "-", "comma": ",", "full_stop": ".", "pagedown": "PgDn", "pageup": "PgUp",
    "home": "Home", "end": "End", "up": "↑", "down": "↓", "left": "←", "right": "→", "enter": "⏎",
}  # fmt: skip
_ASCII = {"up": "Up", "down": "Down", "left": "Left", "right": "Right", "enter": "Enter"}


def bound(identity: str, action: str, *, first: bool = False) -> Binding:
    """A binding of a key in the table to an action of its widget or screen; `first` goes before what has the focus."""
    key = BY_ID[identity]
    return Binding(key.keys, action, key.label, show=False, id=identity, tooltip=key.help, priority=first)


def guarded(identity: str, action: str, *, first: bool = False) -> Binding:
    """The same for a `WatchScreen`, which says why the key is off when its `off` gives a reason."""
    return bound(identity, f"guarded({identity!r}, {action!r})", first=first)


def key_text(name: str, *, ascii_only: bool = False) -> str:
    """A key as a person reads it: `?`, `Esc`, `^d`, `Shift+Tab`."""
    modifier, _, letter = name.rpartition("+")
    shown = (_ASCII.get(letter) if ascii_only else None) or _SHOWN.get(letter, letter)
    if modifier == "ctrl":
        return f"^{shown}"
    return f"{modifier.capitalize()}+{shown}" if modifier else shown


def keys_that_meet(keys: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Each letter that two ids of one place share under this keymap, with both ids."""
    for index, one in enumerate(KEYS):
        for other in KEYS[index + 1 :]:
            if not _meet(one, other):
                continue
            for letter in letters(keys.get(one.id, one.keys)) & letters(keys.get(other.id, other.keys)):
                yield letter, one.id, other.id


def _meet(one: Key, other: Key) -> bool:
    return EVERYWHERE in one.places or EVERYWHERE in other.places or bool({*one.places} & {*other.places})


def letters(keys: str) -> set[str]:
    """The single keys of a list of them."""
    return {letter.strip() for letter in keys.split(",")}
