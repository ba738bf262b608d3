"""Lost records in words: one line per cause, however many runs of records it took."""

from collections.abc import Iterable

from collector.store.journal import Loss

_SHOWN_RUNS = 8


def loss_lines(losses: Iterable[tuple[str, Loss]]) -> list[str]:
    """A line for each writer, cause, place and acceptance, with the runs of records; the first ones when many."""
    grouped: dict[tuple[str, str, str | None, bool], list[Loss]] = {}
    for writer, loss in losses:
        grouped.setdefault((writer, loss.found, loss.kept_at, bool(loss.accepted)), []).append(loss)
    return [_line(*cause, runs) for cause, runs in grouped.items()]


def _line(writer: str, found: str, kept_at: str | None, accepted: bool, losses: list[Loss]) -> str:
    runs = sorted((loss.lo, loss.hi) for loss in losses)
    count = sum(hi - lo + 1 for lo, hi in runs)
    shown = ", ".join(str(lo) if lo == hi else f"{lo} to {hi}" for lo, hi in runs[:_SHOWN_RUNS])
    more = f" and {len(runs) - _SHOWN_RUNS} more runs (--json lists them)" if len(runs) > _SHOWN_RUNS else ""
    place = f"; remains in {kept_at}" if kept_at else ""
    known = "accepted" if accepted else "run verify --accept once you know of it"
    return f"lost: {count} {'record' if count == 1 else 'records'} of {writer}, {shown}{more} ({found}){place}; {known}"
