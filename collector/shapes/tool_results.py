"""The order of tool results: templates that show no ids tell results apart by the order of the calls."""

from typing import Any

from collector.conversation import tool_calls_of


def in_call_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chat messages with each run of tool results in the order of the calls; agents send them as they get done."""
    ordered: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    for message in messages:
        if message["role"] == "tool":
            results.append(message)
            continue
        ordered += _sorted(results, places)
        results = []
        places = {call["id"]: place for place, call in enumerate(tool_calls_of(message))}
        ordered.append(message)
    return ordered + _sorted(results, places)


def _sorted(results: list[dict[str, Any]], places: dict[str, int]) -> list[dict[str, Any]]:
    return sorted(results, key=lambda result: places.get(result["tool_call_id"], len(places)))
