"""How deep JSON may be nested: far below where reading, rendering or storing it would run out of stack."""

from typing import cast

DEEPEST = 64
"""Levels of lists and objects in what a client sends and in the arguments of a sampled tool call."""


def nested_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects stand in each other more levels deep than that."""
    level = [value]
    for _ in range(levels + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(cast("dict[object, object]", value).values()) or [None]
    if isinstance(value, list):
        return cast("list[object]", value) or [None]
    return []
