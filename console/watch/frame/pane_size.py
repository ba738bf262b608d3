"""How much of the screen one pane has: what the layout gives it, half, or all."""

from collections.abc import Callable

from textual.screen import Screen
from textual.widget import Widget

from console.watch.frame.reflow import Form, form_of

NORMAL, HALF, FULL = 0, 1, 2
GONE = "-pane-gone"
"""Marks a pane that stands back for another."""
CSS = """
    .-pane-half { min-height: 50%; min-width: 50%; max-height: 100%; }
    .-pane-full { height: 1fr; width: 1fr; max-height: 100%; }
    .-pane-gone { display: none; }
"""
"""For the application: it goes before what a screen says of its own panes."""


class PaneSize:
    """The panes of one screen's body."""

    def __init__(self, screen: Screen[None], resized: Callable[[Form], None]) -> None:
        """`resized` is told when the panes have another size."""
        self._screen = screen
        self._resized = resized
        self._size = NORMAL

    def grow(self, pane: Widget | None, by: int) -> None:
        """More room for a pane, or less."""
        self._size = max(NORMAL, min(self._size + by, FULL))
        if pane is not None:
            self._give(pane)

    def focus(self, by: int) -> None:
        """The next pane has the focus, and the room."""
        panes = [each for each in self._body.walk_children(Widget) if each.can_focus and self._is_laid_out(each)]
        if not panes:
            return
        focused = self._screen.focused
        pane = panes[(panes.index(focused) + by if focused in panes else 0) % len(panes)]
        if self._size == NORMAL:
            pane.focus()
        else:
            self._give(pane)
            self._screen.call_after_refresh(pane.focus)

    @property
    def _body(self) -> Widget:
        return self._screen.query_one("#body")

    def _is_laid_out(self, pane: Widget) -> bool:
        """Whether this layout shows it, or would if no other pane had all the room."""
        around = [node for node in (pane, *pane.ancestors) if isinstance(node, Widget)]
        return all(node.display or node.has_class(GONE) for node in around)

    def _give(self, pane: Widget) -> None:
        for widget in self._body.walk_children(Widget):
            around = widget is pane or widget in pane.ancestors or pane in widget.ancestors
            widget.set_class(self._size == HALF and widget is pane, "-pane-half")
            widget.set_class(self._size == FULL and around, "-pane-full")
            widget.set_class(self._size == FULL and not around, GONE)
        self._screen.call_after_refresh(self._resized, form_of(*self._screen.app.size))
