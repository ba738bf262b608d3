"""`roundhouse feedback --explain`: which judgements count, why others do not, and the reward that the trainer makes."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.records import Feedback
from collector.store.writer import Writer
from console.cli import main
from tests.collector.store.conftest import build_conversation
from trainer.reward import RewardConfig

Captured = pytest.CaptureFixture[str]
THEN = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def judged(name: str, kind: Any, value: float | None, *, after_s: float = 60, **more: Any) -> Feedback:
    target = {} if "turn_id" in more else {"session_id": "s"}
    given = {"tenant": "tenant", **target, **more}
    return Feedback(feedback_id=name, kind=kind, value=value, at=THEN + timedelta(seconds=after_s), **given)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with Writer(path, "collector") as writer:
        for tenant in ("tenant", "other"):
            for turn in build_conversation("s", 2):
                named = {"turn_id": turn.turn_id if tenant == "tenant" else f"their-{turn.turn_id}"}
                writer.append(
                    msgspec.structs.replace(
                        turn, tenant=tenant, started_at=THEN, finished_at=THEN, parent_turn_id=None, **named
                    )
                )
        for feedback in (
            judged("up", "thumb", 1),
            judged("down", "thumb", 0),
            judged("first", "score", 1),
            judged("second", "score", 4, supersedes="first"),
            judged("text", "edit", None, text="better"),
            judged("late", "judge", 1, after_s=3601),
            judged("left-out", "accept", 1),
            judged("turn", "outcome", 0.5, turn_id="s-2"),
            judged("up", "thumb", 1, after_s=61),
            judged("theirs", "thumb", 0.25, tenant="other"),
        ):
            writer.append(feedback).result(5)
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "roundhouse.toml"
    kinds = {"thumb": (2, 0, 1), "score": (1, 1, 5), "edit": (1, 0, 1), "judge": (1, 0, 1), "outcome": (3, 0, 1)}
    tables = [
        f"[trainer.reward.kinds.{kind}]\nweight = {weight}\nlow = {low}\nhigh = {high}"
        for kind, (weight, low, high) in kinds.items()
    ]
    path.write_text("\n".join(tables) + "\n")
    return path


def explanation(store: Path, config: Path, capsys: Captured, *words: str) -> Any:
    assert main(["feedback", "--explain", "--store", str(store), "--config", str(config), "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_each_judgement_counts_or_has_its_reason(store: Path, config: Path, capsys: Captured) -> None:
    told = explanation(store, config, capsys, "--response", "chatcmpl-s-2")
    (session,) = told["sessions"]
    assert session["closed"] is True
    assert [(each["feedback_id"], each["reason"], each["worth"]) for each in session["judgements"]] == [
        ("up", None, 2.0),
        ("down", None, 0.0),
        ("first", "superseded", None),
        ("second", None, 0.75),
        ("text", "no_value", None),
        ("late", "late", None),
        ("left-out", "kind_left_out", None),
        ("turn", None, 1.5),
        ("up", "duplicate", None),
    ]
    assert session["judgements"][2]["superseded_by"] == "second"
    # Thumbs are averaged, (2 + 0) / 2, and the score is added: 1 + 0.75.
    assert session["rewards"] == [
        {"turn_id": None, "value": 1.75, "parts": {"thumb": 1.0, "score": 0.75}},
        {"turn_id": "s-2", "value": 1.5, "parts": {"outcome": 1.5}},
    ]


def test_feedback_of_another_tenant_on_a_session_of_the_same_name_is_not_mixed_in(
    store: Path, config: Path, capsys: Captured
) -> None:
    (theirs,) = explanation(store, config, capsys, "--response", "their-s-1")["sessions"]
    assert [each["feedback_id"] for each in theirs["judgements"]] == ["theirs"]
    assert [reward["value"] for reward in theirs["rewards"]] == [0.5]
    both = explanation(store, config, capsys, "--session", "s")["sessions"]
    assert sorted(len(each["judgements"]) for each in both) == [1, 9]


def test_the_mapping_has_the_hash_that_rewards_carry(capsys: Captured) -> None:
    assert main(["feedback", "--explain", "--config", "samples/roundhouse.toml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["mapping_sha256"] == RewardConfig().sha256()
    assert told["mapping"]["thumb"] == {"weight": 1.0, "low": 0.0, "high": 1.0}
    assert main(["feedback", "--explain"]) == 0
    assert f"mapping sha256 {RewardConfig().sha256()}" in capsys.readouterr().out


def test_it_is_told_in_words_and_refusals_say_what_to_do(store: Path, config: Path, capsys: Captured) -> None:
    words = ["feedback", "--explain", "--store", str(store), "--config", str(config)]
    assert main([*words, "--response", "s-1"]) == 0
    said = capsys.readouterr().out
    assert "  first score 1 on the session does not count: superseded by second\n" in said
    assert "  reward of the session: 1.75 = thumb 1 + score 0.75\n" in said
    assert main([*words, "--session", "nobody"]) == 2
    assert "no session 'nobody'" in capsys.readouterr().err
    assert main([*words, "--kind", "thumb"]) == 2
    assert main(["feedback", "--session", "s"]) == 2
    assert "--kind is missing" in capsys.readouterr().err
