"""The handed-over cases of importance weights, alignment and staleness give the expected findings and numbers."""

import json
from pathlib import Path
from typing import Any

import pytest

from checks.finding import Finding
from checks.readers.open_log import open_log
from checks.report import Report
from checks.suite import run

AREAS = ("weights", "alignment", "staleness")
TABLED = ("sampled_logprobs", "trainer_logprobs", "reference_logprobs", "weight_versions", "loss_mask", "prompt_ids")
METRICS = ("staleness_mean", "staleness_min", "staleness_max")


def native(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns of a case as lines of the native log."""
    given = case["input"]
    turns: list[dict[str, Any]] = given.get("turns") or [given]
    return [_turn(case["case"], number, turn) for number, turn in enumerate(turns, start=1)]


def _turn(session: str, number: int, given: dict[str, Any]) -> dict[str, Any]:
    ids = given.get("completion_ids") or list(range(given.get("n_completion_tokens", 0)))
    line: dict[str, Any] = {"session_id": session, "turn": number, "prompt_ids": [], "completion_ids": ids}
    line |= {name: given[name] for name in TABLED if name in given} | given.get("sampling", {})
    line |= {name: given[name] for name in ("adapter", "adapter_version", "trainer_version") if name in given}
    if "weight_version" in given:
        line["weight_versions"] = [{"version": given["weight_version"], "start": 0, "end": len(ids)}]
    if "trainer_weight_version" in given:
        line["trainer_version"] = given["trainer_weight_version"]
    return line


def checked(case: dict[str, Any], folder: Path) -> Report:
    path = folder / "case.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in native(case)))
    return run(open_log(path))


def cases(shared_folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in sorted((shared_folder / "cases").glob("*.json"))]
    return [case for case in found if case["area"] in AREAS]


def the_case(shared_folder: Path, number: str) -> dict[str, Any]:
    return next(case for case in cases(shared_folder) if case["case"].startswith(number))


def test_every_case_gives_its_ratios(shared_folder: Path, tmp_path: Path) -> None:
    with_ratios = [case for case in cases(shared_folder) if case["expected"].get("ratios")]
    assert len(with_ratios) >= 2
    for case in with_ratios:
        want = case["expected"]["ratios"]
        found = checked(case, tmp_path).finding("importance-weight")
        metrics = found.metrics
        for name in ("max_w", "min_w", "mean_w"):
            assert metrics[name] == pytest.approx(want[name], rel=1e-9), case["case"]
        assert metrics["mean_abs_dlogp"] == pytest.approx(want["mean_abs_logprob_difference"], rel=1e-9, abs=1e-15)
        tokens = sum(row["tokens"] for row in found.breakdown)
        assert tokens == want["n_tokens"]
        assert -metrics["kl_k1"] * tokens == pytest.approx(want["sequence_log_ratio"], rel=1e-9, abs=1e-12)


def test_every_case_without_ratios_gets_none(shared_folder: Path, tmp_path: Path) -> None:
    without = [case for case in cases(shared_folder) if case["expected"].get("ratios", 0) is None]
    assert without
    for case in without:
        found = checked(case, tmp_path).finding("importance-weight")
        assert (found.status, found.value, found.metrics) == ("no_data", None, {}), case["case"]


def test_every_case_gives_its_kind(shared_folder: Path, tmp_path: Path) -> None:
    for case in cases(shared_folder):
        expected = case["expected"]
        wanted = {each["kind"] for each in expected.get("findings", ())} | {expected.get("kind")} - {None}
        found = {each.kind for finding in checked(case, tmp_path).findings for each in finding.evidence}
        assert wanted <= found, case["case"]


def test_every_case_gives_its_staleness(shared_folder: Path, tmp_path: Path) -> None:
    stale = [case for case in cases(shared_folder) if "staleness_max" in case["expected"]]
    assert stale
    for case in stale:
        found = checked(case, tmp_path).finding("staleness")
        for name in METRICS:
            assert found.metrics[name] == pytest.approx(case["expected"][name], rel=1e-12), case["case"]
        assert found.metrics["mixed_version_turns"] == int(case["expected"]["mixed_versions"])


def test_raw_log_probabilities_at_a_temperature_fail_with_their_cause(shared_folder: Path, tmp_path: Path) -> None:
    found = checked(the_case(shared_folder, "019"), tmp_path).finding("importance-weight")
    assert found.status == "fail"
    assert [(each.turn, each.token_index, each.kind) for each in found.evidence] == [(1, 9, "unscaled_temperature")]


def test_the_same_tokens_scored_at_the_logged_temperature_are_quiet(shared_folder: Path, tmp_path: Path) -> None:
    case = the_case(shared_folder, "019")
    case["input"]["sampled_logprobs"] = case["input"]["trainer_logprobs"]
    found = checked(case, tmp_path).finding("importance-weight")
    assert (found.status, found.value, found.metrics["max_w"]) == ("ok", 0.0, 1.0)


def test_ordinary_rounding_stays_quiet(shared_folder: Path, tmp_path: Path) -> None:
    report = checked(the_case(shared_folder, "022"), tmp_path)
    assert [finding.check for finding in report.findings if finding.status in ("warn", "fail", "info")] == []
    assert report.finding("importance-weight").status == "ok"


def test_a_list_one_longer_is_a_length_mismatch_with_both_lengths(shared_folder: Path, tmp_path: Path) -> None:
    found: Finding = checked(the_case(shared_folder, "023"), tmp_path).finding("length-mismatch")
    assert found.status == "fail"
    (fault,) = found.evidence
    assert (fault.kind, fault.detail["n_tokens"], fault.detail["n_logprobs"]) == ("length_mismatch", 32, 33)
