"""The sessions that a version serves now, counted from a real store."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from collector.records import Turn
from collector.store.reader import Reader
from collector.store.writer import Writer
from trainer.blast_radius import blast_radius

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def turn(session: str, number: int, version: int, minutes_ago: float, tenant: str = "acme", purpose: str = "traffic"):
    return Turn(
        turn_id=f"{session}-{number}",
        session_id=session,
        turn=number,
        tenant=tenant,
        adapter="bot",
        adapter_version=version,
        api="chat",
        purpose=purpose,  # type: ignore[arg-type]
        started_at=NOW - timedelta(minutes=minutes_ago),
        prompt_ids=[1],
        completion_ids=[],
        sampled_logprobs=[],
        weight_versions=[],
    )


def test_open_sessions_count_for_the_version_of_their_last_turn(tmp_path: Path) -> None:
    turns = [
        turn("moved", 1, 1, 20),
        turn("moved", 2, 2, 10),
        turn("here", 1, 2, 5, tenant="zoo"),
        turn("stayed", 1, 1, 6),
        turn("over", 1, 2, 61),
        turn("measured", 1, 2, 1, purpose="eval"),
        turn("tried", 1, 3, 1, purpose="canary"),
    ]
    with Writer(tmp_path, "collector") as writer:
        for each in turns:
            writer.append(each)
    with Reader(tmp_path).snapshot(["turns"]) as snapshot:
        assert blast_radius(snapshot, "bot", 2, now=NOW) == (2, ("acme", "zoo"), 0.5)
        assert blast_radius(snapshot, "bot", 1, now=NOW) == (1, ("acme",), 0.25)
        assert blast_radius(snapshot, "bot", 3, now=NOW) == (1, ("acme",), 0.25)
        assert blast_radius(snapshot, "cat", 2, now=NOW) == (0, (), 0.0)
        assert blast_radius(snapshot, "bot", 2, now=NOW, open_s=7 * 60).sessions == 1
        assert blast_radius(snapshot, "bot", 2, now=NOW + timedelta(days=1)) == (0, (), None)
