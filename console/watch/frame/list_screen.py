"""A screen around one long table, of which only the rows in sight are asked for."""

from collections.abc import Sequence

from console.watch.frame.reflow import Form
from console.watch.frame.watch_screen import WatchScreen
from console.watch.widgets.table import WindowedTable


class ListScreen(WatchScreen):
    """Its table says which rows it wants; owners send the window with what they ask."""

    def __init__(self, *, first: int = 0, count: int = 60) -> None:
        """The rows wanted before the table knows its height."""
        super().__init__()
        self._window = (first, count)

    def resized(self, form: Form) -> None:
        """Other columns fit."""
        del form
        if self.view is not None:
            self.show(self.view)

    def go_on(self, table: WindowedTable, places: Sequence[int], by: int) -> bool:
        """To the nearest of some rows further down or up; False where there is none."""
        further = [place for place in places if (place - table.cursor) * by > 0]
        if further:
            table.move_to((min if by > 0 else max)(further))
        return bool(further)

    def on_windowed_table_window_wanted(self, event: WindowedTable.WindowWanted) -> None:
        """Other rows are in sight."""
        event.stop()
        self._window = (event.first, event.count)
        self.asked()
