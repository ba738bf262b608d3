"""Keys in the order in which they were typed, each to the screen that the person meant."""

import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from textual import events
from textual.app import App
from textual.message import Message
from textual.widget import Widget

ROUNDS = 4
"""How often what is posted behind a key comes up from the focus before the key is done: a line that is typed goes from
its input to its row, from there to its screen, and only then opens what it names."""
LOOK_S = 0.01
"""Between two looks whether a key that waits may go."""
GIVEN_UP_S = 2.0
"""Longest that a key waits for what the one before it does."""
INTERRUPT = "ctrl+c"
"""Overtakes what waits."""

Turn = Literal["now", "later", "never"]
"""When a key is given on: never is for one that has nothing to act on."""


class KeyPassed(Message, bubble=True, verbose=True):
    """Posted behind a key: once it comes to the application, all on its way are done with the key."""

    def __init__(self, round: int) -> None:
        super().__init__()
        self.round = round


class KeyOrder(App[int]):
    """An application that gives a key on once the one before it is done and the screen that it opened is there.

    Textual gives each key at once to what has the focus then: one that is typed within milliseconds behind a key that
    opens a screen would go to the screen before, or to one that has nothing yet that could take it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held_down: set[str] = set()
        """Keys that move what is selected and open nothing: they are done once they passed the focus."""
        self._typed: deque[events.Key | events.Paste] = deque()
        self._round = ROUNDS
        self._followed: Widget | None = None
        self._given_at = 0.0
        self._looks = False
        self._coming = 0

    def turn_of(self, key: str) -> Turn:
        """When a key may be given to the screen in front, which is there."""
        del key
        return "now"

    def refused(self, key: str) -> None:
        """Told of a key whose turn never comes."""

    def when_drawn(self, does: Callable[[], None]) -> None:
        """Does what belongs to a key once the screen that it opened is drawn; other keys wait for that."""

        def done() -> None:
            self._coming -= 1
            does()

        self._coming += 1
        self.call_after_refresh(done)

    async def on_event(self, event: events.Event) -> None:
        """Keys, and what is pasted, are given on in turn; while the application ends there is nobody to take them."""
        typed = isinstance(event, events.Key | events.Paste)
        if isinstance(event, events.Key) and event.key == INTERRUPT:
            # Whoever interrupts does not want what was typed before it any more.
            self._typed.clear()
            self._given_at = 0.0
        if typed and not event.is_forwarded:
            self._typed.append(event)
            await self._give()
        elif not typed or self.screen_stack:
            await super().on_event(event)

    async def on_key_passed(self, passed: KeyPassed) -> None:
        """All that was posted before it is done; what that posted itself is behind it."""
        if passed.round == self._round:
            self._round += 1
            self._follow()
            await self._give()

    async def _give(self) -> None:
        while self._typed and self.screen_stack:
            key = event.key if isinstance(event := self._typed[0], events.Key) else ""
            turn = "later" if self._is_busy() else self.turn_of(key)
            if turn == "later":
                self._look_again()
                return
            self._typed.popleft()
            if turn == "never":
                self.refused(key)
                continue
            await super().on_event(event)
            self._round, self._given_at = ROUNDS - (1 if key in self.held_down else ROUNDS), time.monotonic()
            self._follow()

    def _is_busy(self) -> bool:
        """Whether the key before is still at work; one that never ends is not waited for."""
        if time.monotonic() - self._given_at > GIVEN_UP_S:
            return False
        return self._round < ROUNDS or self._coming > 0 or not self.screen.is_mounted

    def _follow(self) -> None:
        """Sends behind the key what tells when it is done."""
        if self._round < ROUNDS and (focus := self._focus()) is not None:
            self._followed = focus
            focus.post_message(KeyPassed(self._round))

    def _focus(self) -> Widget | None:
        """What takes a key; None while the application ends."""
        return (self.focused or self.screen) if self.screen_stack else None

    def _look_again(self) -> None:
        if not self._looks:
            self._looks = True
            self.set_timer(LOOK_S, self._look)

    async def _look(self) -> None:
        self._looks = False
        if self._followed is not self._focus():
            # What followed the key went with the screen that it closed.
            self._follow()
        await self._give()
