"""What the feed's thread hands over to the console's."""

from textual.message import Message

from console.watch.builder import Built, Failed
from console.watch.status import Status


class FromFeed(Message):
    """Something new, handed over from the feed's thread."""

    def __init__(self, what: Built | Failed | Status) -> None:
        super().__init__()
        self.what = what
