"""What `roundhouse watch` was asked for."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from console.watch.widgets.palette import Color

SCREENS = (
    "signals",
    "traffic",
    "adapters",
    "alerts",
    "trajectories",
    "logs",
    "turn",
    "token",
    "prefix_diff",
    "retok_diff",
)
"""What --plain and --json can print; the first six are the tabs."""


class Options(NamedTuple):
    """Everything that the command line says, checked."""

    path: Path
    rw: bool = False
    at: str | None = None
    """As it was typed; what it means is known once something was read."""
    adapter: str | None = None
    interval_s: float = 0.25
    window_s: float | None = None
    window_turns: int | None = None
    reads: str | None = None
    tokenizer: Path | None = None
    config: Path | None = None
    color: "Color" = "truecolor"
    ascii: bool = False
    mouse: bool = True
    keymap: Path | None = None
