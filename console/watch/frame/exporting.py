"""Views on their way into files."""

from pathlib import Path
from typing import TYPE_CHECKING

from collector.errors import UserError
from console.watch.builder import Built, Failed
from console.watch.frame.export import file_name
from console.watch.frame.outlets import write_json, write_view

if TYPE_CHECKING:
    from console.watch.app import WatchApp
    from console.watch.frame.watch_screen import WatchScreen


class Exporting:
    """Writes what a screen shows, at once or when its whole view was built."""

    def __init__(self, app: "WatchApp") -> None:
        self._app = app
        self._awaited: dict[str, Path] = {}

    def awaits(self, topic: str) -> bool:
        """Whether a topic is built only to be written."""
        return topic in self._awaited

    def begin(self, screen: "WatchScreen", form: str, path: Path | None) -> None:
        """Writes what a screen shows, and says so; in json also what its view has beside, which is built first."""
        app = self._app
        path = path or Path(file_name(screen.TOPIC, app.facts().status.at, form))
        if form != "json" or screen.view is None or screen.ask_whole() == screen.ask():
            app.say(write_view(app, screen, form, path))
            return
        name = f"export {path}"
        self._awaited[name] = path
        app.say(f"{path.name} is being written")
        app.feed.ask(app.topics[screen.TOPIC]._replace(name=name), screen.ask_whole())

    def take(self, what: Built | Failed) -> None:
        """Writes what was built for it."""
        app = self._app
        app.feed.forget(what.topic)
        path = self._awaited.pop(what.topic)
        try:
            app.say(write_json(app, what.view, path) if isinstance(what, Built) else what.error)
        except UserError as error:
            app.say(str(error))
