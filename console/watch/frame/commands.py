"""What can be typed after `:`."""

import difflib
from typing import NamedTuple

from collector.errors import UserError


class Command(NamedTuple):
    """One command of the command line."""

    name: str
    help: str
    aliases: tuple[str, ...] = ()
    argument: str = ""
    """What follows it, as help shows it; in brackets where it may be left out."""


COMMANDS: tuple[Command, ...] = (
    Command("signals", "the eight signals", ("sig", "s"), "[ADAPTER]"),
    Command("traffic", "sessions, feedback, and what became trainable", ("traf", "sessions"), "[FILTER]"),
    Command("adapters", "adapters, gates and the cycle", ("adapt", "ad"), "[FILTER]"),
    Command("alerts", "alerts, grouped by incident", ("alert", "al"), "[FILTER]"),
    Command(
        "trajectories",
        "sessions; with a session its turns, with a turn its tokens",
        ("traj", "tr"),
        "[SESSION [TURN [TOKEN]]]",
    ),
    Command("logs", "all events", ("log",), "[FILTER]"),
    Command("adapter", "narrow every screen to an adapter; without one, to none", (), "[NAME]"),
    Command("filter", "filter the list; without one, show all", (), "[FILTER]"),
    Command("at", "go to a time or a step", ("goto", "b"), "TIME|@STEP"),
    Command("live", "back to live", (), ""),
    Command("pause", "freeze the screen, or let it go on", (), ""),
    Command("export", "write this view", ("write", "w"), "json|csv|svg [FILE]"),
    Command("copy", "copy what is selected", ("yank",), ""),
    Command("mouse", "who has the mouse: the console or the terminal", (), "on|off"),
    Command("damage", "what could not be read", (), ""),
    Command("keys", "the keys of the focused pane", ("help", "h"), ""),
    Command("quit", "leave the console", ("q", "q!", "exit"), ""),
)
"""Every command; the six screens first."""

_BY_WORD = {word: command for command in COMMANDS for word in (command.name, *command.aliases)}


class Typed(NamedTuple):
    """A command line, understood."""

    command: Command
    rest: str
    """What follows the command, without outer spaces."""

    @property
    def words(self) -> list[str]:
        """What follows it, in words."""
        return self.rest.split()


def read_command(line: str) -> Typed:
    """The command that was typed; an unknown one is refused with the nearest there is."""
    word, _, rest = line.strip().partition(" ")
    if not word:
        raise UserError("nothing was typed; ? lists the keys, ctrl-p the commands")
    command = _BY_WORD.get(word.lower())
    if command is None:
        fits = [known for known in _BY_WORD if known.startswith(word.lower())]
        if len({_BY_WORD[known].name for known in fits}) != 1:
            near = difflib.get_close_matches(word.lower(), _BY_WORD, n=1)
            raise UserError(f"no command {word!r}; {f'did you mean :{near[0]}?' if near else 'ctrl-p lists them'}")
        command = _BY_WORD[fits[0]]
    rest = rest.strip()
    if rest and not command.argument:
        raise UserError(f":{command.name} takes nothing after it, but {rest!r} was given")
    if not rest and command.argument and not command.argument.startswith("["):
        raise UserError(f":{command.name} needs {command.argument} after it")
    return Typed(command, rest)


def completed(line: str) -> str | None:
    """The line with its first word completed; None when nothing fits."""
    if " " in line or not line:
        return None
    return next((command.name for command in COMMANDS if command.name.startswith(line.lower())), None)
