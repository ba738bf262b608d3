"""`roundhouse import`: text of other tools as turns that nobody can take for trainable, once however often."""

import json
from pathlib import Path
from typing import Any

import pytest

from collector.store.reader import Reader
from collector.store.verify import verify
from console.cli import main
from tests.checks.readers.reading import write_lines
from tests.checks.readers.seeds import CODEX_LINES, OTLP, phoenix_parquet

Captured = pytest.CaptureFixture[str]


def stored(store: Path) -> list[dict[str, Any]]:
    with Reader(store).snapshot() as snapshot:
        assert snapshot.damage == ()
        return snapshot.frame("turns").to_dicts()


def imported(store: Path, capsys: Captured, *words: str) -> dict[str, Any]:
    assert main(["import", *words, "--store", str(store), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def claude_code() -> Path:
    for parent in Path(__file__).resolve().parents:
        found = parent / "shared/samples/claude-code/simonw__sample_session.jsonl"
        if found.exists():
            return found
    pytest.skip("shared/samples/claude-code is not above this folder: a real session file is read from there")


def test_a_codex_rollout_is_imported_once(tmp_path: Path, capsys: Captured) -> None:
    store, rollout = tmp_path / "store", write_lines(tmp_path / "rollout-c.jsonl", CODEX_LINES)
    planned = imported(store, capsys, str(rollout), "--dry-run")
    assert (planned["imported"], store.exists()) == (2, False)
    assert imported(store, capsys, str(rollout))["imported"] == 2
    # The same lines under another name are the same calls.
    again = write_lines(tmp_path / "copies/rollout-d.jsonl", CODEX_LINES)
    told = imported(store, capsys, str(rollout), str(again))
    assert (told["found"], told["imported"], told["already_there"]) == (2, 0, 2)
    turns = stored(store)
    assert verify(store).clean
    assert [(turn["session_id"], turn["turn"]) for turn in turns] == [
        ("dev/import-codex/C", 1),
        ("dev/import-codex/C", 2),
    ]
    for turn in turns:
        assert (turn["api"], turn["trainable"], turn["untrainable_reason"]) == ("import:codex", False, "no_tokens")
        assert (turn["prompt_ids"], turn["completion_ids"], turn["sampled_logprobs"]) == ([], [], [])
        assert (turn["writer"], turn["tenant"], turn["base_model"]) == ("import", "dev", "gpt")
    assert json.loads(turns[0]["request"])["messages"] == [{"role": "user", "content": "q"}]
    assert json.loads(turns[0]["response"])["tool_calls"][0]["function"]["name"] == "shell"


def test_what_a_rollout_gained_is_all_that_is_added(tmp_path: Path, capsys: Captured) -> None:
    store, path = tmp_path / "store", tmp_path / "rollout-c.jsonl"
    assert imported(store, capsys, str(write_lines(path, CODEX_LINES[:-3])))["imported"] == 1
    told = imported(store, capsys, str(write_lines(path, CODEX_LINES)))
    assert (told["imported"], told["already_there"]) == (1, 1)


def test_a_claude_code_session_is_imported(tmp_path: Path, capsys: Captured) -> None:
    store, path = tmp_path / "store", claude_code()
    replies = {
        line["message"].get("id") or line["uuid"]
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines())
        if line.get("type") == "assistant" and line["message"].get("model") != "<synthetic>"
    }
    told = imported(store, capsys, str(path))
    assert told["imported"] == len(replies) > 0
    assert {turn["api"] for turn in stored(store)} == {"import:claude-code"}
    assert imported(store, capsys, str(path))["imported"] == 0


def test_spans_in_json_and_parquet_are_imported(tmp_path: Path, capsys: Captured) -> None:
    store, otlp = tmp_path / "store", tmp_path / "otlp.json"
    otlp.write_text(json.dumps(OTLP))
    parquet = phoenix_parquet(tmp_path)
    told = imported(store, capsys, str(otlp), str(parquet))
    assert told["formats"] == ["otel"]
    assert told["imported"] >= 2
    assert {turn["api"] for turn in stored(store)} == {"import:otel"}
    assert imported(store, capsys, str(otlp), str(parquet))["imported"] == 0


def test_the_same_file_for_two_tenants_is_two_sets_of_turns(tmp_path: Path, capsys: Captured) -> None:
    store, rollout = tmp_path / "store", write_lines(tmp_path / "rollout-c.jsonl", CODEX_LINES)
    for tenant in ("acme", "other"):
        assert imported(store, capsys, str(rollout), "--tenant", tenant)["imported"] == 2
    turns = stored(store)
    assert {(turn["tenant"], turn["session_id"]) for turn in turns} == {
        ("acme", "acme/import-codex/C"),
        ("other", "other/import-codex/C"),
    }
    assert len({turn["turn_id"] for turn in turns}) == 4


def test_secrets_are_taken_out_where_redaction_is_enabled(tmp_path: Path, capsys: Captured) -> None:
    rules = tmp_path / "own.yml"
    rules.write_text(
        "rules:\n  - name: House key\n    id: house.key\n    pattern: '(?x)\\b(HOUSE-[0-9]{8})\\b'\n"
        "    min_entropy: 0\n    confidence: high\n    examples: ['HOUSE-12345678']\n"
    )
    config = tmp_path / "roundhouse.toml"
    config.write_text(
        f"[collector.redaction]\nenabled = true\nbuiltin_rules = false\nrules = [{json.dumps(str(rules))}]\n"
    )
    text = json.dumps(CODEX_LINES).replace('"q"', '"use HOUSE-24681357"')
    rollout, store = write_lines(tmp_path / "rollout-c.jsonl", json.loads(text)), tmp_path / "store"
    assert imported(store, capsys, str(rollout), "--config", str(config))["imported"] == 2
    turns = stored(store)
    assert json.loads(turns[0]["request"])["messages"][0]["content"] == "use [redacted:key]"
    assert {turn["untrainable_reason"] for turn in turns} == {"redacted"}


def test_other_logs_and_formats_are_refused(tmp_path: Path, capsys: Captured) -> None:
    assert main(["import", str(tmp_path), "--reads", "verl"]) == 2
    assert "--reads is verl, expected one of claude-code, codex, otel" in capsys.readouterr().err
    native = write_lines(tmp_path / "log.jsonl", [{"session_id": "s", "prompt_ids": [1], "completion_ids": [2]}])
    assert main(["import", str(native), "--store", str(tmp_path / "store")]) == 2
    assert "expected those of claude-code, codex, otel" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()
