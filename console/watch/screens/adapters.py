"""The Adapters screen: what is live, what waits, what the gate said; and, with --rw, the trainer's own actions."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from console.watch.frame.filter import Fields
from console.watch.frame.keys import guarded
from console.watch.frame.reflow import Form
from console.watch.frame.row import Part, Row
from console.watch.frame.watch_screen import WatchScreen
from console.watch.plain.adapters import cycle_outcome
from console.watch.screens.adapter_rows import (
    COLUMNS,
    audit_rows,
    columns_for,
    cycle_parts,
    detail_rows,
    table_row,
    timeline_rows,
    wrapped,
)
from console.watch.topic import Ask, View
from console.watch.views.adapter_actions import Action, Offer
from console.watch.views.adapter_list import FIELDS, SORTS
from console.watch.views.adapters import AdaptersView
from console.watch.widgets.table import WindowedTable
from console.watch.widgets.text_rows import TextRows

if TYPE_CHECKING:
    from console.watch.screens.adapter_dialog import AdapterDialog

_KEYS: dict[str, tuple[Action, ...]] = {
    "adapters.promote": ("promote",),
    "adapters.override": ("override",),
    "adapters.canary": ("canary",),
    "adapters.reject": ("reject",),
    "adapters.rollback": ("rollback",),
    "adapters.hold": ("hold", "release"),
}
"""Key to the actions that it does; the first that is possible."""


_ACTS = [guarded(key, f"act({key!r})", first=True) for key in _KEYS]


class AdaptersScreen(WatchScreen):
    """Every adapter, one of them in full."""

    TOPIC = "adapters"
    TITLE = "Adapters"
    HINTS = (*_KEYS, "frame.filter", "list.sort", "list.wide", "frame.copy", "frame.export")
    AUTO_FOCUS = "#adapters"
    FIELDS: ClassVar[Fields | None] = FIELDS
    ROWS_BY: ClassVar[tuple[str, ...]] = ("adapter", "filter", "sort", "descending", "selected")
    BINDINGS: ClassVar[list[BindingType]] = [
        guarded("list.sort", "sort"),
        guarded("list.order", "order"),
        *_ACTS,
    ]
    DEFAULT_CSS = """
    AdaptersScreen #adapters { height: auto; max-height: 12; min-height: 3; }
    AdaptersScreen #left { width: 1fr; }
    AdaptersScreen #detail { width: 42; height: 1fr; padding-left: 1; }
    AdaptersScreen.-wide #detail { width: 84; }
    AdaptersScreen #timeline { height: 5; }
    AdaptersScreen #audit { height: 1fr; min-height: 2; }
    AdaptersScreen.-normal #panes, AdaptersScreen.-small #panes { layout: vertical; }
    AdaptersScreen.-normal #left, AdaptersScreen.-small #left { height: auto; width: 1fr; }
    AdaptersScreen.-normal #adapters, AdaptersScreen.-small #adapters { max-height: 9; }
    AdaptersScreen.-normal #detail, AdaptersScreen.-small #detail { width: 1fr; height: 1fr; padding-left: 0; }
    AdaptersScreen.-normal #timeline { height: 3; }
    AdaptersScreen.-normal #audit { height: 2; }
    AdaptersScreen.-small #timeline, AdaptersScreen.-small #audit { display: none; }
    """

    def __init__(self, adapter: str | None = None) -> None:
        super().__init__()
        self._selected = adapter
        self._dialog: AdapterDialog | None = None
        self._sort = 0
        self._descending = False

    def compose_body(self) -> Iterable[Widget]:
        """Table and timeline at the left, one adapter at the right, or below where there is little room."""
        yield Row(id="cycle")
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield WindowedTable(COLUMNS, self.palette, id="adapters")
                yield TextRows(id="timeline")
                yield TextRows(id="audit")
            yield TextRows(id="detail")

    def ask(self) -> Ask:
        """The adapter that the cursor stands on."""
        chosen = self._selected or self.frame.adapter
        return Ask(
            adapter=self.frame.adapter,
            selected=() if chosen is None else (chosen,),
            filter=self.filter_text,
            sort=SORTS[self._sort],
            descending=self._descending,
        )

    def keep_place(self) -> None:
        """The adapter."""
        view, at = self.view, self.query_one("#adapters", WindowedTable).cursor
        if isinstance(view, AdaptersView) and at < len(view.adapters):
            self._selected = view.adapters[at].adapter

    def show(self, view: View) -> None:
        """Draws it."""
        assert isinstance(view, AdaptersView)
        table = self.query_one("#adapters", WindowedTable)
        table.set_columns(columns_for(self.app.size.width))
        table.set_total(len(view.adapters))
        table.set_rows(0, [table_row(line, view.at, self.palette) for line in view.adapters])
        table.styles.height = len(view.adapters) + 1
        names = [line.adapter for line in view.adapters]
        if view.selected is not None and view.selected.line.adapter != self._selected:
            # The view's own where there is none of that name, else the one that the cursor went to meanwhile.
            self._selected = self._selected if self._selected in names else view.selected.line.adapter
            self.asked()
        if self._selected in names:
            table.move_to(names.index(self._selected))
        self.query_one("#cycle", Row).set(cycle_parts(view.cycle, self.palette))
        self._panes(view)
        self._void_dialog(view)

    def _void_dialog(self, view: AdaptersView) -> None:
        """A dialog that is open is void when another version has become live meanwhile."""
        dialog = self._dialog
        line = next((each for each in view.adapters if dialog is not None and each.adapter == dialog.adapter), None)
        if dialog is not None and (line is None or line.live != dialog.live):
            dialog.void(f"the live version is v{line.live} now" if line is not None else "the adapter is gone")

    def _panes(self, view: AdaptersView) -> None:
        detail, palette = view.selected, self.palette
        timeline = self.query_one("#timeline", TextRows)
        width = timeline.size.width or 80
        rows = [] if detail is None else list(timeline_rows(detail, width, palette))
        timeline.set(rows)
        none = "no adapter meets the filter" if view.total else "no adapters yet; roundhouse adapters add makes one"
        shown = [[Part(palette.said(none))]]
        pane = self.query_one("#detail", TextRows)
        told = shown if detail is None else detail_rows(view, detail, palette)
        pane.set(list(wrapped(told, (pane.size.width or 80) - 2)))
        self.query_one("#audit", TextRows).set(list(audit_rows(view, palette)))

    def on_windowed_table_row_highlighted(self, message: WindowedTable.RowHighlighted) -> None:
        """Another adapter is shown in full."""
        view = self.view
        if isinstance(view, AdaptersView) and message.row < len(view.adapters):
            chosen = view.adapters[message.row].adapter
            if chosen != self._selected:
                self._selected = chosen
                self.asked()

    def on_windowed_table_row_selected(self, message: WindowedTable.RowSelected) -> None:
        """The adapter's sessions."""
        view = self.view
        if isinstance(view, AdaptersView) and message.row < len(view.adapters):
            self.open("trajectories", filter=f"adapter:{view.adapters[message.row].adapter}")

    def resized(self, form: Form) -> None:
        """The timeline has another width, and so has the pane of a wide terminal."""
        del form
        self.set_class(self.app.size.width >= 200, "-wide")
        if isinstance(self.view, AdaptersView):
            self.call_after_refresh(self.show, self.view)

    def sentence(self, view: View) -> str:
        """Why the selected adapter waits, or the cycle."""
        assert isinstance(view, AdaptersView)
        line = None if view.selected is None else view.selected.line
        if self.filter_text:
            return f"/{self.filter_text}: {len(view.adapters)} of {view.total}"
        if line is not None and line.reason is not None:
            return f"{line.adapter} {line.state.upper()}: {line.reason}"
        return "" if view.cycle is None else cycle_outcome(view.cycle)

    def crumb(self) -> str:
        """The screen and the adapter."""
        return f"adapters › {self._selected}" if self._selected else "adapters"

    def copied(self) -> str:
        """The engine's name of the live version."""
        view = self.view
        if not isinstance(view, AdaptersView) or view.selected is None:
            return ""
        return f"{view.selected.line.adapter}@{view.selected.line.live}"

    def copies(self) -> Sequence[tuple[str, str]]:
        """The name, the sha256 of each version, the pane as text."""
        view = self.view
        if not isinstance(view, AdaptersView) or view.selected is None:
            return []
        shas = [(f"sha256 of v{each.version}", each.sha256) for each in view.selected.versions if each.sha256]
        return [("live version", self.copied()), *shas, ("pane", self.query_one("#detail", TextRows).text)]

    def exported(self, view: View) -> Sequence[object]:
        """The versions of the adapter shown."""
        assert isinstance(view, AdaptersView)
        return () if view.selected is None else view.selected.versions

    def off(self, key: str) -> str | None:
        """An action is off without --rw, in a replay, and where the trainer's rules refuse it."""
        if key not in _KEYS:
            return super().off(key)
        if self.frame.acting is None:
            return "the console is read-only; start it with --rw"
        if (state := self.frame.facts().status.state) not in ("live", "stale"):
            return f"the screen shows a {state.replace('_', ' ')} state; L goes back to live"
        offer = self._offer(key)
        return "no adapter is selected" if offer is None else offer.refused

    def _offer(self, key: str) -> Offer | None:
        view = self.view
        if not isinstance(view, AdaptersView) or view.selected is None:
            return None
        found = [each for each in view.selected.offers if each.action in _KEYS[key]]
        return next((each for each in found if each.refused is None), found[0])

    def action_sort(self) -> None:
        """By the next column."""
        self._sort = (self._sort + 1) % len(SORTS)
        self._descending = self._sort > 0
        self.say(f"sorted by {SORTS[self._sort]}" if self._sort else "as the registry has them")
        self.asked()

    def action_order(self) -> None:
        """The other way round."""
        self._descending = not self._descending
        self.asked()

    def action_act(self, key: str) -> None:
        """Opens the dialog of an action."""
        offer, view, acting = self._offer(key), self.view, self.frame.acting
        if offer is None or acting is None or not isinstance(view, AdaptersView) or view.selected is None:
            return
        # What carries out an order is loaded for the first one: the engine's client alone takes 0.15 s.
        from console.watch.screens.adapter_dialog import AdapterDialog

        self._dialog = AdapterDialog(
            offer,
            view.selected,
            view.selected.effects[offer.action],
            revision=view.revision,
            acting=acting,
            palette=self.palette,
        )
        self.app.push_screen(self._dialog, self._acted)

    def _acted(self, said: str | None) -> None:
        self._dialog = None
        if said:
            self.say(said)
        self.asked()
