"""What was asked of the demo on the command line."""

from pathlib import Path
from typing import Literal, NamedTuple

Sabotage = Literal["reward"]


class Options(NamedTuple):
    """What was asked for on the command line."""

    store: Path
    turns: int | None
    """Turns after which it stops, without a cycle; None runs the loop."""
    minutes: float
    plain: bool
    model: Path | None
    seed: int
    sabotage: Sabotage | None
    """What is made to go wrong from the second cycle on: `reward` has the user say the opposite of what is true."""
