"""The view of a watched store and its lines: fitting, escaped, and without a sign that the terminal cannot draw."""

from io import StringIO

import pytest
from rich.console import Console

from checks.alerting.config import AlertsConfig, RuleConfig
from checks.alerting.delivery import Counts as Notices
from checks.alerting.evaluator import Evaluated, Evaluator
from checks.alerting.rule import rules_of
from checks.alerts import acknowledge
from checks.finding import Evidence, Finding
from checks.log import Source
from checks.readers.store_window import Window
from checks.report import Counts, Report
from console.check_watch.change_lines import change_lines
from console.check_watch.view import view
from tests.checks.alerting.timeline import second

WINDOW = Window(seconds=3600)
HOSTILE = "s\x1b]0;pwned\x07\nnext"


def evaluations(count: int, *, rules: int = 1) -> list[Evaluated]:
    """A metric at fault from the start, watched by several rules; one that needs longer; one without data."""
    own = {f"rule{n}": RuleConfig(metric="max_w", above=5.0) for n in range(rules)}
    own |= {
        "slow": RuleConfig(metric="max_w", above=5.0, for_evaluations=99),
        "blind": RuleConfig(metric="mfu", below=0.1),
    }
    of = Evaluator(rules_of(AlertsConfig(rules=own), []), window=WINDOW.name, actor="e", incident_window_s=600)
    place = Evidence(session_id=HOSTILE, turn=4, token_index=1187)
    finding = Finding(check="c", status="fail", value=8.32, summary="x", evidence=(place,), metrics={"max_w": 8.32})
    source = Source(path="store\x1b[2J", format="native", unreadable=2)
    report = Report(source=source, counts=Counts(turns=1, sessions=1, tokens=9), findings=(finding,))
    acked = acknowledge("rule0", actor="ana\x07", at=second(15))
    return [of.evaluate(report, [acked] if n == 2 else [], second(10 * n)) for n in range(count)]


def drawn(evaluated: Evaluated, width: int, *, ascii_only: bool = False) -> str:
    out = StringIO()
    shown = view(
        evaluated,
        WINDOW,
        changes=["changed\x1b[31m"],
        problems=["π went wrong"],
        delivery=Notices(delivered=1200, failed=1),
        ascii_only=ascii_only,
    )
    Console(file=out, width=width, highlight=False).print(shown)
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_line_fits_and_none_is_broken(width: int, ascii_only: bool) -> None:
    text = drawn(evaluations(3)[-1], width, ascii_only=ascii_only)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) == len(drawn(evaluations(3)[-1], 500).splitlines())
    assert not ascii_only or text.isascii()
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_it_says_who_acknowledged_what_is_pending_and_what_has_no_data() -> None:
    assert drawn(evaluations(3)[-1], 300).splitlines() == [
        "store\\x1b[2J  at 12:00:20Z",
        "the last 1 h: 1 turn, 1 session, 9 tokens",
        "2 pieces could not be read",
        "",
        "incident 1: first rule0, 12:00:00Z",
        " ◇  rule0  ACKED by ana\\x07 (warn)  8.32 (threshold 5)  for 20 s  "
        "session s\\x1b]0;pwned\\x07\\nnext · turn 4 · token 1187",
        "no incident yet",
        " △  slow   PENDING warn             8.32 (threshold 5)  for 20 s  "
        "session s\\x1b]0;pwned\\x07\\nnext · turn 4 · token 1187",
        "",
        "alerts: 1 pending, 1 acked, 1 no data",
        "checks: 1 failed",
        "notices: 1,200 delivered, 1 failed, 0 dropped, 0 waiting",
        "changed\\x1b[31m",
        "π went wrong",
    ]


def test_a_long_tie_is_cut_short_where_a_person_reads_it() -> None:
    fired = evaluations(2, rules=6)[-1]
    assert fired.board.incidents[0].title == "rule0 = rule1 = rule2 = rule3 = rule4 = rule5"
    assert "incident 1: first rule0 = rule1 = rule2 and 3 more, 12:00:00Z" in drawn(fired, 300)


def test_lines_are_one_each_and_not_repeated() -> None:
    first, second_one, third = evaluations(3)
    lines = [*change_lines(first, WINDOW, tally_before=None)]
    assert [line.split("  ")[1:3] for line in lines[:2]] == [["PENDING warn", "rule0"], ["PENDING warn", "slow"]]
    assert lines[2] == "12:00:00Z  1 failed, over the last 1 h: 1 turn, 1 session, 9 tokens"
    fired = [*change_lines(second_one, WINDOW, tally_before="1 failed")]
    assert len(fired) == 1, "one more evaluation of what is pending is no news"
    assert "FIRING warn  rule0" in fired[0]
    assert all("\n" not in line and "\x1b" not in line for line in (*lines, *fired))
    assert ["ACKED" in line for line in change_lines(third, WINDOW, tally_before="1 failed")] == [True]
