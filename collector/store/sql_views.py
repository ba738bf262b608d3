"""What `roundhouse sql` offers beside the tables: who served a turn, and what each adapter's tokens come to."""

from typing import NamedTuple

from collector.config import PriceConfig
from collector.workers.placements import PLACED

_TURN_WORKERS = f"""
SELECT turns.turn_id, turns.session_id, turns.turn, told.worker
FROM turns ASOF LEFT JOIN (
    SELECT session_id, turn, arg_max(detail ->> 'worker', struct_pack(at := "at", seq := seq)) AS worker
    FROM events WHERE kind = '{PLACED}' GROUP BY session_id, turn
) AS told
ON turns.session_id = told.session_id AND turns.turn >= told.turn
"""
_COUNTED = """
SELECT tenant, adapter, adapter_version, count(*) AS turns,
    sum(len(prompt_ids) - coalesce(cached_tokens, 0))::BIGINT AS prompt_tokens,
    sum(coalesce(cached_tokens, 0))::BIGINT AS cached_tokens,
    sum(len(completion_ids))::BIGINT AS completion_tokens
FROM turns WHERE len(completion_ids) > 0 GROUP BY ALL
"""


class View(NamedTuple):
    """What a view holds."""

    text: str
    """What one row of it is."""
    columns: dict[str, tuple[str, str]]
    """Name of each column to its type, in the words of `collector.records`, and its meaning."""


_NOT_KEPT = "A view: computed when it is asked for, and no part of an export."
VIEWS = {
    "turn_workers": View(
        f"The engine worker that served a turn. {_NOT_KEPT}",
        {
            "turn_id": ("str", "The turn."),
            "session_id": ("str", "Its session."),
            "turn": ("int", "Its 1-based position in the session."),
            "worker": ("str | None", "Address of the worker; None where the collector had one only."),
        },
    ),
    "costs": View(
        f"Tokens of a tenant on an adapter version, of turns that something was sampled for. {_NOT_KEPT}",
        {
            "tenant": ("str", "Owner of the API key."),
            "adapter": ("str | None", "LoRA line that served the turns; None for the base model."),
            "adapter_version": ("int | None", "Version of the adapter; None for the base model."),
            "turns": ("int", "How many turns these are."),
            "prompt_tokens": (
                "int | None",
                "Tokens of their prompts that were computed: those that the engine does not say it took from its "
                "cache are among them. None where every prompt is lost to damage.",
            ),
            "cached_tokens": ("int", "Tokens of their prompts that the engine says it took from its cache."),
            "completion_tokens": ("int", "Tokens that were sampled."),
            "cost": (
                "float | None",
                "What these tokens cost at the present prices of `[collector.prices]`, each per million tokens; None "
                "where a kind of tokens that was used has no price.",
            ),
        },
    ),
}
"""The views by name."""


def sql_views(prices: PriceConfig) -> dict[str, str]:
    """Name of each view to its query, with these prices."""
    parts = " + ".join(
        f"CASE WHEN {kind}_tokens = 0 THEN 0 ELSE {kind}_tokens * {_number(price)} / 1e6 END"
        for kind, price in (("prompt", prices.prompt), ("cached", prices.cached), ("completion", prices.completion))
    )
    return {"turn_workers": _TURN_WORKERS, "costs": f"SELECT *, {parts} AS cost FROM ({_COUNTED})"}


def _number(price: float | None) -> str:
    return "NULL::DOUBLE" if price is None else f"{price!r}::DOUBLE"
