"""Where what a native log lacks belongs in it."""

from checks.columns import SCHEMAS, SCORE_COLUMNS

_SCORED = tuple(name for name in SCORE_COLUMNS if name.endswith("logprobs") or name in ("entropies", "advantages"))


def _advice(table: str, name: str) -> str:
    if name in _SCORED:
        return f"{name} is the trainer's to record: in a native log it stands in scores, or in turns"
    return f"write {name} into the native log's {table}"


_COLUMNS = {**SCHEMAS, "scores": SCORE_COLUMNS}
NATIVE_ADVICE = {f"{table}.{name}": _advice(table, name) for table, names in _COLUMNS.items() for name in names}
"""`table.column` to where it is written."""
