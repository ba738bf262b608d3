"""The text report: worst first, faults with their tokens, safe on any terminal of 60 columns or more."""

import math
import re
from collections.abc import Callable

import msgspec
import pytest

from checks.finding import Evidence, Finding, Threshold
from checks.log import Source, Unreadable
from checks.report import Counts, Report
from console.check_report.html import render_html
from console.check_report.text import render_text
from tests.console.check_report.conftest import Exhibits
from tests.console.check_report.made_report import HOSTILE, report

Shown = Callable[[Report], Exhibits]


def rendered(
    shown: Shown, *, width: int = 120, text: str = "plain", colour: bool = False, encoding: str = "utf-8"
) -> str:
    """The made report as text."""
    made = report(text)
    return render_text(made, shown(made), width=width, colour=colour, encoding=encoding)


def of(*findings: Finding) -> Report:
    """A report of these findings."""
    source = Source(path="log.jsonl", format="native", reason="native: lines")
    return Report(source=source, counts=Counts(turns=1, sessions=1, tokens=1234), findings=findings)


def test_the_table_is_worst_first_with_a_word_and_a_sign_for_each_status(shown: Shown) -> None:
    rows = re.findall(r"^(\S) (FAIL|WARN|info|no data|ok) +([a-z-]+)  ", rendered(shown), re.MULTILINE)
    assert [f"{sign} {word}" for sign, word, _ in rows] == [
        *["✗ FAIL"] * 5,
        *["! WARN"] * 4,
        *["i info"] * 2,
        *["✓ ok"] * 3,
    ]
    assert len({name for _, _, name in rows}) == 14


def test_the_checks_without_data_are_one_row_below_the_table(shown: Shown) -> None:
    names = [finding.check for finding in report("plain").findings if finding.status == "no_data"]
    assert len(names) == 5
    row = rendered(shown).partition("\n? no data  ")[2].partition("\n\n")[0]
    assert " ".join(row.split()) == ", ".join(names)


def test_a_log_without_tokens_or_without_turns_has_no_zero_of_them() -> None:
    text = Report(source=Source(path="log", format="f"), counts=Counts(turns=2, sessions=1, tokens=0), findings=())
    assert "\n2 turns, 1 session, no token ids: text only\n" in render_text(text, {}, width=80, colour=False)
    none = Report(source=Source(path="log", format="f"), counts=Counts(turns=0, sessions=0, tokens=0), findings=())
    assert "\nno turns: only metrics by step, evaluations and the like\n" in render_text(
        none, {}, width=80, colour=False
    )


def test_files_that_were_passed_over_are_counted_with_the_reason_for_the_first(shown: Shown) -> None:
    first = (Unreadable(place="run/notes.txt", reason="no known format"),)
    source = Source(path="run", format="f", skipped=2, skipped_first=first)
    made = Report(source=source, counts=Counts(turns=1, sessions=1, tokens=1), findings=())
    assert "\n2 files left out, the first: run/notes.txt: no known format\n" in render_text(
        made, {}, width=80, colour=False
    )
    assert "2 files left out, the first: run/notes.txt: no known format</p>" in render_html(made, {})


def test_the_same_advice_for_two_columns_is_given_once() -> None:
    finding = Finding.no_data("c", "nothing", missing=("a.b", "a.c"))
    made = of(msgspec.structs.replace(finding, check_next=("set the flag", "set the flag")))
    assert render_text(made, {}, width=80, colour=False).count("set the flag") == 1


def test_the_header_says_what_was_read_and_what_was_not(shown: Shown) -> None:
    assert rendered(shown).splitlines()[:8] == [
        "runs/plain: native, 2 files",
        "2 turns, 1 session, 159 tokens",
        "recognised by native: lines with plain",
        "25 pieces could not be read:",
        "  plain:0: not JSON: plain",
        "  plain:1: not JSON: plain",
        "  plain:2: not JSON: plain",
        "  … and 22 more",
    ]


def test_a_break_is_a_small_diff_with_ids_and_text(shown: Shown) -> None:
    text = rendered(shown)
    start = text.index("session s · turn 2 · continues turn 1 · prompt token 35 · reasoning_stripped")
    assert text[start:].splitlines()[:8] == [
        "session s · turn 2 · continues turn 1 · prompt token 35 · reasoning_stripped · previous_id 259  [log.jsonl:2]",
        "             23   10 257 97 115 115 105 115 116 97 110 116 10",
        '                  "\\n<|im_start|>assistant\\n"',
        "      - turn 1 as it went on",
        "      -      35   259 10 49 55 32 112 108 117 115 32 50 53",
        '      -           "<think>\\n17 plus 25"',
        "      + turn 2 as sent",
        "      +      35   84 104 101 32 115 117 109 32 105 115 32 52",
    ]


def test_a_token_at_fault_is_marked_and_has_its_weight(shown: Shown) -> None:
    # exp(-5.25 - -0.25) = exp(-5) = 0.0067379
    assert '      >      8  111  -0.2500     -5.2500  0.00674  "o"' in rendered(shown).splitlines()


def test_the_first_faults_are_shown_and_the_others_counted(shown: Shown) -> None:
    text = rendered(shown)
    assert text.count("mismatch_at_equal_version · log w") == 3
    assert "… and 12 more (--format json lists the first 12)" in text
    many = of(Finding(check="c", status="warn", summary="", evidence=(Evidence(step=1),) * 9))
    assert "… and 6 more (--format json lists all)" in render_text(many, shown(many), width=80, colour=False)


def test_what_could_not_be_checked_says_what_is_missing_and_how_to_record_it(shown: Shown) -> None:
    no_data = Finding(
        check="staleness",
        status="no_data",
        summary="no versions",
        missing=("turns.weight_versions", "turns.trainer_step"),
        check_next=("run the trainer with --dump-details",),
    )
    made = of(no_data)
    assert (
        "\nCould not be checked: what is missing, and what records it\n? staleness: no versions\n"
        "    missing: turns.weight_versions, turns.trainer_step\n"
        "    run the trainer with --dump-details\n"
    ) in render_text(made, {}, width=80, colour=False)


def test_lines_below_a_check_without_data_keep_their_indent_where_they_wrap(shown: Shown) -> None:
    names = tuple(f"turns.column_{at}" for at in range(9))
    no_data = Finding.no_data("staleness", "nothing", missing=names)
    told = render_text(of(no_data), {}, width=60, colour=False).partition("? staleness: nothing\n")[2].split("\n\n")[0]
    assert len(told.splitlines()) > 2
    assert {line[:4] for line in told.splitlines()} == {"    "}
    assert " ".join(told.split()) == f"missing: {', '.join(names)}"


def test_the_end_says_what_to_look_at_next_worst_first(shown: Shown) -> None:
    end = rendered(shown).partition("What to look at next\n")[2].splitlines()
    assert end[:2] == ["1. importance-weight: temperature; dtype plain", "2. prefix-break: the chat template"]
    assert end[-1].startswith("roundhouse explain importance-weight ")
    well = of(Finding(check="c", status="ok", summary="fine", value=0))
    assert render_text(well, {}, width=80, colour=False).endswith("\nNothing to look at next.\n")


@pytest.mark.parametrize("width", [60, 79, 80, 100, 120, 200])
@pytest.mark.parametrize("text", ["plain", HOSTILE], ids=["plain", "hostile"])
def test_no_line_is_longer_than_the_terminal_and_no_check_is_lost(shown: Shown, width: int, text: str) -> None:
    lines = rendered(shown, width=width, text=text).splitlines()
    assert max(map(len, lines)) <= width
    assert all(any(name in line for line in lines) for name in ("retokenization-drift", "warn 0.01, fail 0.1"))


@pytest.mark.parametrize("colour", [False, True])
def test_text_of_models_reaches_no_terminal_as_it_is(shown: Shown, colour: bool) -> None:
    text = rendered(shown, text=HOSTILE, colour=colour)
    own = re.sub(r"\x1b\[[0-9;]*m", "", text) if colour else text
    assert all(letter.isprintable() or letter == "\n" for letter in own)
    assert "\\x1b[31mred" in own
    assert "\\u202eevil" in own
    if colour:
        assert text != own
        assert set(re.findall(r"\x1b\[[0-9;]*m", text)) <= {
            f"\x1b[{code}m" for code in ("0", "1", "2", "31", "32", "33", "36", "1;31")
        }


def test_markup_of_the_drawing_library_is_text(shown: Shown) -> None:
    made = of(Finding(check="c", status="warn", summary="[bold red]x[/] :smile: [link=http://x]y[/link]"))
    assert "[bold red]x[/] :smile: [link=http://x]y[/link]" in render_text(made, {}, width=120, colour=True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_an_output_without_our_signs_gets_others(shown: Shown, encoding: str) -> None:
    text = rendered(shown, encoding=encoding, text="naïve ☃")
    text.encode(encoding)
    assert "x FAIL  prefix-break" in text
    assert "\\u2603" in text


def test_a_report_without_checks_says_so() -> None:
    assert "No check was run." in render_text(of(), {}, width=80, colour=False)


def test_a_column_without_a_value_is_left_out_and_zero_is_a_value() -> None:
    rows = ({"adapter": None, "lag": 0, "w": 1.5}, {"adapter": None, "lag": 0, "w": None})
    text = render_text(of(Finding(check="c", status="warn", summary="", breakdown=rows)), {}, width=80, colour=False)
    assert "\n    lag    w\n      0  1.5\n      0\n" in text


def test_a_number_is_said_once_and_further_numbers_stand_for_a_missing_remark(shown: Shown) -> None:
    def line(check: str = "c", **fields: object) -> str:
        made = of(Finding(check=check, status="warn", summary="", unit="s", evidence=(Evidence(step=4, **fields),)))  # type: ignore[arg-type]
        [found] = re.findall(r"^    (step 4.*)$", render_text(made, shown(made), width=80, colour=False), re.MULTILINE)
        return str(found)

    assert line(value=30.0, text="stood still 30 s", detail={"to_s": 60}) == "step 4 · stood still 30 s"
    assert line(value=2.0, text="worse than before") == "step 4 · worse than before"
    assert line("truncation", value=2.0, text="cut") == "step 4 · 2 tokens · cut"
    assert line(value=30.0, detail={"to_s": 1234, "token_id": 1234, "none": None}) == (
        "step 4 · 30 s · to_s 1,234 · token_id 1234"
    )
    assert line(kind="stale", status="info") == "step 4 · stale · alone info"


def test_a_threshold_that_was_turned_off_is_off() -> None:
    limits = Threshold(warn=0.1, fail=math.inf)
    made = of(Finding(check="c", status="ok", value=0.0, unit="share", threshold=limits, summary=""))
    assert "warn 10 %, fail off" in render_text(made, {}, width=80, colour=False)
