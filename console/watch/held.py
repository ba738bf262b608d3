"""Everything the views draw from, as of one moment; frames without the long columns."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import polars as pl

from checks.columns import SCHEMAS, TIME
from checks.token_signals import SCHEMA as TOKEN_SIGNALS
from console.watch.log_part import LogPart

if TYPE_CHECKING:
    from collector.records import Audit
    from collector.store.registry_rows import RegistrySnapshot
    from console.watch.trained_then import TrainedThen

LONG = (
    "prompt_ids",
    "completion_ids",
    "sampled_logprobs",
    "weight_versions",
    "logit_bias",
    "loss_mask",
    "request",
    "response",
    "prompt_text",
    "completion_text",
    "trainer_logprobs",
    "sampling_version_logprobs",
    "entropies",
    "reference_logprobs",
    "advantages",
    "more_scores",
)
"""Columns of turns that are never held: single sessions are read for them."""
UNSHOWN = (
    "client",
    "logprob_mode",
    "temperature",
    "top_p",
    "stated_completion_tokens",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "constraint",
    "max_tokens",
    "stated_prompt_tokens",
    "routed_experts_tokens",
    "parsed_ok",
    "place",
)
"""Columns of turns that no list and no number of the console is made of; what is shown of one turn is read for it."""
KEYS: dict[str, type[pl.DataType]] = {"writer": pl.String, "seq": pl.Int64}
"""What a store adds to every row; null in a log."""


def _turns() -> dict[str, pl.DataType | type[pl.DataType]]:
    narrow = {name: dtype for name, dtype in SCHEMAS["turns"].items() if name not in (*LONG, *UNSHOWN)}
    recorded = dict.fromkeys(("link", "break_kind"), pl.String)
    return {**narrow, **recorded, "prompt_tokens": pl.Int64, "completion_tokens": pl.Int64, **KEYS}


TABLES: Mapping[str, Mapping[str, pl.DataType | type[pl.DataType]]] = {
    "turns": _turns(),
    "rewards": {**SCHEMAS["rewards"], "parts": pl.String, "mapping_sha256": pl.String, **KEYS},
    "feedback": {**SCHEMAS["feedback"], "tenant": pl.String, "text": pl.String, "source": pl.String, **KEYS},
    "steps": {**SCHEMAS["steps"], **KEYS},
    "spans": {**SCHEMAS["spans"], **KEYS},
    "evals": {**SCHEMAS["evals"], "written_at": TIME, **KEYS},
    "events": {**SCHEMAS["events"], "actor": pl.String, **KEYS},
    "runs": {**SCHEMAS["runs"], "batch": pl.String, "versions": pl.String, **KEYS},
    "versions": SCHEMAS["versions"],
}
"""Table to column to type of the frames of `Held`: what the record and what the checks know of, less the long ones.

`turns.trainer_step` and `trainer_version` are those of the turn's first score. JSON values are JSON text.
`evals.written_at` is a time by which it was surely written: of the next record of its writer that has one.
"""


def empty(table: str) -> pl.DataFrame:
    """A table without rows."""
    return pl.DataFrame(schema=dict(TABLES[table]))


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was read from."""

    path: str
    format: str
    """`store`, or the log's format."""
    window: str | None = None
    """The part of it that was read, in words; None for all of it."""
    part: LogPart | None = None
    """What a log is shown by until it was read; None once it was, and for a store."""


class Tokens(NamedTuple):
    """What the tokens themselves tell, as far as they were read."""

    signals: pl.DataFrame = pl.DataFrame(schema=TOKEN_SIGNALS)
    """What `checks.token_signals` gives: adapter, step, max_w, min_w, kl_mu_old, ess, staleness_mean, entropy,
    entropy_sampled_estimate."""
    share: float | None = None
    """How much of the turns it has seen; None where no token was read yet, 1 when it is what `check` would say."""
    weights: pl.DataFrame = pl.DataFrame()
    """What the measure `importance_weights` gives: parts `cells`, `turns` (farthest first), `causes`, `bad`, to be
    taken with `checks.measures.parts.part`; no column where no token was read."""
    lags: pl.DataFrame = pl.DataFrame()
    """What the measure `token_lags` gives, in parts; no column where no token was read."""
    entropies: pl.DataFrame = pl.DataFrame()
    """What the measure `entropies` gives, in parts; no column where no token was read."""
    error: str | None = None
    """Why they are not read, in one line."""
    breaks: pl.DataFrame | None = None
    """Of a log: what the measure `prefix_breaks` gives. None for a store: there `link` and `break_kind` say it."""
    drift: pl.DataFrame | None = None
    """Of a log, with a tokenizer: what the measure `round_trip` gives."""


class Held(NamedTuple):
    """What was read, as of one moment. Nobody changes it; the next one is another."""

    turns: pl.DataFrame
    rewards: pl.DataFrame
    feedback: pl.DataFrame
    steps: pl.DataFrame
    spans: pl.DataFrame
    evals: pl.DataFrame
    events: pl.DataFrame
    runs: pl.DataFrame
    versions: pl.DataFrame
    """As the checks see them; `registry` has the whole records."""
    registry: "RegistrySnapshot | None"
    """None for a log."""
    audit: "tuple[Audit, ...]"
    """Every change of the registry, oldest first, read in the same transaction."""
    tokens: Tokens
    damage: tuple[str, ...]
    """What could not be read, a line each."""
    source: Origin
    read_at: datetime
    """When it was read."""
    newest_at: datetime | None
    """Time of the newest record; None where no record has a time. Of a store those that are ahead of this machine's
    clock do not count, unless there is no other."""
    revision: int
    """Another number for another content."""
    scores: int = 0
    """How many scores of a store were read: one may change nothing else, as one more of a turn does."""
    replayed_at: datetime | None = None
    """The time that it shows, where that is not the newest."""
    named: tuple[str, ...] | None = None
    """Every adapter that a record names, where an earlier time or a window is shown."""
    ahead_at: datetime | None = None
    """Of a store: the newest time, where that lies ahead of this machine's clock."""
    came_at: datetime | None = None
    """When a record of a store last came, by this machine's clock; None where none came since it was opened, and the
    records' own times tell what was before."""
    trained: "TrainedThen | None" = None
    """What training had made by that time."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no record at all."""
        tables = (self.turns, self.rewards, self.feedback, self.steps, self.spans, self.evals, self.events, self.runs)
        return all(frame.is_empty() for frame in tables) and not self.audit and self.versions.is_empty()

    def until(self, at: datetime) -> "Held":
        """The same as it stood at a time. What has no time, and nothing beside that tells it, is there, but for what
        training made: that is there only where it is known to have been."""
        from console.watch.replayed import held_until

        return held_until(self, at)
