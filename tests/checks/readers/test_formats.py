"""All formats together: each file is one format's, and advice is for columns that there are."""

from contextlib import suppress
from pathlib import Path

import pytest

from checks.columns import SCHEMAS, SCORES_SCHEMA
from checks.readers.file_head import FileHead
from checks.readers.format import Format
from checks.readers.formats import FORMATS
from checks.readers.open_log import open_log
from collector.errors import UserError

OF_SAMPLE = {
    "harbor-atif/rolloutviz__harbor-atif.json": "harbor",
    "martingale/trl_grpo_vllm_a10g_16steps_seed0_t1.0_fp32_probe/alarms.json": "martingale",
    "martingale/trl_grpo_vllm_a10g_16steps_seed0_t1.0_fp32_probe/report.json": "martingale",
    "martingale/trl_grpo_vllm_a10g_16steps_seed0_t1.0_fp32_probe/tokens.db": "martingale",
    "martingale/trl_grpo_vllm_a10g_16steps_seed0_t1.0_fp32_probe/trainer_log.json": "martingale",
    "martingale/trl_grpo_vllm_a10g_16steps_seed0_t1.0_fp32_probe/worst_tokens.json": "martingale",
    "martingale/verl_grpo_vllm_t4_8steps_seed0/trainer_log.json": "martingale",
    "nemo-gym/competitive_coding_challenges__example_rollouts.jsonl": "nemo-gym",
    "nemo-gym/example_single_tool_call__example_rollouts.jsonl": "nemo-gym",
    "polar/h200-stitch__attempt4.quarantined.json": "polar",
    "polar/h200-stitch__attempt5.accepted.json": "polar",
    "polar/mac-fidelity__trace.json": "polar",
    "verifiers/rolloutscope__metadata.json": "verifiers-v0",
    "verifiers/rolloutscope__multi_turn_rollout.jsonl": "verifiers-v0",
    "verifiers/rolloutscope__results.jsonl": "verifiers-v0",
    "verifiers/rolloutviz__verifiers-generate.json": "verifiers-v0",
}


def test_names_are_told_apart_and_said_in_one_line() -> None:
    assert len({form.name for form in FORMATS}) == len(FORMATS)
    assert all(form.about and "\n" not in form.about for form in FORMATS)


def test_advice_is_for_columns_that_there_are() -> None:
    columns = {f"{table}.{column}" for table, schema in SCHEMAS.items() for column in schema}
    columns |= {f"scores.{column}" for column in SCORES_SCHEMA}
    assert {(form.name, column) for form in FORMATS for column in form.advice if column not in columns} == set()


@pytest.mark.parametrize("name", OF_SAMPLE)
def test_a_sample_is_read_by_its_own_format(shared_folder: Path, name: str) -> None:
    head = FileHead.of(shared_folder / "samples" / name)
    assert next(form.name for form in FORMATS if form.recognise(head) is not None) == OF_SAMPLE[name]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_forced_format_reads_or_refuses_whatever_the_file_is(
    shared_folder: Path, tmp_path: Path, form: Format
) -> None:
    samples = [path for path in (shared_folder / "samples").rglob("*") if path.is_file()]
    for name, content in {
        "empty": b"",
        "noise": bytes(range(256)) * 64,
        "sqlite": b"SQLite format 3\x00" + b"\x00llm_revisions sequence_digest wire_rows" * 200,
        "deep": b"[" * 50_000,
        "utf16": '{"a": 1}\n'.encode("utf-16"),
        "nan": b'{"step": NaN, "time": Infinity}\n',
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        samples.append(path)
    for path in samples:
        with suppress(UserError):
            assert sum(batch.turns.height for batch in open_log(path, reads=form.name).batches(["prompt_ids"])) >= 0


def test_logs_of_other_kinds_are_left_to_others(shared_folder: Path) -> None:
    ours = {form.name: form for form in FORMATS if form.name in {*OF_SAMPLE.values(), "atropos", "marin", "prime-rl"}}
    for folder in ("claude-code", "swe-agent"):
        for path in (shared_folder / "samples" / folder).iterdir():
            assert [name for name, form in ours.items() if form.recognise(FileHead.of(path)) is not None] == []
