"""The summary against a store written by hand."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collector.config import StoreConfig
from collector.records import Feedback, Turn, VersionSpan
from collector.store.writer import Writer
from console.demo.agent import SessionResult, TurnResult
from console.demo.report import report
from console.demo.summary import Summary, summarize
from trainer.tiny_model import write_byte_tokenizer

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def turn(name: str, session: str, number: int, prompt: list[int], completion: list[int], **other: Any) -> Turn:
    fields: dict[str, Any] = {
        "tenant": "t",
        "api": "chat",
        "started_at": NOW,
        "sampled_logprobs": [-0.5] * len(completion),
        "weight_versions": [VersionSpan(version=0, start=0, end=len(completion))],
        "trainable": True,
    }
    fields |= other
    return Turn(turn_id=name, session_id=session, turn=number, prompt_ids=prompt, completion_ids=completion, **fields)


def feedback(name: str, session: str, kind: Any, value: float | None) -> Feedback:
    return Feedback(feedback_id=name, tenant="t", session_id=session, kind=kind, value=value, at=NOW)


def summary_of(tmp_path: Path, records: list[Turn | Feedback], responses: list[str]) -> Summary:
    store = tmp_path / "store"
    writer = Writer(store, "collector", StoreConfig())
    for record in records:
        writer.append(record).result(10)
    writer.close()
    write_byte_tokenizer(tmp_path)
    return summarize(store, run_id="r", response_ids=responses, tokenizer_file=tmp_path / "tokenizer.json")


ROOT = turn("a", "r-1", 1, [1, 2, 3], [4, 5])
CHILD = turn(
    "b", "r-1", 2, [1, 2, 3, 4, 5, 6], [7], parent_turn_id="a", link="extends", trainable=False, untrainable_reason="x"
)


def test_it_counts_this_runs_sessions_only(tmp_path: Path) -> None:
    other = turn("z", "earlier-1", 1, [1], [2])
    judged = [feedback("1", "r-1", "accept", 1.0), feedback("2", "r-1", "outcome", 0.25)]
    judged += [feedback("3", "r-2", "outcome", 0.75), feedback("4", "earlier-1", "outcome", 1.0)]
    single = turn("c", "r-2", 1, [1], [2])
    found = summary_of(tmp_path, [other, ROOT, CHILD, single, *judged], ["chatcmpl-a", "chatcmpl-b", "chatcmpl-c"])
    assert found.problems() == []
    assert (found.sessions, found.turns, found.prompt_tokens, found.completion_tokens) == (2, 3, 3 + 6 + 1, 2 + 1 + 1)
    assert (found.tokens_with_mu, found.later_turns, found.extending_turns) == (4, 1, 1)
    assert (found.trainable_turns, found.untrainable) == (2, {"x": 1})
    assert (found.feedback, found.mean_outcome, found.records) == (3, 0.5, 8)
    assert found.look is not None
    assert (found.look.turn_id, found.look.tokens) == ("b", [(7, "\x07", -0.5)])


@pytest.mark.parametrize(
    "changes",
    [
        {"parent_turn_id": None, "link": "break"},
        {"parent_turn_id": "other"},
        {"prompt_ids": [1, 2, 3, 4, 9, 6]},
        {"prompt_ids": [1, 2, 3, 4]},
    ],
)
def test_a_later_turn_that_does_not_extend_is_a_problem(tmp_path: Path, changes: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"parent_turn_id": "a", "link": "extends", "prompt_ids": [1, 2, 3, 4, 5, 6]} | changes
    prompt = fields.pop("prompt_ids")
    found = summary_of(tmp_path, [ROOT, turn("b", "r-1", 2, prompt, [7], **fields)], [])
    assert found.problems() == ["1 later turns do not extend the turn before"]


def test_what_is_missing_is_a_problem(tmp_path: Path) -> None:
    bare = turn("d", "r-1", 1, [1], [2, 3], sampled_logprobs=[-0.5], trainable=False)
    found = summary_of(tmp_path, [bare, turn("e", "r-2", 1, [1], [2])], ["chatcmpl-d", "chatcmpl-gone"])
    assert found.problems() == [
        "1 replies are not in the store, the first is chatcmpl-gone",
        "1 sampled tokens have no log-probability",
        "no session got past its first turn",
    ]
    assert found.mean_outcome is None


def test_an_empty_run_is_a_problem(tmp_path: Path) -> None:
    found = summary_of(tmp_path, [turn("z", "earlier-1", 1, [1], [2])], [])
    assert found.problems() == ["no turn was captured"]
    assert found.look is None
    assert "captured\n  sessions   0" in report(found, tmp_path, turns=[], sessions=[], seconds=1.0)


def test_a_damaged_record_is_a_problem(tmp_path: Path) -> None:
    summary_of(tmp_path, [ROOT, CHILD], [])
    [journal] = (tmp_path / "store" / "journals").glob("*.sqlite")
    raw = bytearray(journal.read_bytes())
    at = raw.find(b"r-1")
    raw[at] ^= 1
    journal.write_bytes(raw)
    found = summarize(tmp_path / "store", run_id="r", response_ids=[], tokenizer_file=tmp_path / "tokenizer.json")
    assert any(problem.startswith("verify: ") for problem in found.problems())


def test_the_report_shows_a_turn_with_its_text_made_safe(tmp_path: Path) -> None:
    found = summary_of(tmp_path, [turn("a", "r-1", 1, [1], [*b"\x1b[2J"], sampled_logprobs=[-0.25] * 4)], [])
    sessions = [SessionResult("r-1", [], 1.0), SessionResult("r-2", [], None)]
    turns = [TurnResult("x", well_formed=True, right=False)]
    text = report(found, Path("my store"), turns=turns, sessions=sessions, seconds=2.0)
    assert "\x1b" not in text
    assert "sampled \\x1b[2J" in text
    assert "      27   -0.2500  0.7788  \\x1b" in text  # e^-0.25
    assert "1, 1 finished, 1 with every file right" in text
    assert "turns      1 in 2 s, 1 with a well-formed tool call, 0 did what was asked" in text
