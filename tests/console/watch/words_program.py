"""The console of `fake_screen` as a program, for tests that need a real terminal around it."""

import sys

from console.watch.app import run_app
from console.watch.topic import View
from tests.console.watch.fake_feed import FakeFeed, held
from tests.console.watch.fake_screen import OtherScreen, WordsScreen, words_app


class Broken(WordsScreen):
    """Falls over when something is shown."""

    def show(self, view: View) -> None:
        """Cannot."""
        raise ValueError("cannot show \x1b]0;owned\x07")


if __name__ == "__main__":
    screens = {"signals": Broken if "--broken" in sys.argv else WordsScreen, "traffic": OtherScreen}
    path = next((word for word in sys.argv[1:] if not word.startswith("-")), "/stores/support-agent")
    feed = FakeFeed(held(source=held().source.__class__(path=path, format="store")))
    sys.exit(run_app(words_app(feed, screens=screens)))
