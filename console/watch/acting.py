"""What `--rw` allows: orders about adapters, carried out by the trainer's own functions."""

from collections.abc import Callable
from pathlib import Path

from collector.errors import StoreError
from collector.store.registry import Registry
from console.adapter_orders import Order, Outcome, carry_out, login_name
from console.adapters_serving import Serving


class Acting:
    """One person at one store. Every order is an audited transaction of the registry, or nothing."""

    def __init__(self, store: Path, *, config: Path | None = None, actor: str | None = None) -> None:
        """`config` says which engines a version must be served by; `actor` is the login name when not given."""
        self.actor = actor or login_name()
        self.store = store
        self._serving = Serving(store, config)

    def do(self, order: Order, say: Callable[[str], None]) -> Outcome:
        """Carries it out, in any thread; `say` is told of what takes its time. Raises what forbids it."""
        # Opened for writing, one that is gone would be made anew.
        if not (self.store / "registry.sqlite").is_file():
            raise StoreError(f"{self.store} has no registry any more; nothing is done")
        with Registry(self.store) as registry:
            return carry_out(order, registry, self._serving._replace(say=say))
