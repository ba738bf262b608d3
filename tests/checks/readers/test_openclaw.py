"""OpenClaw-RL: records and the votes on them."""

from pathlib import Path

from tests.checks.readers.reading import opened, rows, turns, unreadable, write_lines
from tests.checks.readers.seeds import OPENCLAW_LINES, OPENCLAW_VOTES


def test_records_are_turns_of_text_and_votes_their_rewards(tmp_path: Path) -> None:
    write_lines(tmp_path / "r.jsonl", OPENCLAW_LINES)
    write_lines(tmp_path / "r_prm.jsonl", OPENCLAW_VOTES)
    log = opened(tmp_path)
    [turn] = turns(log)
    assert (turn["session_id"], turn["turn"], turn["prompt_text"], turn["completion_text"]) == ("s", 1, "<q>", "a")
    assert turn["prompt_ids"] is None
    [reward] = rows(log, "rewards")
    assert (reward["turn_id"], reward["value"]) == (turn["turn_id"], 1.0)


def test_a_record_without_its_turn_is_counted(tmp_path: Path) -> None:
    lines = [*OPENCLAW_LINES, {**OPENCLAW_LINES[0], "turn": None}]
    found = unreadable(opened(write_lines(tmp_path / "r.jsonl", lines)))
    assert found == [("r.jsonl:2", "no session_id or no turn, expected both")]
