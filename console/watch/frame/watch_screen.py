"""What every screen of the console is: head rows, body, crumbs and key hints."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.widget import Widget

from console.watch.frame import head
from console.watch.frame.copy_menu import CopyMenu
from console.watch.frame.export import file_name
from console.watch.frame.help_screen import HelpScreen, KeyRow, key_rows
from console.watch.frame.hints import hint_parts
from console.watch.frame.keys import BY_ID, bound, guarded
from console.watch.frame.pane_size import PaneSize
from console.watch.frame.reflow import Form, form_of
from console.watch.frame.row import Part, Row
from console.watch.frame.typed_lines import TypedLines
from console.watch.topic import Ask, View

if TYPE_CHECKING:
    from console.watch.builder import Built


class WatchScreen(TypedLines):
    """One topic on the screen. Owners write `compose_body`, `show`, and what else they need of the methods below."""

    TOPIC: ClassVar[str] = ""
    """Name of the topic that it draws."""
    TITLE: ClassVar[str] = ""  # pyright: ignore[reportIncompatibleVariableOverride]
    HINTS: ClassVar[tuple[str, ...]] = ()
    """Ids of the keys in the bottom row, most used first; back and help are added."""
    ROWS_BY: ClassVar[tuple[str, ...]] = ("adapter", "filter")
    """What of its ask decides which rows it shows: a key typed behind one that changes it is for the rows to come."""
    SAID_S: ClassVar[float] = 8.0
    """How long a remark stands in the row of crumbs."""
    AUTO_FOCUS = "#body *"
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("frame.back", "back"),
        guarded("frame.filter", "filter", first=True),
        guarded("frame.copy", "copy"),
        guarded("frame.copy_menu", "copy_menu", first=True),
        guarded("frame.export", "export"),
        bound("frame.help", "help", first=True),
        bound("frame.command", "command", first=True),
        bound("time.goto", "command('at ')"),
        bound("frame.mouse", "app.mouse"),
        guarded("time.signals", "signals_then"),
        bound("frame.next_pane", "focus_pane(1)"),
        bound("frame.previous_pane", "focus_pane(-1)"),
        guarded("pane.bigger", "pane(1)"),
        guarded("pane.smaller", "pane(-1)"),
        bound("time.previous", "step(-1)"),
        bound("time.next", "step(1)"),
        bound("time.previous_ten", "step(-10)"),
        bound("time.next_ten", "step(10)"),
    ]
    DEFAULT_CSS = """
    WatchScreen { layout: vertical; background: ansi_default; color: ansi_default; }
    WatchScreen #body { height: 1fr; width: 1fr; }
    WatchScreen #banner { display: none; }
    WatchScreen #one_line, WatchScreen #too_small { display: none; }
    WatchScreen.-banner #banner { display: block; }
    WatchScreen.-small #tabs, WatchScreen.-small #crumbs { display: none; }
    WatchScreen.-small.-said #crumbs { display: block; }
    WatchScreen.-typing #hints { display: none; }
    WatchScreen.-small.-typing #crumbs { display: block; }
    WatchScreen.-line > * { display: none; }
    WatchScreen.-line > #one_line, WatchScreen.-line > #too_small { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.view: View | None = None
        """What is shown, once it was built."""
        self.newest_at: datetime | None = None
        """Time of the newest record that it shows."""
        self._rows_shown: tuple[object, ...] | None = None
        self._rows_asked: tuple[object, ...] | None = None
        self._asked_at = 0.0
        self._pane_sizes = PaneSize(self, lambda form: self.resized(form))
        self._frame_rows: dict[str, Row] = {}
        self._unsaying: Timer | None = None

    def compose_body(self) -> Iterable[Widget]:
        """The widgets between the head and the crumbs."""
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Draws a new view; called in the UI thread."""
        raise NotImplementedError

    def keep_place(self) -> None:
        """Notes what the cursor stands on, before another view takes the place of the one that is shown: the message of
        its last move may still be under way."""

    def ask(self) -> msgspec.Struct:
        """What it wants to see now; call `asked` when that changed."""
        return Ask(adapter=self.frame.adapter, filter=self.filter_text)

    def asks_beside(self) -> Mapping[str, msgspec.Struct]:
        """What it wants of other topics, which are built beside its own."""
        return {}

    def ask_whole(self) -> msgspec.Struct:
        """The same, with what is not drawn: what `e` writes in json is what --json prints."""
        return self.ask()

    def sentence(self, view: View) -> str:  # noqa: ARG002
        """The one sentence that matters here, in row 3."""
        return ""

    def crumb(self) -> str:
        """Its name in the row of crumbs, with what is selected."""
        return self.TITLE.lower()

    def copied(self) -> str:
        """What `y` copies: the focused thing."""
        return ""

    def copies(self) -> Sequence[tuple[str, str]]:
        """What the copy menu offers: name and text."""
        return [(self.TITLE, self.copied())]

    def exported(self, view: View) -> Sequence[object]:  # noqa: ARG002
        """The rows of the view as csv has them: structs of one kind; none where it has no rows."""
        return ()

    def off(self, key: str) -> str | None:
        """Why a key does nothing here now; None when it works."""
        if key == "frame.filter" and self.FIELDS is None:
            return "there is no list to filter here"
        if key in ("frame.copy", "frame.copy_menu") and not self.copied():
            return "nothing is selected"
        if key == "time.signals" and self.at() is None:
            return "nothing with a time is selected"
        if key.startswith("pane.") and (self.grown() is None or len(self.query("#body *")) < 2):
            return "there is one pane only"
        if key == "frame.export" and self.view is None:
            return "nothing is shown yet"
        return None

    def at(self) -> datetime | None:
        """The time of what is selected, for `T`."""
        return None

    def grown(self) -> Widget | None:
        """The pane that gets more room: the focused one."""
        return self.focused

    def filtered(self, text: str) -> None:
        """Takes a filter that was typed and is right by the grammar."""
        self.filter_text = text
        self.asked()
        self.redraw_frame()

    def stepped(self, by: int) -> bool:  # noqa: ARG002
        """Goes along this screen's own sequence, such as turns; False where time is its sequence."""
        return False

    def wants(self, ask: msgspec.Struct) -> bool:
        """Whether a view that answers this ask is still to be shown."""
        own = self.ask()
        return ask == own or (isinstance(ask, Ask) and isinstance(own, Ask) and ask.selected == own.selected)

    def resized(self, form: Form) -> None:
        """Told when the layout changes."""

    @property
    def form(self) -> Form:
        """The layout for the terminal's size."""
        return form_of(*self.app.size)

    def asked(self) -> None:
        """Asks the feed for what is wanted now."""
        if (rows := self._rows_of(self.ask())) != self._rows_asked:
            self._rows_asked, self._asked_at = rows, time.monotonic()
        self.frame.ask_for(self)

    @property
    def shows_what_was_asked(self) -> bool:
        """Whether its rows are those that were asked for; newer records may come to them."""
        return self.view is not None and self._rows_shown == self._rows_of(self.ask())

    @property
    def waiting_s(self) -> float:
        """How long ago those were asked for."""
        return time.monotonic() - self._asked_at

    def _rows_of(self, ask: msgspec.Struct) -> tuple[object, ...]:
        return tuple(getattr(ask, name) for name in self.ROWS_BY)

    def open(self, topic: str, **arguments: object) -> None:
        """Opens a topic's screen on top of this one."""
        self.frame.open(topic, **arguments)

    def say(self, text: str) -> None:
        """A remark in the row of crumbs, for some seconds."""
        self.remark = text
        self.set_class(True, "-said")
        if self._unsaying is not None:
            # That of an earlier remark: the same words may be said again.
            self._unsaying.stop()
        self._unsaying = self.set_timer(self.SAID_S, lambda: self._unsay(text))
        self.redraw_frame()

    def compose(self) -> ComposeResult:
        """Head, body, crumbs and hints."""
        names = ("one_line", "too_small", "head", "tabs", "sentence", "banner", "crumbs", "hints")
        self._frame_rows = {
            name: head.HeadRow(id=name) if name in ("head", "banner") else Row(id=name) for name in names
        }
        for name in names[:-2]:
            yield self._frame_rows[name]
        with Vertical(id="body"):
            yield from self.compose_body()
        yield self._frame_rows["crumbs"]
        yield self._frame_rows["hints"]
        yield self.typing_row()

    def received(self, built: "Built") -> None:
        """A view of its topic was built."""
        if self.view is not None:
            self.keep_place()
        self.view, self.newest_at = built.view, built.newest_at
        self._rows_shown = self._rows_of(built.ask)
        self.show(built.view)
        self.redraw_frame()

    def received_beside(self, view: View) -> None:
        """A view of one of the topics beside was built."""

    def failed_beside(self) -> None:
        """A view of one of the topics beside could not be built."""

    def redraw_frame(self) -> None:
        """Draws the rows around the body again."""
        rows = self._frame_rows
        if not self.is_mounted or not rows or not rows["hints"].is_mounted:
            return
        facts, form = self.frame.facts(), self.form
        said = self.palette.said
        rows["head"].set(head.head_parts(facts, form))
        rows["tabs"].set(head.tab_parts(facts, self.frame.tab, form))
        sentence = "shown once all of the log was read" if facts.awaits_whole else ""
        sentence = sentence if self.view is None else self.sentence(self.view)
        rows["sentence"].set([Part(f" {sentence}", self.palette.bold)])
        banner = head.banner_parts(facts)
        rows["banner"].set(banner)
        self.set_class(bool(banner), "-banner")
        rows["one_line"].set(head.one_line(facts, sentence))
        width, height = self.app.size
        rows["too_small"].set([Part(f" {width}x{height} is too small for a screen: 60x15", self.palette.dim)])
        crumbs = [Part(f" {self.remark}", self.palette.reverse)] if self.remark else [Part(" " + self.frame.crumbs())]
        rows["crumbs"].set([part._replace(text=said(part.text)) for part in crumbs])
        rows["hints"].set(self._hints())

    def _hints(self) -> list[Part]:
        ids = [*self.HINTS, "frame.back"]
        return hint_parts(ids, self.frame.keys, self.off, self.palette, self.size.width, wide=self.form == "full")

    def on_screen_suspend(self) -> None:
        """A remark was of what is no longer in front."""
        self._unsay(self.remark)

    def _unsay(self, text: str) -> None:
        if self.remark == text:
            self.remark = ""
            self.set_class(False, "-said")
            self.redraw_frame()

    def on_screen_resume(self) -> None:
        """Asks again: a hidden screen asks nothing."""
        self._rows_asked = None
        self.asked()
        self.redraw_frame()

    def on_resize(self, event: events.Resize) -> None:
        """Takes the layout for the size."""
        form = form_of(*event.size)
        for name in ("full", "normal", "small", "line"):
            self.set_class(name == form, f"-{name}")
        self.resized(form)
        self.call_after_refresh(self.redraw_frame)

    async def action_guarded(self, key: str, action: str) -> None:
        """Runs the action, or says why its key is off."""
        if reason := self.off(key):
            self.say(f"{BY_ID[key].label} is off: {reason}")
            return
        await self.app.run_action(action, self)

    def action_back(self) -> None:
        """Back one layer: first the filter goes, then the screen."""
        if self.filter_text:
            self.filtered("")
        else:
            self.frame.back()

    def action_step(self, by: int) -> None:
        """Along this screen's sequence, or through time."""
        if not self.stepped(by):
            self.frame.feed.step(by)

    def action_signals_then(self) -> None:
        """The signals at the time of what is selected."""
        at = self.at()
        assert at is not None
        self.frame.feed.seek(at)
        self.frame.open_tab("signals")

    def action_focus_pane(self, by: int) -> None:
        """The next pane of the body, or the one before."""
        self._pane_sizes.focus(by)

    def action_pane(self, by: int) -> None:
        """More room for the focused pane, or less."""
        self._pane_sizes.grow(self.grown(), by)

    def action_help(self) -> None:
        """The keys that do something here."""
        remark = " Shift-drag selects text while the console has the mouse; M hands it over"
        rows = key_rows(self, self.off, ascii_only=self.palette.ascii)
        self.app.push_screen(HelpScreen(rows, remark), self._run_key)

    def action_copy(self) -> None:
        """Copies the focused thing."""
        self.frame.copy(self.copied())

    def action_copy_menu(self) -> None:
        """Offers what can be copied."""
        self.app.push_screen(CopyMenu(self.copies()), self._copy_chosen)

    def action_export(self) -> None:
        """Begins the command that writes this view."""
        self.action_command(f"export json {file_name(self.TOPIC, self.frame.facts().status.at, 'json')}")

    async def _run_key(self, row: KeyRow | None) -> None:
        if row is not None:
            await self.app.run_action(row.action, row.node)

    def _copy_chosen(self, text: str | None) -> None:
        if text is not None:
            self.frame.copy(text)
