"""What the shades of tokens can tell, and the shade of each."""

import math

from console.watch.views.token import TokenRow, TokenView
from console.watch.views.token_words import heat_limit
from console.watch.widgets.palette import HEAT_STEPS, heat_step

MODES = ("log w", "mu", "pi_old", "entropy", "version", "mask")
"""In the order in which the key goes through them."""
SURPRISE = 8.0
"""Nats of improbability with the deepest shade."""
ENTROPY = 4.0
"""Nats of entropy with the deepest shade."""


def heat_of(view: TokenView, row: TokenRow, mode: str) -> int:
    """The shade of a token: 0 where it has no such number."""
    match mode:
        case "log w":
            if row.log_w is not None and not math.isfinite(row.log_w):
                return HEAT_STEPS
            return heat_step(row.log_w, heat_limit(view))
        case "mu":
            return heat_step(None if row.mu is None else -row.mu, SURPRISE)
        case "pi_old":
            return heat_step(None if row.pi_old is None else -row.pi_old, SURPRISE)
        case "entropy":
            return heat_step(row.entropy, ENTROPY)
        case "version":
            return _version(view, row)
        case _:
            return 0 if row.index is None else HEAT_STEPS if row.mask == 0 or not row.counted else 1


def _version(view: TokenView, row: TokenRow) -> int:
    """The oldest version of the turn is the hottest."""
    versions = sorted({each.version for each in view.segments if each.version is not None}, reverse=True)
    return min(HEAT_STEPS, versions.index(row.version)) if row.version in versions else 0
