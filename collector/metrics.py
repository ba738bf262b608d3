"""What the collector counts, in Prometheus' terms."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from collector.adapter_cost import AdapterCost
from collector.config import PriceConfig

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """The counters of one collector."""

    def __init__(self, prices: PriceConfig = PriceConfig()) -> None:  # noqa: B008  frozen
        self.registry = CollectorRegistry()
        self.costs = AdapterCost(prices, self.registry)
        self.turns = self._counter("turns", "Turns by wire shape and how they ended.", "api", "finish_reason")
        self.untrainable = self._counter("untrainable_turns", "Turns that cannot be trained on, by reason.", "reason")
        self.breaks = self._counter("prefix_breaks", "Turns that could not extend the turn they continue.", "kind")
        self.tokens = self._counter("tokens", "Tokens by kind: prompt, cached, completion.", "kind")
        self.refusals = self._counter("refusals", "Requests answered with an error, by status.", "status")
        self.unrecorded = self._counter("unrecorded", "Records that could not be stored, by table.", "table")
        self.feedback = self._counter("feedback", "Feedback stored, by kind.", "kind")
        self.route_failures = self._counter("registry_failures", "Looks at the registry that failed.")
        self.past_failures = self._counter("past_failures", "Reads of stored sessions at start that failed.")
        self.routes_stale = self._gauge("routes_stale", "1 while the registry cannot be followed.")
        self.running = self._gauge("running_turns", "Turns being served.")
        self.sessions = self._gauge("sessions_in_memory", "Sessions held in memory.")
        self.queued = self._gauge("journal_queued", "Records waiting to be durable.")
        self.store_failing = self._gauge("store_failing", "1 while records cannot be stored.")
        self.first_token = self._histogram("first_token_seconds", "From the request to the first sampled token.")
        self.preparation = self._histogram("preparation_seconds", "From the request to its dispatch to the engine.")
        self.durable = self._histogram("durable_seconds", "From the last token to the durable record.")

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"roundhouse_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"roundhouse_{name}", text, registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"roundhouse_{name}", text, buckets=_SECONDS, registry=self.registry)
