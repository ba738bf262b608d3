"""The `[engine]` section of roundhouse.toml. Imports no torch."""

from typing import Annotated, Literal

import msgspec

from trainer.small_model_config import SmallModelConfig

Positive = Annotated[int, msgspec.Meta(ge=1)]
Dtype = Literal["float32", "bfloat16", "float16"]


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[engine]`: what the embedded engine serves, and with how much memory and how many threads."""

    model: str = "smollm2-135m"
    """Folder of a Hugging Face causal language model; `smollm2-135m` is the small model that the quick start uses."""
    served_name: str | None = None
    """Name clients use; None is the `model` text."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 30000
    """Port to listen on; 0 picks a free one."""
    adapters: dict[str, str] = {}
    """Adapters to load at start-up: engine name to folder in peft's format."""
    device: str | None = None
    """Torch device of weights and cache; None is the CPU here, and whatever SGLang finds where SGLang is launched."""
    dtype: Dtype | None = None
    """Precision of weights and cache; None is float32 here, and the model's own where SGLang is launched. Here
    log-probabilities are computed in float32 in any case."""
    threads: Positive = 1
    """Torch threads; two on a busy two-core machine are 10 to 20 times slower than one."""
    max_context: Positive | None = None
    """Most tokens of prompt and completion together; None is the model's own limit."""
    kv_tokens: Positive | None = None
    """Tokens that live requests and the prefix cache hold together; None is what 1 GiB holds, at least one context."""
    max_running: Positive | None = None
    """Most requests computed in one step, the others queue; None is 16 here, and SGLang's own choice there."""
    prefill_chunk: Positive | None = None
    """Most prompt tokens computed in one step, so that a long prompt does not stop the other replies; None is 128 here,
    and SGLang's own choice there."""
    max_adapters: Positive = 16
    """Most adapters loaded at a time."""
    small_model: SmallModelConfig = SmallModelConfig()
    """`[engine.small_model]`: where the model `smollm2-135m` comes from."""
