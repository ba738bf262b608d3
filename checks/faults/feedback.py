"""Feedback that comes twice, is replaced, contradicts itself, comes late or not at all."""

from collections.abc import Iterator

import polars as pl

from checks.finding import Evidence, Finding, Threshold, grade, kept, worst
from checks.session_rewards import NOT_TRAINED
from checks.standing_feedback import standing_feedback, superseded

_NEXT = (
    "who posts the same id again: retries without the idempotency key",
    "the client's feedback calls",
    "the reward mapping",
)


def feedback(
    turns: pl.DataFrame, feedback: pl.DataFrame, *, warn_at: float = 0.95, fail_at: float | None = None
) -> Finding:
    """Feedback that comes twice, is replaced, contradicts itself, comes late or not at all.

    Definition: the same feedback_id counts once, the first time; one that another supersedes counts not at all. A
    session of traffic without any that counts, for itself or a turn, is missing, which is not zero. Delay is from the
    end of the judged turn, else of the session's last turn. Contradictory: an id that comes again with another value,
    or judgements of one kind by one user on one turn or session, neither superseding the other, whose values differ.
    Units: the value is the share of sessions without feedback; delays in seconds.
    Reads: feedback(feedback_id, turn_id, session_id, kind, value, at, supersedes, user_hash), turns(session_id,
    turn_id, finished_at, purpose).
    Threshold: warn above 0.95 missing, provisional; contradictory feedback and feedback on what the log does not hold
    warn; duplicates and superseded ones are info.
    Check next: clients that retry with a new id; the feedback calls of clients; the reward mapping.
    """
    if feedback.is_empty():
        return Finding.no_data("feedback", "the log holds no feedback", missing=("feedback.feedback_id",))
    traffic = turns.filter(~pl.col("purpose").is_in(NOT_TRAINED).fill_null(False))
    counted = _placed(standing_feedback(feedback), turns)
    sessions = traffic["session_id"].n_unique()
    judged = traffic.filter(pl.col("session_id").is_in(counted["of_session"].drop_nulls().implode()))
    missing = sessions - judged["session_id"].n_unique()
    share = missing / sessions if sessions else None
    stray = counted.filter(pl.col("of_session").is_null()) if turns.height else counted.clear()
    placed = _placed(feedback, turns)
    found = [
        *_duplicates(placed),
        *_superseded(_placed(superseded(feedback), turns)),
        *_contradictory(counted),
        *_strays(stray),
    ]
    found.sort(key=lambda each: each.status != "warn")
    evidence, omitted = kept(found)
    level = "ok" if share is None else grade(share, warn_at=warn_at, fail_at=fail_at)
    delays = _delays(counted, turns)
    kinds = {kind: sum((each.text or "").startswith(kind) for each in found) for kind in _KINDS}
    said = "; ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    return Finding(
        check="feedback",
        status=worst([level, *(each.status or "ok" for each in found)]),
        value=share,
        unit="share of sessions without feedback",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=f"{counted.height} of {feedback.height} judgements count, {missing} of {sessions} sessions have none"
        + (f"; {said}" if said else ""),
        check_next=_NEXT if level != "ok" or found else (),
        evidence=evidence,
        evidence_omitted=omitted,
        breakdown=(delays,) if delays else (),
    )


_KINDS = ("duplicate", "superseded", "contradictory", "unknown")


def _placed(counted: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """Feedback with the session it is about, the turn's own session first, null where the log does not hold it."""
    whose = turns.drop_nulls("turn_id").select(
        pl.col("turn_id").cast(pl.String), "session_id", "turn", pl.col("finished_at").alias("turn_finished")
    )
    whose = whose.unique("turn_id", keep="last")
    by_turn = counted.join(whose, on="turn_id", how="left", suffix="_of_turn", maintain_order="left")
    known = turns["session_id"].unique().implode()
    own = pl.when(pl.col("session_id").is_in(known)).then("session_id")
    return by_turn.with_columns(of_session=pl.coalesce("session_id_of_turn", own))


def _duplicates(feedback: pl.DataFrame) -> Iterator[Evidence]:
    again = feedback.group_by("feedback_id", maintain_order=True).agg(
        pl.len(), pl.col("of_session", "turn").first(), values=pl.col("value").n_unique()
    )
    for name, count, session, turn, values in again.filter(pl.col("len") > 1).iter_rows():
        kind, status = ("duplicate", "info") if values == 1 else ("contradictory", "warn")
        said = f"{kind}: {name} comes {count} times" + (
            "" if values == 1 else f" with {values} values; the first counts"
        )
        detail: dict[str, int | float | str | None] = {"feedback_id": name}
        yield Evidence(session_id=session, turn=turn, status=status, value=count, text=said, detail=detail)


def _superseded(gone: pl.DataFrame) -> Iterator[Evidence]:
    for name, session, turn in gone.select("feedback_id", "of_session", "turn").iter_rows():
        said = f"superseded: {name} counts not at all"
        yield Evidence(session_id=session, turn=turn, status="info", text=said, detail={"feedback_id": name})


def _contradictory(counted: pl.DataFrame) -> Iterator[Evidence]:
    known = counted.drop_nulls(["value", "user_hash"])
    groups = known.group_by("turn_id", "session_id", "of_session", "kind", "user_hash", maintain_order=True).agg(
        pl.col("turn").first(),
        pl.col("value").n_unique().alias("values"),
        pl.col("value").min().alias("low"),
        pl.col("value").max().alias("high"),
    )
    for row in groups.filter(pl.col("values") > 1).iter_rows(named=True):
        said = f"contradictory: one user's {row['kind'] or 'feedback'} is {row['low']:g} and {row['high']:g}"
        yield Evidence(session_id=row["of_session"] or row["session_id"], turn=row["turn"], status="warn", text=said)


def _strays(stray: pl.DataFrame) -> Iterator[Evidence]:
    for name, session, turn in stray.select("feedback_id", "session_id", "turn_id").iter_rows():
        said = f"unknown: {name} is about {turn or session or 'nothing'}, which the log does not hold"
        yield Evidence(session_id=session, status="warn", text=said, detail={"feedback_id": name, "turn_id": turn})


def _delays(counted: pl.DataFrame, turns: pl.DataFrame) -> dict[str, int | float | str | None] | None:
    """How long after the end of what it judges feedback comes."""
    ends = turns.group_by("session_id").agg(session_finished=pl.col("finished_at").max())
    joined = counted.join(ends, left_on="of_session", right_on="session_id", how="left", suffix="_end")
    ended = pl.coalesce(pl.col("turn_finished"), pl.col("session_finished")).cast(pl.Datetime("us", "UTC"))
    delay = (joined.select(at="at", ended=ended).select(pl.col("at") - pl.col("ended")).to_series()).drop_nulls()
    seconds = delay.dt.total_microseconds() / 1e6
    if seconds.is_empty():
        return None
    return {
        "delays": len(seconds),
        "delay_median_s": float(seconds.median()),  # pyright: ignore[reportArgumentType]
        "delay_p95_s": float(seconds.quantile(0.95, "linear")),  # pyright: ignore[reportArgumentType]
        "before_the_end": int((seconds < 0).sum()),
    }
