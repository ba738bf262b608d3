"""The engine's load in Prometheus' text format, under SGLang's names where SGLang has one."""

from typing import NamedTuple

from collector.engine.wire import ModelInfo
from trainer.engine.load import Load


class Metric(NamedTuple):
    """One sample with its description."""

    name: str
    kind: str
    text: str
    value: float


def metrics_of(load: Load) -> list[Metric]:
    """Every metric of the engine."""
    seen = load.prompt_tokens_total
    return [
        Metric("num_running_reqs", "gauge", "Requests being computed.", load.running),
        Metric("num_queue_reqs", "gauge", "Requests that wait.", load.waiting),
        Metric("num_paused_reqs", "gauge", "Requests stopped by a pause.", load.running if load.paused else 0),
        Metric("num_used_tokens", "gauge", "Tokens of running requests.", load.live_tokens),
        Metric("kv_used_tokens", "gauge", "Tokens of running requests.", load.live_tokens),
        Metric("kv_evictable_tokens", "gauge", "Tokens of the prefix cache.", load.cached_tokens),
        Metric("kv_available_tokens", "gauge", "Tokens free.", load.kv_tokens - load.live_tokens - load.cached_tokens),
        Metric("max_total_num_tokens", "gauge", "Tokens that fit.", load.kv_tokens),
        Metric("token_usage", "gauge", "Share of tokens that running requests use.", load.live_tokens / load.kv_tokens),
        Metric("cache_hit_rate", "gauge", "Prompt tokens taken from the cache, share.", _share(load, seen)),
        Metric("gen_throughput", "gauge", "Sampled tokens a second, last seconds.", load.tokens_per_second),
        Metric("lora_pool_slots_used", "gauge", "Loaded adapters.", load.adapters),
        Metric("lora_pool_slots_total", "gauge", "Adapters that may be loaded.", load.adapter_slots),
        Metric("num_requests_total", "counter", "Requests taken in.", load.requests_total),
        Metric("num_aborted_requests_total", "counter", "Requests aborted.", load.aborted_total),
        Metric("num_retracted_requests_total", "counter", "Requests computed again.", load.retracted_total),
        Metric("prompt_tokens_total", "counter", "Prompt tokens admitted.", seen),
        Metric("cached_tokens_total", "counter", "Prompt tokens from the cache.", load.cached_prompt_tokens_total),
        Metric("generation_tokens_total", "counter", "Tokens sampled.", load.generated_tokens_total),
    ]


def prometheus_text(load: Load, info: ModelInfo) -> str:
    """The exposition that a scraper reads."""
    label = f'model_name="{_escaped(info.served_model_name or info.model_path)}"'
    lines: list[str] = []
    for metric in metrics_of(load):
        name = f"sglang:{metric.name}"
        lines += [f"# HELP {name} {metric.text}", f"# TYPE {name} {metric.kind}", f"{name}{{{label}}} {metric.value}"]
    return "\n".join(lines) + "\n"


def _share(load: Load, seen: int) -> float:
    return load.cached_prompt_tokens_total / seen if seen else 0.0


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
