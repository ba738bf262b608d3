"""What the engine workers say of themselves, in Prometheus' terms; what one does not say is absent, and never 0."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as PrometheusCollector

from collector.store.registry_rows import RegistrySnapshot
from collector.workers.engine_load import RANK_FIELDS, rank_load
from collector.workers.fleet import Fleet
from collector.workers.slots import Budget
from collector.workers.twins import twins


class WorkerMetrics(PrometheusCollector):
    """Read from the workers' newest looks when it is scraped."""

    def __init__(self, fleet: Fleet, registry: CollectorRegistry) -> None:
        self._fleet = fleet
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """One sample for each worker, or for each of its data-parallel ranks."""
        workers = self._fleet.workers
        yield _gauge(
            "worker_up", "1 while the engine worker answers.", {w.url: float(w.fault is None) for w in workers}
        )
        yield _gauge("worker_turns", "Turns of this collector at the worker.", {w.url: w.running for w in workers})
        yield _gauge(
            "worker_adapters", "Adapters it has loaded.", {w.url: len(w.loaded) for w in workers if w.looked.is_set()}
        )
        slots = {w.url: w.slots for w in workers if w.slots is not None}
        yield _gauge("worker_adapter_slots", "Adapters it can keep loaded.", slots)
        yield _counter("worker_lost", "How often it stopped answering.", {w.url: w.lost_total for w in workers})
        yield _counter(
            "worker_restarts", "How often another process answered.", {w.url: w.restarted_total for w in workers}
        )
        yield CounterMetricFamily(
            "roundhouse_sessions_moved", "Sessions that went on with another worker.", value=self._fleet.moved_total
        )
        yield CounterMetricFamily(
            "roundhouse_turns_sent_again", "Turns sent to a second worker.", value=self._fleet.retried_total
        )
        yield from self._loads()

    def _loads(self) -> Iterator[Metric]:
        left = twins(self._fleet.workers)
        single = [worker for worker in self._fleet.workers if worker.url not in left]
        ranks = [(w.url, rank_load(load)) for w in single for load in w.loads or ()]
        for field, text in RANK_FIELDS.items():
            family = GaugeMetricFamily(f"roundhouse_engine_{field}", text, labels=["worker", "rank"])
            for url, said in ranks:
                value = said[field]
                if value is not None:
                    family.add_metric([url, str(said["rank"])], value)
            yield family


class RegistryMetrics(PrometheusCollector):
    """What the registry's newest snapshot counts."""

    def __init__(
        self,
        snapshot: Callable[[], RegistrySnapshot],
        budgets: Callable[[], list[Budget]],
        registry: CollectorRegistry,
    ) -> None:
        self._snapshot = snapshot
        self._budgets = budgets
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Checkpoints that failed, and adapter slots that are needed."""
        failed = CounterMetricFamily(
            "roundhouse_failed_checkpoints",
            "Versions that the gate or the proof rejected, or that were rolled back after they went live.",
            labels=["adapter", "how"],
        )
        for (adapter, how), count in sorted(failed_checkpoints(self._snapshot()).items()):
            failed.add_metric([adapter, how], count)
        yield failed
        needed = {each.worker: each.needed for each in self._budgets()}
        yield _gauge("worker_adapter_slots_needed", "Live, candidate, draining and other adapters.", needed)


def failed_checkpoints(snapshot: RegistrySnapshot) -> dict[tuple[str, str], int]:
    """Adapter and how, `rejected` or `rolled_back`, to how many versions; an adapter without any counts 0."""
    counts = {(adapter.adapter, how): 0 for adapter in snapshot.adapters for how in ("rejected", "rolled_back")}
    for version in snapshot.versions:
        if version.state == "rejected":
            counts[version.adapter, "rejected"] += 1
    for row in snapshot.decisions:
        retired = (row.detail or {}).get("retired")
        if row.action == "rollback" and row.adapter is not None and isinstance(retired, list):
            counts[row.adapter, "rolled_back"] += len(retired)  # pyright: ignore[reportUnknownArgumentType]
    return counts


def _gauge(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"roundhouse_{name}", text, labels=["worker"])
    for worker, value in values.items():
        family.add_metric([worker], value)
    return family


def _counter(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"roundhouse_{name}", text, labels=["worker"])
    for worker, value in values.items():
        family.add_metric([worker], value)
    return family
