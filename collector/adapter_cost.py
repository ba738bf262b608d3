"""Tokens by adapter, and what they cost at the configured prices."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector as PrometheusCollector

from collector.config import PriceConfig
from collector.records import Turn

BASE = "(base)"
"""Stands for the base model where there is no adapter; no adapter can be named so."""
_PER = 1_000_000


class AdapterCost(PrometheusCollector):
    """Counts since the start of this collector; the store's view `costs` has the whole history."""

    def __init__(self, prices: PriceConfig, registry: CollectorRegistry) -> None:
        self._prices = prices
        self._tokens: dict[tuple[str, str], int] = {}
        registry.register(self)

    def add(self, turn: Turn) -> None:
        """Counts a turn that something was sampled for. Prompt tokens that the engine does not say it took from its
        cache count as computed."""
        if not turn.completion_ids:
            return
        cached = turn.cached_tokens or 0
        counts = {"prompt": len(turn.prompt_ids) - cached, "cached": cached, "completion": len(turn.completion_ids)}
        for kind, count in counts.items():
            key = (turn.adapter or BASE, kind)
            self._tokens[key] = self._tokens.get(key, 0) + count

    def collect(self) -> Iterator[Metric]:
        """The tokens of every adapter, and their cost where the kind has a price."""
        tokens = CounterMetricFamily(
            "roundhouse_adapter_tokens", "Tokens by adapter and kind: prompt (computed), cached, completion.",
            labels=["adapter", "kind"],
        )  # fmt: skip
        cost = CounterMetricFamily(
            "roundhouse_adapter_cost", "Cost by adapter and kind, at [collector.prices]; absent without a price.",
            labels=["adapter", "kind"],
        )  # fmt: skip
        for (adapter, kind), count in sorted(self._tokens.items()):
            tokens.add_metric([adapter, kind], count)
            price: float | None = getattr(self._prices, kind)
            if price is not None:
                cost.add_metric([adapter, kind], count * price / _PER)
        yield tokens
        yield cost
