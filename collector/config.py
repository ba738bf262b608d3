"""The `[collector]` section of roundhouse.toml."""

from typing import Annotated, Literal

import msgspec

from collector.privacy.config import OptOutConfig, RedactionConfig, RetentionConfig

Price = Annotated[float, msgspec.Meta(ge=0)] | None


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector.store]`: how records reach the disk."""

    group_commit_rows: int = 256
    """Most records in one commit."""
    queue_rows: int = 4096
    """Records held in memory before writers are pushed back."""
    seal_rows: int = 20_000
    """Hot rows of a table that are sealed into a Parquet segment."""
    seal_bytes: int = 32 * 2**20
    """Hot bytes of a table that are sealed into a segment, however few rows they are."""
    prefix_cache_bytes: int = 128 * 2**20
    """Memory for the recent turns that new turns are stored against; a turn whose parent is not there is kept whole."""
    seal_interval_s: float = 60.0
    """Longest a row stays hot before it is sealed."""
    grace_s: float = 60.0
    """How long a replaced file stays for readers that still hold the list."""


class PriceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector.prices]`: per million tokens, in whatever currency; a kind without a price gives no cost, not 0."""

    prompt: Price = None
    """Price of a million prompt tokens that were computed, in whatever currency."""
    cached: Price = None
    """Price of a million prompt tokens taken from the engine's prefix cache."""
    completion: Price = None
    """Price of a million sampled tokens."""


class ExpertRoutesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector.expert_routes]`: which experts of a mixture each token went to, a file for each turn."""

    enabled: bool = False
    """Whether the engine is asked for them, and they are stored; SGLang returns them with
    `--enable-return-routed-experts`. They are some 90 times as large as ids and log-probabilities."""
    max_age_days: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Days until the files are deleted, while their turns stay; with their turns when not given."""


class CollectorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector]`: the HTTP collector between agents and an engine."""

    host: str = "127.0.0.1"
    """Address to listen on. Without keys only loopback is allowed."""
    port: int = 8000
    """Port to listen on; 0 takes a free one."""
    keys: dict[str, str] = {}
    """`[collector.keys]`: sha256 of an API key, in hex, to the tenant it belongs to. Empty is development mode."""
    writer: str = "collector"
    """Name of this collector's journal in the store."""
    model_name: str | None = None
    """Name clients use for the base model; the model folder's name when not given."""
    model_aliases: list[str] = []
    """Further names for the base model, for clients that insist on their own."""
    context_tokens: int | None = None
    """Most prompt and completion tokens of a turn; what the model folder says when not given."""
    default_max_tokens: int = 4096
    """Limit on sampled tokens for a request that gives none; never more than the context has room for."""
    renderer: str = "auto"
    """Who writes what follows a reply, and reads its tool calls: `auto` is the family that the model is proved to be
    of, else its template; `template` is the template alone; a family's name refuses to start where they differ."""
    history_reasoning: Literal["keep", "template"] = "keep"
    """Earlier thinking that only the template would drop: `keep` extends the sampled ids, `template` breaks."""
    logprob_mode: Literal["scaled", "raw", "truncated", "unknown"] = "scaled"
    """What the engine's log-probabilities are of; `raw` if SGLang runs with SGLANG_RETURN_ORIGINAL_LOGPROB=1."""
    on_store_failure: Literal["serve", "refuse"] = "serve"
    """While records cannot be stored: `serve` answers and counts what went unrecorded, `refuse` answers 503."""
    engines: tuple[str, ...] = ()
    """URLs of the engine workers. The collector samples from them and the trainer publishes to them, by the same names;
    `--engine` on the command line takes their place. Without any the trainer takes the address of `[engine]`."""
    engine_look_interval_s: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    """How often each worker is asked what it has loaded and how busy it is; below what a start takes. One that was
    started anew gets the live adapters loaded again, and their sessions once they are proved there."""
    engine_record_interval_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    """How often what each worker says of its load is recorded, as an event of kind `engine`."""
    engine_admin_key: str | None = None
    """Key for the engine's control endpoints."""
    engine_connect_timeout_s: float = 5.0
    """Longest wait for a connection to the engine."""
    engine_idle_timeout_s: float = 600.0
    """Longest silence of the engine within one reply; a paused engine is silent."""
    ping_interval_s: float = 8.0
    """Silence after which a streaming client is sent a comment, so that it does not give up."""
    drain_timeout_s: float = 30.0
    """Longest wait for running replies at shutdown; what then still runs is cut off and recorded as such."""
    max_request_bytes: int = 64 * 2**20
    """Largest request body."""
    request_idle_timeout_s: float = 60.0
    """Longest silence of a client within its request; 408 after it."""
    max_running: int = 1024
    """Most turns at once; more are answered 503 before generation starts."""
    template_time_limit_s: float = 5.0
    """Longest a chat template may run for one prompt."""
    template_output_limit_chars: int = 32_000_000
    """Most text a chat template may write for one prompt."""
    index_sessions: int = 10_000
    """Sessions kept in memory; others are read back from the store when they go on."""
    index_tokens: int = 50_000_000
    """Token ids kept in memory over all sessions, 4 bytes each."""
    prices: PriceConfig = PriceConfig()
    """`[collector.prices]`: what tokens cost, for the cost of each adapter."""
    store: StoreConfig = StoreConfig()
    """`[collector.store]`."""
    expert_routes: ExpertRoutesConfig = ExpertRoutesConfig()
    """`[collector.expert_routes]`: experts that tokens were routed to."""
    redaction: RedactionConfig = RedactionConfig()
    """`[collector.redaction]`: secrets are taken out of what is stored."""
    opt_out: OptOutConfig = OptOutConfig()
    """`[collector.opt_out]`: whose turns are not trained on."""
    retention: RetentionConfig = RetentionConfig()
    """`[collector.retention]`: when sessions expire."""
