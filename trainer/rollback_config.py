"""When an adapter is rolled back without being asked: `[trainer.rollback]`. Imports no torch."""

from typing import Annotated

import msgspec


class RollbackConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.rollback]`: alerts that take an adapter back to its previous live version, and hold it."""

    on_alerts: tuple[str, ...] = ()
    """Names of alert rules, or of the checks they watch; empty is never."""
    after_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds that an alert has been firing before it does; one that is acknowledged or silenced meanwhile does not."""
