"""What `roundhouse sql` offers beside the tables: who served a turn, and what each adapter's tokens come to."""

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


def sql_views(prices: PriceConfig) -> dict[str, str]:
    """Name of each view to its query.

    `turn_workers`: turn_id, session_id, turn and the engine worker that served it, null where there was one only.
    `costs`: tokens by tenant, adapter and version, of turns that something was sampled for, and their cost at the
    present prices, null where a kind of tokens that was used has none. Prompt tokens that the engine does not say it
    took from its cache count as computed.
    """
    parts = " + ".join(
        f"CASE WHEN {kind}_tokens = 0 THEN 0 ELSE {kind}_tokens * {_number(price)} / 1e6 END"
        for kind, price in (("prompt", prices.prompt), ("cached", prices.cached), ("completion", prices.completion))
    )
    return {"turn_workers": _TURN_WORKERS, "costs": f"SELECT *, {parts} AS cost FROM ({_COUNTED})"}


def _number(price: float | None) -> str:
    return "NULL::DOUBLE" if price is None else f"{price!r}::DOUBLE"
