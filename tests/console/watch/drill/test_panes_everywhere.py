"""`Tab` on every screen at every size: the focus goes round the panes that are there, and to no other."""

from pathlib import Path

import pytest

from console.watch.frame.screen_list import SCREENS
from tests.console.watch.drill.test_export_everywhere import console_at


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 36), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("topic", SCREENS)
async def test_the_focus_stands_on_a_pane_that_is_drawn(topic: str, size: tuple[int, int], tmp_path: Path) -> None:
    async with console_at(topic, tmp_path / "store", size) as (app, pilot):
        for key in ("tab", "tab", "tab", "shift+tab", "tab", "tab"):
            await pilot.press(key)
            await pilot.pause(0.02)
            focused = app.focused
            if focused is not None:
                assert app.screen.find_widget(focused).visible_region.area > 0, focused
