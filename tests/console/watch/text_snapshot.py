"""Screens as plain text files beside the tests; `REMAKE_SCREENS=1 pytest tests/console/watch` writes them anew."""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "screens" / "text"
SIZES = [(60, 15), (80, 24), (120, 36), (200, 60)]
"""One for each layout, and one for a wide terminal."""


def assert_as_before(name: str, text: str) -> None:
    """The text is that of the file, or becomes it."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("REMAKE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text + "\n", f"{path} is another; REMAKE_SCREENS=1 writes it anew"
