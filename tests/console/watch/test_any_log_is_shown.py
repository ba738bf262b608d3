"""Every screen takes any log that the records allow, as text and as JSON that its own type reads again."""

from pathlib import Path

import msgspec
import pytest

from console.watch.opened import open_source
from console.watch.options import SCREENS, Options
from console.watch.print_progress import PrintProgress
from console.watch.printed import PLACED, Place, ask_of, lines_of, whole
from console.watch.topics import topics
from tests.checks.any_log import AnyLog


@pytest.mark.parametrize("seed", range(1, 9))
def test_every_screen_is_printed(tmp_path: Path, seed: int) -> None:
    frames = AnyLog(seed).frames()
    for name, frame in frames.items():
        # Scorings after the first stand in a table of their own in Parquet.
        frame.drop("more_scores", strict=False).write_parquet(tmp_path / f"{name}.parquet")
    options = Options(path=tmp_path)
    named = frames["turns"].select("session_id", "turn").unique(maintain_order=True).head(4).rows()
    source = open_source(options)
    try:
        with (tmp_path / "progress").open("w") as quiet, PrintProgress(quiet) as progress:
            held = whole(source, True, progress)
        made = topics(options)
        for screen in SCREENS:
            places = [Place(session=session, turn=turn) for session, turn in named] if screen in PLACED else [Place()]
            for place in places:
                view = made[screen].build(held, ask_of(screen, place, options, 50), source.log)
                assert lines_of(screen, view, 100)
                assert type(msgspec.json.decode(msgspec.json.encode(view), type=type(view))) is type(view)
    finally:
        source.close()
