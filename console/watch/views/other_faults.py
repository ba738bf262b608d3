"""Faults that no signal tells: turns that break their prefix, and turns whose ids do not come back."""

import msgspec

from console.watch.held import Held
from console.watch.trace.session_rows import break_rows, breaks_known, drift_rows


class OtherFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Of all sessions."""

    breaks: int | None = None
    """Turns whose prompt breaks with the turn before; None where that is not known."""
    drift: int | None = None
    """Turns with a completion that comes back as other ids; None where none was looked at."""


def other_faults(held: Held) -> OtherFaults:
    """As the list of trajectories counts them."""
    drift = held.tokens.drift
    looked = drift is not None and bool(drift["turns"].sum())
    return OtherFaults(
        breaks=break_rows(held).height if breaks_known(held) else None,
        drift=int(drift_rows(held)["retok"].sum()) if looked else None,
    )
