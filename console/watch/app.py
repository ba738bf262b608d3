"""The console itself: holds the screens together, and passes on what the feed built."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Input

from collector.errors import UserError
from console.watch.builder import Built, Failed
from console.watch.feed import Feed
from console.watch.frame import pane_size
from console.watch.frame.crash import crash_text
from console.watch.frame.exporting import Exporting
from console.watch.frame.frame_app import Facts
from console.watch.frame.key_order import GIVEN_UP_S, Turn
from console.watch.frame.keys import ALONG_ROWS, ALWAYS, BY_ID, WITHOUT_VIEW, bound, key_text, letters
from console.watch.frame.obey import obey
from console.watch.frame.opening import OpeningScreen
from console.watch.frame.palette_provider import ConsoleCommands
from console.watch.frame.screen_list import SCREENS, TABS, screen_class
from console.watch.frame.terminal_app import TerminalApp
from console.watch.frame.text_screen import TextScreen
from console.watch.frame.watch_screen import WatchScreen
from console.watch.from_feed import FromFeed
from console.watch.status import Status
from console.watch.topic import Ask, Topic
from console.watch.widgets.palette import Palette

if TYPE_CHECKING:
    from console.watch.acting import Acting
    from console.watch.views.head import HeadView
    from console.watch.views.step_time import StepTime

Topics = Mapping[str, Topic[Any]]
_TABS = frozenset(tab.topic for tab in TABS)


def own_topics() -> Topics:
    """What the frame itself asks for."""
    from console.watch.views import head, step_time

    return {"head": head.TOPIC, "step_time": step_time.TOPIC}


class WatchApp(TerminalApp):
    """`roundhouse watch`."""

    TITLE = "roundhouse watch"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = {ConsoleCommands}  # noqa: RUF012
    CSS = f"""{pane_size.CSS}
    * {{
        scrollbar-background: ansi_default;
        scrollbar-background-hover: ansi_default;
        scrollbar-background-active: ansi_default;
        scrollbar-color: ansi_bright_black;
        scrollbar-color-hover: ansi_bright_black;
        scrollbar-color-active: ansi_bright_black;
        scrollbar-corner-color: ansi_default;
    }}
    CommandPalette SearchIcon {{ display: none; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(bound(f"screen.{tab.topic}", f"tab({tab.topic!r})") for tab in TABS),
        bound("frame.quit", "leave"),
        bound("frame.interrupt", "leave"),
        bound("frame.palette", "command_palette"),
        bound("frame.repaint", "repaint"),
        bound("frame.suspend", "suspend_process"),
        bound("time.pause", "pause"),
        bound("time.live", "live"),
    ]

    def __init__(
        self,
        feed: Feed,
        topics: Topics | Callable[[], Topics],
        *,
        palette: Palette | None = None,
        adapter: str | None = None,
        acting: "Acting | None" = None,
        keymap: Mapping[str, str] | None = None,
        mouse: bool = True,
        start: str = "signals",
        screens: Mapping[str, type[WatchScreen]] | None = None,
    ) -> None:
        """`topics` by name, or what gives them: it is called in a thread, for it may load much, while the frame is
        there already. `screens` draws some of them otherwise."""
        super().__init__(palette or Palette(), mouse=mouse)
        self.feed = feed
        self.topics: Topics = {}
        self._given_topics = topics
        self._loading = False
        self.adapter = adapter
        self._begun_with = adapter
        self.refusal: UserError | None = None
        """Why it ended, where what it was begun with cannot be shown."""
        self.acting = acting
        self.keys = keymap or {}
        self.set_keymap(dict(self.keys))
        self.held_down = {key for name in ALONG_ROWS for key in letters(self.keys.get(name, BY_ID[name].keys))}
        self._start = start
        self._status = Status(state="reading")
        self._head: HeadView | None = None  # its module is loaded later
        self._error: str | None = None
        self._asked: set[str] = set()
        self.exporting = Exporting(self)
        self._screens = screens or {}
        for tab in TABS:
            self.add_mode(tab.topic, partial(self._made, tab.topic))

    @property
    def tab(self) -> str:
        """Topic of the tab that is open."""
        return self.current_mode if self.current_mode in _TABS else self._start

    def facts(self) -> Facts:
        """For the head rows."""
        front, rw = self.front(), self.acting is not None
        shown_at = None if front is None else front.newest_at
        topic = None if front is None else self.topics.get(front.TOPIC)
        awaits_whole = self._status.state == "part" and topic is not None and not topic.of_part
        return Facts(self._head, self._status, self.palette, rw, self.mouse, self._error, shown_at, awaits_whole)

    @property
    def shows_old(self) -> bool:
        """Whether nothing came since long, or nothing can come."""
        return self._status.state in ("stale", "disconnected")

    def turn_of(self, key: str) -> Turn:
        """A key that acts on what is shown waits until that is there, and one is refused where nothing comes."""
        front = self.front()
        if front is None or front is not self.screen or isinstance(self.focused, Input):
            return "now"
        if self.topics and (front.shows_what_was_asked or self._error is not None):
            return "now"
        active = self.screen.active_bindings.get(key)
        name = None if active is None else active.binding.id
        if name is None or name in (WITHOUT_VIEW if self.topics else ALWAYS):
            return "now"
        if not self.topics or front.waiting_s < GIVEN_UP_S:
            return "later"
        return "never" if front.view is None else "now"

    def refused(self, key: str) -> None:
        """Says that a key found nothing."""
        self.say(f"{key_text(key, ascii_only=self.palette.ascii)} is off: nothing is shown yet")

    def on_mount(self) -> None:
        """Opens the first screen and begins to read."""
        if not callable(self._given_topics):
            self._open({**own_topics(), **self._given_topics})

    def post_display_hook(self) -> None:
        """The frame stands on the screen: only now is loaded what fills it."""
        if callable(self._given_topics) and not self._loading:
            self._loading = True
            self.run_worker(self._load, thread=True)

    def get_default_screen(self) -> Screen[None]:
        """The frame, before anything is loaded that could fill it."""
        return OpeningScreen()

    def _load(self) -> None:
        """In a thread: loads what the screens need."""
        assert callable(self._given_topics)
        topics = {**own_topics(), **self._given_topics()}
        for topic in topics:
            if topic in SCREENS and topic not in self._screens:
                screen_class(topic)
        self.call_from_thread(self._open, topics)

    def _open(self, topics: Topics) -> None:
        """Opens the first screen and begins to read."""
        self.topics = topics
        self.switch_mode(self._start)
        self.feed.ask(topics["head"], Ask(adapter=self.adapter))
        self.feed.start(self._from_thread)

    def on_unmount(self) -> None:
        """Stops reading."""
        self.feed.close()

    def front(self) -> WatchScreen | None:
        """The topmost screen that shows a topic; dialogs may lie over it."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, WatchScreen)), None)

    def ask_for(self, screen: WatchScreen) -> None:
        """Asks the feed for what a screen wants, if it is the one in front."""
        if screen is not self.front() or screen.TOPIC not in self.topics:
            return
        asks = {screen.TOPIC: screen.ask(), **screen.asks_beside()}
        for topic in self._asked - asks.keys():
            self.feed.forget(topic)
        self._asked, self._error = {*asks}, None
        for topic, ask in asks.items():
            self.feed.ask(self.topics[topic], ask)

    def _from_thread(self, what: Built | Failed | Status) -> None:
        self.post_message(FromFeed(what))

    def on_from_feed(self, message: FromFeed) -> None:
        """Gives a view to the screen in front that wants it."""
        what, front = message.what, self.front()
        if isinstance(what, Status):
            self._take_status(what)
        elif self.exporting.awaits(what.topic):
            self.exporting.take(what)
        elif isinstance(what, Built):
            if what.topic == "head":
                self._take_head(cast("HeadView", what.view))
            elif what.topic == "step_time":
                self._found_step(cast("StepTime", what.view))
            elif front is not None and what.topic == front.TOPIC and front.wants(what.ask):
                self._error = None
                front.received(what)
            elif front is not None and what.topic in front.asks_beside():
                front.received_beside(what.view)
        elif front is not None and what.topic == front.TOPIC:
            self._error = what.error
        elif front is not None and what.topic in front.asks_beside():
            front.failed_beside()
        if front is not None:
            front.redraw_frame()

    def _take_status(self, status: Status) -> None:
        """Old values become dim, or bright again, by drawing them anew."""
        before, self._status = self._status, status
        if before.state != status.state and (front := self.front()) is not None:
            for widget in front.query("*"):
                widget.refresh()

    def _take_head(self, head: "HeadView") -> None:
        """Once names are known, an adapter to begin with that is none of them is refused, as --plain does."""
        from console.watch.adapter_names import refuse_unknown

        self._head = head
        try:
            refuse_unknown(self._begun_with, head.known)
        except UserError as refusal:
            self.refusal = refusal
            self.exit(2)
        self._begun_with = None if head.known else self._begun_with

    def _found_step(self, step: "StepTime") -> None:
        self.feed.forget("step_time")
        if step.at is None:
            self.say(f"there is no step {step.step} with a time here")
        else:
            self.feed.seek(step.at)

    def open(self, topic: str, **arguments: object) -> None:
        """Opens a topic's screen on top."""
        if self._can_show(topic):
            self.push_screen(self._made(topic, **arguments))

    def _can_show(self, topic: str) -> bool:
        if topic not in self.topics:
            self.say(f"{topic} cannot be shown here")
        return topic in self.topics

    def _made(self, topic: str, **arguments: object) -> WatchScreen:
        return (self._screens.get(topic) or screen_class(topic))(**arguments)

    def back(self) -> None:
        """Closes the screen in front, if there is one below."""
        if len(self.screen_stack) > 1:
            self.pop_screen()

    def crumbs(self) -> str:
        """The way from the tab to the screen in front."""
        names = [screen.crumb() for screen in self.screen_stack if isinstance(screen, WatchScreen)]
        return self.palette.said(" › ".join(names)).replace("›", ">" if self.palette.ascii else "›")

    def open_tab(self, topic: str) -> None:
        """Opens a tab; on the open one, back to its first screen."""
        if not self._can_show(topic):
            return
        if topic == self.current_mode:
            while len(self.screen_stack) > 1:
                self.pop_screen()
        else:
            self.switch_mode(topic)

    def filter_front(self, text: str) -> None:
        """Filters the screen in front, once it is there."""
        self.when_drawn(lambda: self.obey(f"filter {text}"))

    def narrow(self, adapter: str | None) -> None:
        """Narrows every screen to an adapter; None for all."""
        self.adapter = adapter
        if "head" in self.topics:
            self.feed.ask(self.topics["head"], Ask(adapter=adapter))
        if front := self.front():
            self.ask_for(front)

    def newest(self) -> datetime | None:
        """Time of the newest record."""
        status = self._status
        return None if status.at is None else status.at + timedelta(seconds=status.behind_s or 0.0)

    def go_to_step(self, step: int) -> None:
        """Replays the end of a step, if there is one."""
        if self._status.state in ("paused", "replay"):
            self.feed.live()
        from console.watch.views.step_time import StepTimeAsk

        self.feed.ask(self.topics["step_time"], StepTimeAsk(step=step, adapter=self.adapter))

    def type_command(self, text: str = "") -> None:
        """Begins a command line."""
        if front := self.front():
            front.action_command(text)

    def obey(self, line: str) -> None:
        """Does what a command line says; what is wrong with it is said."""
        if (front := self.front()) is None:
            return
        try:
            obey(self, front, line)
        except UserError as error:
            self.say(str(error))

    def say(self, text: str) -> None:
        """A remark on the screen in front."""
        if front := self.front():
            front.say(text)

    def show_text(self, heading: str, text: str) -> None:
        """A text over the screen."""
        self.push_screen(TextScreen(heading, text))

    def copy(self, text: str) -> None:
        """Copies a text, and says where to."""
        if not text:
            self.say("nothing is selected to copy")
            return
        self.say(self.copied(text))

    def set_mouse(self, console: bool) -> None:
        """Gives the mouse to the console or to the terminal."""
        super().set_mouse(console)
        if front := self.front():
            front.redraw_frame()

    def action_mouse(self) -> None:
        """Hands the mouse over, or takes it back."""
        self.set_mouse(not self.mouse)

    def action_tab(self, topic: str) -> None:
        """Opens a tab."""
        self.open_tab(topic)

    def _fatal_error(self) -> None:
        """Ends with what went wrong in place of Textual's own report, which prints values."""
        assert self._exception is not None
        front = self.front() if self._screen_stacks.get(self.current_mode) else None
        self._exit_renderables.append(Text(crash_text(self._exception, front.TOPIC if front else "none")))
        self._close_messages_no_wait()

    def action_pause(self) -> None:
        """Freezes the view, or lets it go on."""
        if self._status.state == "paused":
            self.feed.live()
        else:
            self.feed.pause()

    def action_live(self) -> None:
        """Back to the newest."""
        self.feed.live()

    def action_leave(self) -> None:
        """Ends the console."""
        self.exit(0)


def run_app(app: WatchApp, *, mouse: bool = True) -> int:
    """Runs the console until it is left; the exit code is not 0 when a screen failed or a signal ended it.

    What it was begun with and cannot be shown is raised.
    """
    result = app.run(mouse=mouse)
    if app.refusal is not None:
        raise app.refusal
    return app.return_code or result or 0
