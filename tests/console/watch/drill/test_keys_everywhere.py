"""The table of keys says of each where it works: there it is bound, and elsewhere it is not."""

from pathlib import Path

import pytest

from console.watch.frame.keys import BY_ID, EVERYWHERE, KEYS
from console.watch.frame.screen_list import SCREENS
from tests.console.watch.drill.test_export_everywhere import console_at

SHADOWED = {"adapters": {"move.left", "move.right"}, "token": {"move.first"}}
"""Bound by a pane, where one of the letters is another key of the screen: `h` holds, `g` goes to a token."""


@pytest.mark.parametrize("topic", SCREENS)
async def test_a_screen_binds_the_keys_that_are_said_to_work_there(topic: str, tmp_path: Path) -> None:
    async with console_at(topic, tmp_path / "store") as (app, _):
        panes = [pane for pane in app.screen.query("#body *") if pane.can_focus]
        bound = {each.id for node in (app, app.screen, *panes) for _, each in node._bindings}  # pyright: ignore[reportPrivateUsage]
    said = {key.id for key in KEYS if EVERYWHERE in key.places or topic in key.places}
    assert said - bound == set()
    assert {each for each in bound if each in BY_ID} - said == SHADOWED.get(topic, set())
