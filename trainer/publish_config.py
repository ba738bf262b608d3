"""The `[trainer.publish]` section of roundhouse.toml. Imports no torch."""

from typing import Annotated

import msgspec

from trainer.engine_config import Dtype

Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class PublishConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.publish]`: how a version gets onto the engines, and how it is proved to be the one they serve."""

    enough: Positive | None = None
    """Workers that must have loaded a version before the cycle goes on; None is all of them."""
    slots: Positive | None = None
    """Adapters that a worker may hold: live, candidate and draining ones. None asks the worker."""
    load_limit_s: Seconds = 60.0
    """Longest wait for a worker to load an adapter."""
    straggler_s: Seconds = 2.0
    """How long the other workers are waited for once enough have loaded."""
    prove_limit_s: Seconds = 30.0
    """Longest wait for each round of a proof on one worker."""
    unload_limit_s: Seconds = 60.0
    """Longest wait for an unload, which waits for the replies under way; a worker that takes longer is left behind."""
    sample_limit_s: Seconds = 600.0
    """Longest wait for one sampled reply."""
    acknowledge_limit_s: Seconds = 5.0
    """Longest wait for the collectors to act on new routes; one that does not by then is named as dead."""
    settle_s: Annotated[float, msgspec.Meta(ge=0)] = 0.5
    """Wait after the collectors' acknowledgement for calls that they had already sent."""
    passages: Positive = 3
    """Stretches of stored contexts that a proof scores and continues."""
    window_tokens: Annotated[int, msgspec.Meta(ge=8)] = 32
    """Tokens of a stretch."""
    probe_tokens: Annotated[int, msgspec.Meta(ge=12)] = 18
    """Tokens compared: those on which new, previous and base version differ most."""
    decode_tokens: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Tokens sampled after each stretch, on its cached prefix; at least 12 in all decide anything."""
    decode_temperature: Annotated[float, msgspec.Meta(ge=0.1, le=2.0)] = 0.8
    """What they are sampled at; other than 1, so that an engine that reports unscaled log-probabilities is noticed."""
    needs_cache: bool = True
    """Whether sampling must have used a cached prefix. Off for engines that run without a prefix cache, or with pages
    longer than a stretch."""
    engine_dtype: Dtype | None = None
    """The coarsest precision of the engines and the trainer: sets the noise that is expected between them. None takes
    what the engines say of themselves."""
    prune: bool = True
    """Whether a cycle ends with deleting the files of retired and rejected versions that nothing refers to any more:
    no trainable turn, no version trained from them, no engine, no gate. Off keeps every checkpoint."""
    keep_retired: Annotated[int, msgspec.Meta(ge=0)] = 2
    """Newest retired versions of an adapter whose files stay for a rollback."""
    keep_s: Annotated[float, msgspec.Meta(ge=0)] = 86400.0
    """How long the files of a retired or rejected version stay in any case."""
