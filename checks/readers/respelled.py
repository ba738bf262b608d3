"""Native records spelled otherwise than a store spells them: labels for versions, numbers for names, null for NaN."""

import re
from typing import Any

import msgspec

from checks.lag import LABEL
from checks.readers.fields import flags, floats, listed, text
from checks.rows import Row

_LABEL = re.compile(LABEL)


def respelled(fields: dict[str, Any], kind: type[Row]) -> dict[str, Any]:
    """The fields as the row `kind` has them, where they say the same in another spelling. ValueError where they cannot.

    A version or step that is a label is its number (`step_7`), else not observed, as in `weight_versions`.
    """
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    return {name: _respelled(name, value, types.get(name)) for name, value in fields.items()}


# Any: JSON values, and annotations.
def _respelled(name: str, value: Any, of_type: Any) -> Any:
    if value is None:
        return None
    if of_type in (str, str | None):
        return text(value) or value
    if of_type in (int, int | None) and name.endswith(("version", "step")):
        number = _number(value) if isinstance(value, str) else value
        return value if number is None and of_type is int else number
    if of_type in (float, float | None):
        return float(value) if isinstance(value, bool) else value
    if of_type == list[float] | None:
        return floats(value, name) if None in listed(value) else value
    return flags(value, name) if name == "loss_mask" else value


def _number(label: str) -> int | None:
    found = _LABEL.match(label)
    return int(found[1]) if found else None
