"""A user is forgotten: every session they judged goes, in every file, and it is said which versions learned from it."""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.records import Event, Feedback, Score, Turn, Version
from collector.store.forget import forget
from collector.store.mentions import FORGOTTEN, Mentions
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.registry_rows import read_audit
from collector.store.trained_versions import versions_trained_on
from collector.store.user_sessions import hash_of_user
from collector.store.verify import verify
from collector.store.writer import Writer
from collector.user_hash import user_hash, user_key
from console.cli import main

NOW = datetime(2026, 11, 29, tzinfo=UTC)
CALM = StoreConfig(seal_interval_s=1e9)
SECRET = "ann-session-one"


def judged(name: str, tenant: str, hashed: str, **target: str) -> Feedback:
    return Feedback(feedback_id=name, tenant=tenant, kind="thumb", value=1, user_hash=hashed, at=NOW, **target)


def alert(session: str, turn_id: str) -> Event:
    """An alert of the trainer's: its own columns name no session, its text and detail do."""
    detail = {
        "rule": "zero variance",
        "change": "fired",
        "evidence": {"session_id": session, "turn": 2},
        "alert": {"title": f"the first is {session}, turn {turn_id}.", "turns": [turn_id, "b-1"]},
    }
    return Event(at=NOW, kind="alert", text=f"fired; the first is {session}", detail=detail)


def fill(store: Path, conversation: Any) -> dict[str, str]:
    """Two sessions that ann judged, one by a turn only, and one that bob of another tenant did; half of it sealed."""
    with Writer(store, "collector", CALM) as collector, Writer(store, "trainer", CALM) as trainer:
        key = user_key(store)
        ann, other = user_hash(key, "tenant", "ann"), user_hash(key, "other", "ann")
        for name in (SECRET, "ann-session-two", "b"):
            tenant = "other" if name == "b" else "tenant"
            for turn in conversation(name, 6):
                turn = msgspec.structs.replace(turn, tenant=tenant)
                collector.append(turn)
                trainer.append(Score(turn_id=turn.turn_id, trainer_step=1, trainer_logprobs=[-1.0]))
            if name == SECRET:
                trainer.append(alert(SECRET, f"{SECRET}-2"))
                collector.seal()
                trainer.seal()
        trainer.append(alert("ann-session-two", f"{SECRET}-3"))
        collector.append(judged("f1", "tenant", ann, session_id=SECRET))
        collector.append(judged("f2", "tenant", ann, turn_id="ann-session-two-3"))
        collector.append(judged("f3", "tenant", ann, session_id="a-session-without-turns"))
        collector.append(judged("f4", "other", other, session_id="b")).result(5)
    with Registry(store) as registry:
        registry.register_adapter("bot", tenant="tenant", base_model="m", actor="t", reason="t")
        # Turns 1 to 6 are of the first session; 13 to 18 are the other tenant's.
        for version, ranges in ((1, [("collector", 5, 5)]), (2, [("collector", 13, 18)]), (3, [("trainer", 1, 99)])):
            (store / f"adapters/bot/{version}").mkdir(parents=True)
            registry.register_version(
                "bot",
                version,
                parent=0 if version == 3 else version - 1,
                optimizer_step=version,
                folder=f"adapters/bot/{version}",
                sha256="ab" * 32,
                trained_on=ranges,
                actor="t",
                reason="t",
            )
        report = {
            "verdict": "hold",
            "criteria": [{"name": "kl", "text": f"highest on {SECRET}-4, next on b-2"}, {"turns": [f"{SECRET}-5"]}],
        }
        registry.record_gate("bot", 1, report, actor="t", reason=f"the cycle that saw {SECRET}")
    return {"ann": ann, "other": other}


def holding(store: Path, *needles: str) -> list[str]:
    """Files with one of the texts in them; nothing here is long enough to be compressed but pages of segments."""
    from tests.collector.store.test_forget import unpack

    found: list[str] = []
    for path in store.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            whole = content + b"".join(unpack(content))
            found += [str(path) for needle in needles if needle.encode() in whole][:1]
    return found


def test_a_forgotten_user_leaves_no_byte_and_the_versions_are_named(tmp_path: Path, conversation: Any) -> None:
    hashes = fill(tmp_path, conversation)
    names = (SECRET, "ann-session-two", hashes["ann"])
    assert len({Path(path).suffix for path in holding(tmp_path, *names)}) == 2
    hashed = hash_of_user(tmp_path, "ann", "tenant")
    planned = forget(tmp_path, user_hashes=[hashed], dry_run=True)
    assert len(holding(tmp_path, *names)) >= 4
    gone = forget(tmp_path, user_hashes=[hashed])
    assert gone == planned
    assert gone.sessions == ("a-session-without-turns", SECRET, "ann-session-two")
    assert (gone.turns, gone.records) == (12, 12 + 12 + 3)
    assert [(each.name, each.state, each.through) for each in gone.versions] == [
        ("bot@1", "candidate", None),
        ("bot@2", "candidate", 1),
    ]
    assert holding(tmp_path, *names) == []
    found = verify(tmp_path)
    assert found.clean, found
    with Reader(tmp_path).snapshot() as snapshot:
        assert snapshot.frame("turns")["session_id"].unique().to_list() == ["b"]
        assert snapshot.frame("feedback")["feedback_id"].to_list() == ["f4"]
        alerts = snapshot.frame("events")
        assert snapshot.damage == ()
    assert alerts["text"].to_list() == [f"fired; the first is {FORGOTTEN}"] * 2
    detail = json.loads(alerts["detail"][0])
    assert detail["evidence"] == {"session_id": FORGOTTEN, "turn": 2}
    assert detail["alert"]["title"] == f"the first is {FORGOTTEN}, turn {FORGOTTEN}."
    assert detail["alert"]["turns"] == [FORGOTTEN, "b-1"]
    assert detail["change"] == "fired"
    with Registry(tmp_path) as registry:
        gate = next(each.gate for each in registry.snapshot().versions if each.version == 1)
        row = next(each for each in read_audit(tmp_path) if each.action == "record_gate")
    said = [{"name": "kl", "text": f"highest on {FORGOTTEN}, next on b-2"}, {"turns": [FORGOTTEN]}]
    assert gate is not None
    assert row.detail is not None
    assert gate["criteria"] == said
    assert row.detail["gate"]["criteria"] == said
    assert row.reason == f"the cycle that saw {FORGOTTEN}"


def test_the_audit_guards_itself_again_after_a_user_is_forgotten(tmp_path: Path, conversation: Any) -> None:
    fill(tmp_path, conversation)
    with Registry(tmp_path) as registry:
        revision = registry.revision()
    forget(tmp_path, user_hashes=[hash_of_user(tmp_path, "ann", "tenant")])
    with Registry(tmp_path) as registry:
        assert registry.revision() == revision
    db = sqlite3.connect(tmp_path / "registry.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="audit rows are immutable"):
        db.execute("UPDATE audit SET reason = 'another'")
    db.close()


def test_a_judgement_that_is_spoken_of_elsewhere_goes_by_its_id_too(tmp_path: Path, conversation: Any) -> None:
    hashes = fill(tmp_path, conversation)
    with Writer(tmp_path, "trainer", CALM) as trainer:
        evidence = {"feedback_id": "f2", "user_hash": hashes["ann"]}
        text = f"feedback f2 of {hashes['ann']} came late; f4 did not"
        trainer.append(Event(at=NOW, kind="alert", text=text, detail={"evidence": evidence, "other": "f2"})).result(5)
    forget(tmp_path, user_hashes=[hash_of_user(tmp_path, "ann", "tenant")])
    assert holding(tmp_path, hashes["ann"]) == []
    with Reader(tmp_path).snapshot() as snapshot:
        event = snapshot.frame("events").to_dicts()[-1]
    assert event["text"] == f"feedback {FORGOTTEN} of {FORGOTTEN} came late; f4 did not"
    assert json.loads(event["detail"])["evidence"] == {"feedback_id": FORGOTTEN, "user_hash": FORGOTTEN}


def test_a_user_of_two_tenants_is_two_people(tmp_path: Path, conversation: Any) -> None:
    hashes = fill(tmp_path, conversation)
    with pytest.raises(StoreError, match="gave feedback to tenants other, tenant, who may be different people"):
        hash_of_user(tmp_path, "ann")
    assert hash_of_user(tmp_path, "ann", "other") == hashes["other"]
    with pytest.raises(StoreError, match="no feedback of user 'ann' of tenant 'third'"):
        hash_of_user(tmp_path, "ann", "third")
    gone = forget(tmp_path, user_hashes=[hashes["other"]])
    assert (gone.sessions, gone.turns) == (("b",), 6)
    assert [each.name for each in gone.versions] == ["bot@2"]
    with Reader(tmp_path).snapshot() as snapshot:
        assert snapshot.frame("turns").height == 12


def test_a_session_that_another_tenant_shares_is_not_taken_along(tmp_path: Path, conversation: Any) -> None:
    turns: list[Turn] = conversation("shared", 2)
    with Writer(tmp_path, "collector", CALM) as writer:
        hashed = user_hash(user_key(tmp_path), "tenant", "ann")
        writer.append(turns[0])
        writer.append(msgspec.structs.replace(turns[1], tenant="other"))
        writer.append(judged("f", "tenant", hashed, session_id="shared")).result(5)
    with pytest.raises(StoreError, match="holds turns of tenant 'other' as well as of the user's tenant 'tenant'"):
        forget(tmp_path, user_hashes=[hashed])
    assert verify(tmp_path).erased == 0


def test_a_user_without_feedback_or_a_store_without_a_key_is_refused(tmp_path: Path, conversation: Any) -> None:
    with Writer(tmp_path, "collector", CALM) as writer:
        writer.append(conversation("a", 1)[0]).result(5)
    with pytest.raises(StoreError, match="no such file, expected the key that users were hashed with"):
        hash_of_user(tmp_path, "ann")
    assert not (tmp_path / "user_hash.key").exists()
    with pytest.raises(StoreError, match="no feedback with user_hash 'ff'"):
        forget(tmp_path, user_hashes=["ff"])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("the first is a-1", None),
        ("the first is a.", f"the first is {FORGOTTEN}."),
        ("a/b and a: c", f"a/b and {FORGOTTEN}: c"),
        ("data a.b", None),
    ],
)
def test_a_name_inside_another_one_is_left_alone(text: str, left: str | None) -> None:
    values = Mentions(["a"]).without([None] * 8 + [text, None])
    assert (None if values is None else values[8]) == left


def test_a_word_of_an_alerts_structure_is_not_taken_for_a_session() -> None:
    detail = msgspec.json.encode({"change": "fired", "evidence": {"session_id": "fired"}, "by": {"fired": 1}})
    values = Mentions(["fired"]).without([None] * 9 + [detail])
    assert values is not None
    assert json.loads(values[9]) == {"change": "fired", "evidence": {"session_id": FORGOTTEN}, "by": {"fired": 1}}


def test_descendants_are_those_of_the_same_adapter() -> None:
    def version(adapter: str, number: int, parent: int | None, ranges: list[tuple[str, int, int]]) -> Version:
        return Version(
            adapter=adapter, version=number, state="live", parent=parent, trained_on=ranges, created_at=NOW,
            changed_at=NOW,
        )  # fmt: skip

    versions = [
        version("x", 0, None, []),
        version("x", 1, 0, [("c", 1, 3), ("c", 7, 9)]),
        version("x", 2, 1, []),
        version("x", 3, 2, [("c", 4, 6)]),
        version("x", 4, 0, [("d", 1, 99)]),
        version("y", 1, 0, []),
        version("y", 2, 1, []),
    ]
    found = versions_trained_on(versions, {("c", 3), ("c", 5), ("c", 100)})
    assert [(each.name, each.through) for each in found] == [("x@1", None), ("x@2", 1), ("x@3", None)]
    assert versions_trained_on(versions, {("c", 10)}) == []


def test_the_command_shows_before_it_erases(
    tmp_path: Path, conversation: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, conversation)
    words = ["forget", "--user", "ann", "--tenant", "tenant", "--store", str(tmp_path)]
    assert main([*words, "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["dry_run"], told["turns"], [each["name"] for each in told["versions"]]) == (
        True,
        12,
        ["bot@1", "bot@2"],
    )
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}: erased 27 records, 12 turns among them",
        "  session a-session-without-turns",
        f"  session {SECRET}",
        "  session ann-session-two",
        "  bot@1 (candidate): trained on it",
        "  bot@2 (candidate): continues from version 1, which was",
    ]
    assert main(words) == 2
    assert "no feedback of user 'ann'" in capsys.readouterr().err
    assert main(["forget", "--store", str(tmp_path)]) == 2
