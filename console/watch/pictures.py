"""Pictures of the console for the README: its own screens on a real store, drawn from what it would write.

`python -m console.watch.pictures STORE FOLDER [SCREEN ...]` makes them again; it needs Pillow (the `test` extra).
Braille and blocks are drawn as shapes, so that no font has to have them.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from collector.errors import UserError
from console.watch.app import WatchApp
from console.watch.opened import opened_app
from console.watch.options import Options
from console.watch.raster import drawn

SIZE = (120, 36)
PICTURES: dict[str, tuple[str, ...]] = {
    "signals": (),
    "traffic": ("2",),
    "adapters": ("3",),
    "alerts": ("4",),
    "trajectories": ("5",),
    "token": ("5", "enter", "enter"),
    "credit": ("enter",),
    "logs": ("6",),
}
"""Picture to the keys that lead to it from the first screen."""
NEWEST = "-0s"
"""In replay at the newest record: a store that is not written any more would be shown dim."""
WAIT_S = 90.0
"""Longest wait for a screen to be filled."""
QUIET_S = 12.0
"""How long its view must be the same: tokens are read behind it."""


async def picture(options: Options, keys: Sequence[str], path: Path) -> None:
    """Opens the store, presses the keys, and draws what is then on the screen."""
    app = opened_app(options)
    async with app.run_test(size=SIZE) as pilot:
        await _filled(app)
        for key in keys:
            await pilot.press(key)
            await _filled(app)
        rows = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        drawn([[*row] for row in rows], app.size.width).save(path, optimize=True)


async def _filled(app: WatchApp) -> None:
    """Waits until the screen in front shows a view that has not changed for a while."""
    seen, since, last = None, time.monotonic(), time.monotonic() + WAIT_S
    while time.monotonic() < last:
        await asyncio.sleep(0.2)
        front = app.front()
        view = None if front is None else front.view
        if view is None or view is not seen:
            seen, since = view, time.monotonic()
        elif time.monotonic() - since > QUIET_S:
            return
    raise UserError(f"no view within {WAIT_S:.0f} s; is it a store with records?")


def main(words: Sequence[str]) -> int:
    """Makes the pictures."""
    parser = argparse.ArgumentParser(prog="python -m console.watch.pictures", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("screens", nargs="*", metavar="SCREEN", help=f"of {', '.join(PICTURES)} (all)")
    given = parser.parse_args(words)
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.screens or PICTURES:
        path = given.folder / f"watch-{name}.png"
        asyncio.run(picture(Options(path=given.store, at=NEWEST), PICTURES[name], path))
        print(path)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        sys.exit(f"pictures: {error}")
