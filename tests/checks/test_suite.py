"""The suite: every check is registered, has its manual, a fault that fires it and a healthy log that does not."""

import importlib
from pathlib import Path

import polars as pl
import pytest

from checks.check import Check
from checks.finding import Finding
from checks.measure import Tools
from checks.readers.open_log import open_log
from checks.suite import CHECKS, run, select_checks
from collector.errors import UserError
from collector.rendering.renderer import Renderer
from trainer.tiny_model import write_byte_tokenizer

ROOT = Path(__file__).parents[2]
SECTIONS = ("Definition:", "Units:", "Reads:", "Threshold:", "Check next:")
by_name = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)


@pytest.fixture(scope="module")
def byte_tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """The tokenizer and template that samples of checks with `--tokenizer` are written with: a byte is an id."""
    folder = tmp_path_factory.mktemp("tokenizer")
    write_byte_tokenizer(folder)
    renderer = Renderer.from_folder(folder)
    return Tools(renderer.tokenizer, renderer)


def found_in(sample: str, check: Check, byte_tools: Tools) -> Finding:
    """What a check says of one of its samples; the tokenizer is given only to checks that can do nothing without."""
    tools = byte_tools if any(measure.needs_tokenizer for measure in check.measures) else None
    log = open_log(ROOT / "samples" / check.name / sample)
    return run(log, checks=[check], tools=tools).finding(check.name)


def test_every_file_of_a_check_is_registered() -> None:
    files = {path.stem for path in (ROOT / "checks" / "faults").glob("[!_]*.py")}
    assert {check.name.replace("-", "_") for check in CHECKS} == files


@by_name
def test_the_manual_has_every_section(check: Check) -> None:
    lines = check.manual.splitlines()
    assert [name for name in SECTIONS if not any(line.startswith(name) for line in lines)] == []
    assert check.function.__doc__ is not None
    module = importlib.import_module(check.function.__module__)
    assert module.__doc__ is not None
    assert lines[0] == module.__doc__.splitlines()[0], "the module's first line is the manual's"


@by_name
def test_a_recorded_fault_fires_it(check: Check, byte_tools: Tools) -> None:
    found = found_in("fires.jsonl", check, byte_tools)
    assert found.status in ("warn", "fail", "info"), found.summary
    assert found.summary


@by_name
def test_a_healthy_log_leaves_it_quiet(check: Check, byte_tools: Tools) -> None:
    found = found_in("healthy.jsonl", check, byte_tools)
    assert found.status == "ok", found.summary
    assert not found.evidence


def test_a_check_that_needs_a_tokenizer_is_no_data_without_one_and_where_nothing_was_observed(
    byte_tools: Tools,
) -> None:
    turns = {"turns": pl.DataFrame({"session_id": ["s"]})}
    needing = [check for check in CHECKS if any(measure.needs_tokenizer for measure in check.measures)]
    assert needing
    for check in needing:
        without = run(turns, checks=[check]).finding(check.name)
        given = run(turns, checks=[check], tools=byte_tools).finding(check.name)
        assert (without.status, without.missing) == ("no_data", ("turns.completion_ids", "--tokenizer"))
        assert (given.status, given.value, given.metrics) == ("no_data", None, {})
        assert given.missing
        assert given.missing != ("--tokenizer",)


@by_name
def test_nothing_observed_is_no_data(check: Check) -> None:
    found = run({"turns": pl.DataFrame({"session_id": ["s"]})}, checks=[check]).finding(check.name)
    assert (found.status, found.value, found.metrics) == ("no_data", None, {})
    assert found.missing, "no_data names the columns that would supply it"


def test_an_unknown_check_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="no check 'truncaton', expected some of"):
        select_checks(["truncaton"])


def test_an_unknown_threshold_is_refused_by_name() -> None:
    turns = pl.DataFrame({"session_id": ["s"], "finish_reason": ["stop"]})
    with pytest.raises(UserError, match="truncation has no threshold 'warn', expected some of warn_at, fail_at"):
        run({"turns": turns}, checks=select_checks(["truncation"]), thresholds={"truncation": {"warn": 1}})


def test_advice_is_given_for_what_the_log_lacks_and_not_for_what_is_too_little() -> None:
    steps = pl.DataFrame({"step": range(60), "grad_norm": [1.0, 1.1, 1.0] + [None] * 57})
    first = run({"steps": steps}, checks=select_checks(["first-mover"])).finding("first-mover")
    assert first.status == "no_data"
    assert "steps.grad_norm" not in first.missing
    assert "steps.entropy" in first.missing
    assert "give the frame a column steps.entropy" in first.check_next

    turns = pl.DataFrame({"session_id": ["a", "b"], "group_id": ["g", "g"], "reward": [0.5, 2.0]})
    passed = run({"turns": turns}, checks=select_checks(["pass-at-k"])).finding("pass-at-k")
    assert (passed.status, passed.missing) == ("no_data", ("evals.passed", "steps.pass_at_1"))


def test_a_log_of_text_is_not_told_that_a_tokenizer_is_all_it_lacks() -> None:
    checks = select_checks(["retokenization-drift"])
    text = run({"turns": pl.DataFrame({"session_id": ["a"]})}, checks=checks).findings[0]
    assert (text.summary, text.missing) == (
        "needs token ids, and the model's tokenizer",
        ("turns.completion_ids", "--tokenizer"),
    )
    turns = pl.DataFrame({"session_id": ["a"], "prompt_ids": [[1]], "completion_ids": [[2]]})
    tokens = run({"turns": turns}, checks=checks).findings[0]
    assert (tokens.summary, tokens.missing, tokens.check_next) == ("needs the model's tokenizer", ("--tokenizer",), ())


@pytest.mark.parametrize(
    ("log", "checks", "said"),
    [
        (
            pl.DataFrame({"session_id": ["s"]}),
            CHECKS,
            r"a DataFrame, expected frames by table: run\({'turns': frame}\)",
        ),
        ([{"session_id": "s"}], CHECKS, r"a list, expected frames by table: run\({'turns': frame}\)"),
        ({}, ["truncation"], r"checks holds 'truncation', expected checks: checks=select_checks\(\['truncation'\]\)"),
    ],
)
def test_what_a_script_hands_over_by_mistake_is_one_line(log: object, checks: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        run(log, checks=checks)  # type: ignore[arg-type]
