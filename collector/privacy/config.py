"""`[collector.redaction]`, `[collector.opt_out]` and `[collector.retention]`."""

from typing import Annotated, Literal

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]


class RedactionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector.redaction]`: secrets are taken out of what is stored. A redacted turn is not trained on."""

    enabled: bool = False
    """Whether requests, replies and feedback are searched before they are stored. The first start on a machine takes
    some ten seconds longer, since the detector compiles its rules."""
    confidence: Literal["low", "medium", "high"] = "medium"
    """Rules of the detector that count: those of at least this confidence. Lower finds more, and more that is none."""
    rules: list[str] = []
    """Paths of rules of your own, in the detector's YAML or TOML, beside the bundled ones."""
    builtin_rules: bool = True
    """Whether the bundled rules count."""


class OptOutConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector.opt_out]`: whose turns are not trained on. A request opts out by `x-roundhouse-train: no`."""

    tenants: list[str] = []
    """Tenants none of whose turns are trained on, whatever their requests say."""
    keep: Literal["whole", "bare"] = "whole"
    """What is stored of such a turn: `whole` is all of it, `bare` leaves out texts, ids and log-probabilities."""


class RetentionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector.retention]`: when sessions of this collector expire. A session goes as a whole, with its
    feedback and events. Its scores and rewards go too, unless a trainer holds its journal at that moment: then those
    numbers stay."""

    max_age_days: Positive | None = None
    """Days after a session's last turn until it expires; never when not given."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Most bytes of journals and segments; beyond it the sessions that were idle for longest expire. Unlimited when
    not given."""
    interval_s: Positive = 3600.0
    """How often it is looked for what has expired."""
    idle_s: Annotated[float, msgspec.Meta(ge=0)] = 3600.0
    """A session that had a turn less than this ago never expires, however large the store is."""
