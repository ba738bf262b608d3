"""The commands of the console in Textual's command palette (ctrl-p)."""

from functools import partial
from typing import cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from console.watch.frame.commands import COMMANDS, Command
from console.watch.frame.frame_app import FrameApp


class ConsoleCommands(Provider):
    """Finds a command by its words; one that needs an argument is begun in the command line."""

    async def discover(self) -> Hits:
        """All of them."""
        for command in COMMANDS:
            yield DiscoveryHit(Content(_shown(command)), partial(self._choose, command), help=command.help)

    async def search(self, query: str) -> Hits:
        """Those that fit."""
        matcher = self.matcher(query)
        for command in COMMANDS:
            score = matcher.match(f"{_shown(command)} {command.help}")
            if score > 0:
                yield Hit(score, Content(_shown(command)), partial(self._choose, command), help=command.help)

    def _choose(self, command: Command) -> None:
        app = cast(FrameApp, self.app)
        if command.argument and not command.argument.startswith("["):
            app.type_command(f"{command.name} ")
        else:
            app.obey(command.name)


def _shown(command: Command) -> str:
    return f"{command.name} {command.argument}".rstrip()
