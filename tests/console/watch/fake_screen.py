"""A topic and a screen for tests of the frame: two rows to choose from, one pane."""

from typing import ClassVar

import msgspec
from textual.widgets import OptionList

from console.watch.app import WatchApp
from console.watch.feed import Feed
from console.watch.frame.filter import Field
from console.watch.frame.watch_screen import WatchScreen
from console.watch.held import Held
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.views.head import TOPIC as HEAD
from tests.console.watch.fake_feed import FakeFeed


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """A row."""

    word: str
    letters: int | None


class Words(View, frozen=True, kw_only=True):
    """Two rows, less those that are filtered out."""

    rows: tuple[Word, ...]


def build_words(held: Held, ask: Ask, log: OpenLog) -> Words:
    """The path's parts as rows."""
    words = held.source.path.strip("/").split("/")
    return Words(rows=tuple(Word(word=word, letters=len(word)) for word in words if ask.filter in word))


class WordsScreen(WatchScreen):
    """Draws them."""

    TOPIC: ClassVar[str] = "signals"
    TITLE: ClassVar[str] = "Words"
    HINTS: ClassVar[tuple[str, ...]] = ("open", "frame.copy", "frame.export")
    FIELDS: ClassVar = {"word": Field("word"), "letters": Field("letters", "number")}

    def compose_body(self):
        yield OptionList(id="rows", markup=False)

    def show(self, view: View) -> None:
        rows = self.query_one(OptionList)
        rows.clear_options()
        rows.add_options([row.word for row in view.rows])

    def sentence(self, view: View) -> str:
        return f"{len(view.rows)} words"

    def copied(self) -> str:
        return self.view.rows[0].word if self.view is not None and self.view.rows else ""

    def exported(self, view: View):
        return view.rows


class OtherScreen(WordsScreen):
    """A screen to drill down to, and behind the key 2."""

    TOPIC: ClassVar[str] = "traffic"
    TITLE: ClassVar[str] = "Other"
    FIELDS: ClassVar = None


def words_app(feed: Feed | None = None, **options: object) -> WatchApp:
    """A console of these two screens."""
    topics = {"head": HEAD, "signals": Topic("signals", build_words), "traffic": Topic("traffic", build_words)}
    options.setdefault("screens", {"signals": WordsScreen, "traffic": OtherScreen})
    return WatchApp(feed or FakeFeed(), topics, **options)
