"""The list of adapters filtered and sorted."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from console.watch.frame.filter import Field, Fields, read_filter

if TYPE_CHECKING:
    from console.watch.views.adapters import AdapterLine

FIELDS: Fields = {
    "adapter": Field("adapter"),
    "tenant": Field("tenant"),
    "base": Field("base_model"),
    "state": Field("state"),
    "live": Field("live", "number"),
    "cand": Field("candidate", "number"),
    "traffic": Field("traffic_percent", "number"),
    "gate": Field("verdict"),
    "why": Field("reason"),
}
"""What the list can be filtered by; `traffic` is in percent, as it is shown."""
_KEYS: "dict[str, Callable[[AdapterLine], float | None]]" = {
    "traffic": lambda line: line.traffic,
    "age": lambda line: None if line.live_since is None else -line.live_since.timestamp(),
    "score": lambda line: _score(line),
}
SORTS = ("", *_KEYS)
"""Columns that the list can be sorted by, in the order in which the key goes through them; first the registry's."""


def listed(
    lines: "Sequence[AdapterLine]", *, filter: str = "", sort: str = "", descending: bool = False
) -> "tuple[AdapterLine, ...]":
    """Those that meet the filter, sorted; what was not observed comes last. FilterError where it cannot be used."""
    wanted = read_filter(filter, FIELDS)
    kept = [line for line in lines if wanted.matches(_row(line))]
    key = _KEYS.get(sort)
    if key is None:
        return tuple(reversed(kept) if descending else kept)
    valued = [(value, line) for line in kept if (value := key(line)) is not None]
    valued.sort(key=lambda each: each[0], reverse=descending)
    return (*(line for _, line in valued), *(line for line in kept if key(line) is None))


def _row(line: "AdapterLine") -> dict[str, object]:
    percent = None if line.traffic is None else 100 * line.traffic
    verdict = None if line.gate is None else line.gate.verdict
    return {**msgspec.structs.asdict(line), "traffic_percent": percent, "verdict": verdict}


def _score(line: "AdapterLine") -> float | None:
    """What the held-out score changed by at the gate."""
    criteria = () if line.gate is None else line.gate.criteria
    return next((each.difference for each in criteria if each.name == "score"), None)
