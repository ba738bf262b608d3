"""The handed cases about prefixes and drift: breaks where and of the kind they say, with a tokenizer and without."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checks.finding import Finding
from checks.measure import Tools
from checks.readers.open_log import open_log
from checks.suite import run, select_checks
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.conftest import qwen_backend, qwen_tokenizer  # noqa: F401 - fixtures

IN_DETAIL = (
    "previous_id",
    "current_id",
    "previous_tokens_lost",
    "inside_previous",
    "index_in_previous_part",
    "previous_text_near",
    "current_text_near",
)
TEXT_NEAR = ("previous_text_near", "current_text_near")


def cases(folder: Path) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(path.read_bytes()) for path in sorted((folder / "cases").glob("*.json"))]
    chosen = [case for case in found if case["area"] in ("prefix", "drift") and "prefix_breaks" in case["expected"]]
    assert chosen, "the folder has cases of these areas"
    return chosen


def native(case: dict[str, Any], path: Path, *, messages: bool, declared: bool) -> Path:
    """The case as a native log."""
    lines: list[dict[str, Any]] = []
    for turn in case["input"]["turns"]:
        kept = {name: value for name, value in turn.items() if name not in ("messages", "event")}
        request = {"messages": turn["messages"], "tools": case["input"].get("tools")} if messages else None
        lines.append({"session_id": "s", **kept, "request": request})
        if "event" in turn and declared:
            lines.append({"record": "event", "kind": turn["event"], "session_id": "s", "turn": turn["turn"]})
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def check(path: Path, tokenizer: ChatTokenizer | None) -> Finding:
    report = run(open_log(path), checks=select_checks(["prefix-break"]), tools=Tools(tokenizer))
    return report.finding("prefix-break")


@pytest.mark.parametrize("messages", [True, False], ids=["messages", "ids"])
@pytest.mark.parametrize("with_tokenizer", [True, False], ids=["tokenizer", "no tokenizer"])
def test_every_case_breaks_where_it_says(
    shared_folder: Path,
    tmp_path: Path,
    messages: bool,
    with_tokenizer: bool,
    qwen_tokenizer: ChatTokenizer,  # noqa: F811 - a fixture
) -> None:
    for case in cases(shared_folder):
        if with_tokenizer and case.get("tokenizer", {}).get("name") != "qwen3":
            continue
        path = native(case, tmp_path / f"{case['case']}.jsonl", messages=messages, declared=True)
        finding = check(path, qwen_tokenizer if with_tokenizer else None)
        expected = case["expected"]["prefix_breaks"]
        places = [(each.turn, each.previous_turn, each.token_index) for each in finding.evidence]
        assert places == [(each["turn"], each["previous_turn"], each["token_index"]) for each in expected], case["case"]
        declared = {turn["turn"] for turn in case["input"]["turns"] if "event" in turn}
        undeclared = [each for each in expected if each["turn"] not in declared]
        assert finding.value == len(undeclared), case["case"]
        assert finding.status == ("fail" if undeclared else "info" if expected else "ok"), case["case"]
        for told, fault in zip(expected, finding.evidence, strict=True):
            exact = with_tokenizer or told["turn"] in declared
            assert fault.kind in ({told["kind"]} if exact else {told["kind"], "other"}), case["case"]
            wanted = {
                name: told[name] for name in IN_DETAIL if name in told and (with_tokenizer or name not in TEXT_NEAR)
            }
            assert {name: fault.detail[name] for name in wanted} == wanted, case["case"]


@pytest.mark.parametrize("messages", [True, False], ids=["messages", "ids"])
def test_a_compaction_that_nobody_declared_is_a_new_root(shared_folder: Path, tmp_path: Path, messages: bool) -> None:
    silent = [case for case in cases(shared_folder) if "without_event" in case["expected"].get("severity", {})]
    assert silent
    for case in silent:
        path = native(case, tmp_path / f"{case['case']}.jsonl", messages=messages, declared=False)
        assert case["expected"]["severity"]["without_event"] == "read as a new root: no finding"
        assert check(path, None).status == "ok", case["case"]
