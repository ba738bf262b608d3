"""What screens may ask of the application."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from console.watch.widgets.palette import Palette

if TYPE_CHECKING:
    from console.watch.acting import Acting
    from console.watch.feed import Feed
    from console.watch.frame.watch_screen import WatchScreen
    from console.watch.status import Status
    from console.watch.views.head import HeadView


class Facts(NamedTuple):
    """What the head rows are drawn from."""

    head: "HeadView | None"
    status: "Status"
    palette: Palette
    rw: bool
    """Whether acting is allowed."""
    mouse: bool
    """Whether the console has the mouse; else the terminal."""
    error: str | None = None
    """Why the view on the screen could not be built."""
    shown_at: datetime | None = None
    """Time of the newest record that the view on the screen shows; None before it shows any."""
    awaits_whole: bool = False
    """Whether the screen shows nothing before all of a log was read."""


class FrameApp(Protocol):
    """The slice of `WatchApp` that screens use."""

    feed: "Feed"
    palette: Palette
    adapter: str | None
    """The adapter that every screen is narrowed to; None for all."""
    acting: "Acting | None"
    """What changes the store; None when the console only reads."""
    keys: Mapping[str, str]
    """Keys that the keymap changed, by id."""

    @property
    def tab(self) -> str:
        """Topic of the tab that is open."""
        ...

    def facts(self) -> Facts:
        """For the head rows."""
        ...

    def ask_for(self, screen: "WatchScreen") -> None:
        """Asks the feed for what a screen wants, if it is the one in front."""
        ...

    def open_tab(self, topic: str) -> None:
        """Opens one of the six."""
        ...

    def open(self, topic: str, **arguments: object) -> None:
        """Opens a topic's screen on top."""
        ...

    def back(self) -> None:
        """Closes the screen in front, if there is one below."""
        ...

    def type_command(self, text: str = "") -> None:
        """Begins a command line."""
        ...

    def obey(self, line: str) -> None:
        """Does what a command line says; what is wrong with it is said."""
        ...

    def copy(self, text: str) -> None:
        """Copies a text, and says where to."""
        ...

    def crumbs(self) -> str:
        """The way from the tab to the screen in front."""
        ...
