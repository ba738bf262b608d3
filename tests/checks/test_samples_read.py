"""Every sample log of other projects: recognised and read in full, or refused with its reason; no healthy one fails."""

from pathlib import Path
from typing import NamedTuple

import pytest

from checks.readers.open_log import open_log
from checks.report import Report
from checks.suite import run
from collector.errors import UserError

BROKEN_RUN = "martingale/trl_grpo_vllm_a10g_16steps_seed0_t1.0_fp32_probe"
"""A trainer in float32 beside an engine in bfloat16, recorded on purpose."""
HEALTHY_RUN = "martingale/verl_grpo_vllm_t4_8steps_seed0"
CODING = "nemo-gym/competitive_coding_challenges__example_rollouts.jsonl"


class Sample(NamedTuple):
    """What a file or folder holds, and what of it is wrong."""

    format: str
    reason: str
    """A part of why it was recognised."""
    turns: int
    sessions: int
    tokens: int
    warns: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()


READ = {
    f"{BROKEN_RUN}/tokens.db": Sample(
        "martingale", "SQLite with the tables llm_revisions", 64, 64, 3120, (), ("importance-weight",)
    ),
    f"{BROKEN_RUN}/trainer_log.json": Sample("martingale", "a trainer's log with", 0, 0, 0, ("entropy",)),
    BROKEN_RUN: Sample(
        "martingale", "SQLite with the tables llm_revisions", 64, 64, 3120, ("entropy",), ("importance-weight",)
    ),
    f"{HEALTHY_RUN}/trainer_log.json": Sample("martingale", "a trainer's log with", 0, 0, 0, ("grad-norm",)),
    HEALTHY_RUN: Sample("martingale", "a trainer's log with", 0, 0, 0, ("grad-norm",)),
    CODING: Sample("nemo-gym", "responses_create_params and response", 5, 5, 5568, ("zero-variance-group",)),
    "nemo-gym/example_single_tool_call__example_rollouts.jsonl": Sample(
        "nemo-gym", "responses_create_params and response", 8, 5, 0
    ),
    "nemo-gym": Sample("nemo-gym", "responses_create_params and response", 13, 10, 5568, ("zero-variance-group",)),
    # Set aside by its project for log-probabilities of exactly 0, which are normal.
    "polar/h200-stitch__attempt4.quarantined.json": Sample(
        "polar", "prompt_ids, response_ids and loss_mask", 2, 1, 9849
    ),
    "polar/h200-stitch__attempt5.accepted.json": Sample("polar", "prompt_ids, response_ids and loss_mask", 2, 1, 29925),
    "polar/mac-fidelity__trace.json": Sample("polar", "prompt_ids, response_ids and loss_mask", 2, 1, 9886),
    "harbor-atif/rolloutviz__harbor-atif.json": Sample("harbor", "schema_version ATIF and steps", 3, 2, 0),
    "verifiers/rolloutscope__results.jsonl": Sample("verifiers-v0", "example_id, prompt, completion", 5, 5, 0),
    "verifiers/rolloutscope__multi_turn_rollout.jsonl": Sample(
        "verifiers-v0", "example_id, prompt, completion", 2, 1, 0
    ),
    "verifiers/rolloutviz__verifiers-generate.json": Sample("verifiers-v0", "outputs with their metadata", 2, 1, 17),
    "verifiers": Sample("verifiers-v0", "example_id, prompt, completion", 9, 7, 17),
}
REFUSED = {
    "SOURCES.md": "no known format",
    f"{BROKEN_RUN}/alarms.json": "a report about a tokens.db, expected tokens.db itself",
    f"{BROKEN_RUN}/report.json": "a report about a tokens.db, expected tokens.db itself",
    f"{BROKEN_RUN}/worst_tokens.json": "a report about a tokens.db, expected tokens.db itself",
    f"{BROKEN_RUN}/config.json": "JSON with keys of no known format: batch_invariant",
    f"{BROKEN_RUN}/report.md": "no known format",
    f"{HEALTHY_RUN}/alarms.json": "a report about a tokens.db, expected tokens.db itself",
    f"{HEALTHY_RUN}/report.json": "a report about a tokens.db, expected tokens.db itself",
    f"{HEALTHY_RUN}/worst_tokens.json": "a report about a tokens.db, expected tokens.db itself",
    f"{HEALTHY_RUN}/config.json": "JSON with keys of no known format",
    f"{HEALTHY_RUN}/report.md": "no known format",
    f"{HEALTHY_RUN}/derived_flat.jsonl": "JSON with keys of no known format",
    "verifiers/rolloutscope__metadata.json": "metadata of an evaluation without its rollouts",
}
ELSEWHERE = ("claude-code", "swe-agent")
"""Folders whose readers have their own tests of these files."""


def report_on(path: Path) -> Report:
    return run(open_log(path))


def of_status(report: Report, status: str) -> tuple[str, ...]:
    return tuple(finding.check for finding in report.findings if finding.status == status)


def test_every_sample_is_pinned_here(shared_folder: Path) -> None:
    samples = shared_folder / "samples"
    files = {
        str(path.relative_to(samples))
        for path in samples.rglob("*")
        if path.is_file() and path.suffix not in (".db-shm", ".db-wal")
    }
    assert {name for name in files if name.split("/")[0] not in ELSEWHERE} == {
        name for name in (*READ, *REFUSED) if (samples / name).is_file()
    }


@pytest.mark.parametrize("name", READ)
def test_a_sample_is_read_whole_and_fails_only_where_its_run_was_broken(name: str, shared_folder: Path) -> None:
    expected = READ[name]
    report = report_on(shared_folder / "samples" / name)
    source, counts = report.source, report.counts
    assert (source.format, source.unreadable) == (expected.format, 0)
    assert source.reason.startswith(f"{expected.format}: ")
    assert expected.reason in source.reason
    assert (counts.turns, counts.sessions, counts.tokens) == (expected.turns, expected.sessions, expected.tokens)
    assert (of_status(report, "fail"), of_status(report, "warn")) == (expected.fails, expected.warns)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_log_is_refused_with_its_reason(name: str, shared_folder: Path) -> None:
    path = shared_folder / "samples" / name
    if "tokens.db" in REFUSED[name] or "without its rollouts" in REFUSED[name]:
        report = report_on(path)
        assert report.counts.turns == 0
        (only,) = report.source.unreadable_first
        assert REFUSED[name] in only.reason
    else:
        with pytest.raises(UserError, match=f"{REFUSED[name]}.*expected a store or a file of a known format"):
            open_log(path)
