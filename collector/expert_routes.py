"""The experts of a served mixture that tokens were routed to: checked against the model, and kept."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from collector.config import ExpertRoutesConfig
from collector.errors import UserError
from collector.model_json import read_json
from collector.store.expert_files import ExpertFiles
from collector.store.layout import Layout
from collector.store.reader import Reader

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 3600.0
_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")


class MixtureShape(NamedTuple):
    """What a mixture of experts is made of."""

    layers: int
    top_k: int
    experts: int

    @classmethod
    def from_folder(cls, folder: Path) -> "MixtureShape":
        """Reads config.json; UserError for a model that is no mixture."""
        whole = read_json(folder / "config.json")
        settings = cast(dict[str, Any], whole.get("text_config") or whole)
        experts = next((settings[name] for name in _EXPERTS if settings.get(name)), None)
        found = (settings.get("num_hidden_layers"), settings.get("num_experts_per_tok"), experts)
        if not all(isinstance(number, int) and number > 0 for number in found):
            raise UserError(
                f"[collector.expert_routes] is enabled, and {folder}/config.json says {found} of layers, experts per "
                "token and experts; expected the numbers of a mixture: set enabled = false for any other model"
            )
        return cls(*cast(tuple[int, int, int], found))


class ExpertRoutes:
    """Checks what the engine returned of a turn, and writes it. It is a `RouteKeeper`."""

    def __init__(self, shape: MixtureShape, files: ExpertFiles) -> None:
        self._shape = shape
        self._files = files

    def place(self, turn_id: str) -> str:
        """Path inside the store of what is kept of a turn."""
        return self._files.place(turn_id)

    def fault(self, routes: bytes, tokens: int) -> str | None:
        """How these are not the routes of so many tokens, the last of which went through no layer."""
        layers, top_k, experts = self._shape
        expected = (tokens - 1) * layers * top_k * 4
        if len(routes) != expected:
            return (
                f"the engine returned {len(routes)} bytes of expert routes, expected {expected}: "
                f"{tokens - 1} tokens by {layers} layers by {top_k} experts, int32"
            )
        values = self._values(routes)
        if values.size and not 0 <= values.min() <= values.max() < experts:
            return f"the engine returned experts {values.min()} to {values.max()}, expected 0 to {experts - 1}"
        return None

    def write(self, turn_id: str, routes: bytes) -> None:
        """Makes them durable; OSError when that is not possible."""
        self._files.write(turn_id, self._values(routes))

    def _values(self, routes: bytes) -> NDArray[np.int32]:
        values = np.frombuffer(routes, "<i4").astype(np.int32, copy=False)
        return values.reshape(-1, self._shape.layers, self._shape.top_k)


class ExpertRetention:
    """Deletes the writer's files that are too old, and at the start those that no turn names."""

    def __init__(self, config: ExpertRoutesConfig, store: Path, writer: str) -> None:
        self._days = config.max_age_days
        self._store = store
        self._writer = writer
        self._files = ExpertFiles(Layout(store), writer)

    def remove_strays(self) -> int:
        """Deletes what a crash left between file and record; how many files went."""
        if not (Layout(self._store).experts / self._writer).is_dir():
            return 0
        with Reader(self._store).snapshot(["turns"]) as snapshot:
            if snapshot.damage:
                return 0
            named = snapshot.frame("turns", columns=["routed_experts"])["routed_experts"].drop_nulls()
        return self._files.remove_strays(frozenset(named.to_list()))

    def expire(self, now: datetime) -> int:
        """Deletes the files of days that ended before the age; how many went."""
        if self._days is None:
            return 0
        return self._files.expire((now - timedelta(days=self._days)).date())

    async def run(self) -> None:
        """Looks now and at every interval."""
        while self._days is not None:
            try:
                gone = await asyncio.to_thread(self.expire, datetime.now(UTC))
                if gone:
                    _log.info("the expert routes of %d turns expired", gone)
            except OSError as error:
                _log.error("expired expert routes could not be deleted: %s", error)
            await asyncio.sleep(_LOOK_EVERY_S)
