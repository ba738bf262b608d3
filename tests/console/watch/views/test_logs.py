"""The log: everything in one order, filtered, and jumps through it."""

import pytest

from console.watch.plain.logs import plain_logs
from console.watch.views.logs import Jump, LogsAsk, LogsView, logs_view
from tests.console.watch.fake_feed import held, no_log
from tests.console.watch.small_held import ago, frame, small_held


def view(**asked: object) -> LogsView:
    return logs_view(small_held(), LogsAsk(**asked), no_log)


def said(shown: LogsView) -> list[str]:
    return [f"{line.level[0]} {line.source} {line.text}" for line in shown.rows]


ALL = [
    "i trainer run began on 1 x CPU; n/d",
    "i trainer collect",
    "i registry promote by ana: passes all",
    "w log undecided",
    "i trainer step 7 loss 0.03667 grad 0.1485",
    "f collector a \x1b[31msecret\u202e was taken out",
]


def test_events_changes_steps_and_runs_are_one_log_in_the_order_of_time() -> None:
    shown = view()
    assert said(shown) == ALL
    assert (shown.total, shown.lines, shown.warns, shown.fails) == (6, 6, 1, 1)
    assert [line.at for line in shown.rows] == [ago(s) for s in (400, 300, 250, 200, 35, 25)]


def test_the_newest_lines_are_given_unless_others_are_asked_for() -> None:
    assert said(view(count=2)) == ALL[-2:]
    assert said(view(count=2, first=1)) == ALL[1:3]
    assert said(view(count=2, first=99)) == ALL[-1:]


def test_every_log_has_its_own_words_for_how_severe_a_line_is() -> None:
    words = {"WARNING": "warn", " WARN3\n": "warn", "Error": "fail", "FATAL4": "fail", "debug": "info", "7": "info"}
    rows = [{"at": ago(9 - n), "kind": "k", "severity": word} for n, word in enumerate([*words, None])]
    shown = logs_view(held(events=frame("events", rows)), LogsAsk(), no_log)
    assert [line.level for line in shown.rows] == [*words.values(), "info"]
    assert [line.split()[1] for line in plain_logs(shown, 80)[1:]] == ["W", "W", "F", "F", "I", "I", "I"]


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        ({"filter": "level:w"}, [3]),
        ({"filter": "level:fail|warn"}, [3, 5]),
        ({"filter": "source:registry"}, [2]),
        ({"filter": "kind:step"}, [4]),
        ({"filter": "session:s-a turn:2"}, [5]),
        ({"filter": "!adapter:n/d"}, [2, 3, 4]),
        ({"filter": "secret"}, [5]),
        ({"faults": True}, [3, 5]),
        ({"adapter": "refund", "faults": True}, [3, 5]),
        ({"adapter": "other", "faults": True}, [5]),
    ],
)
def test_lines_are_left_that_meet_the_filter(asked: dict[str, object], lines: list[int]) -> None:
    shown = view(**asked)
    assert said(shown) == [ALL[line] for line in lines]
    assert shown.lines == 6


@pytest.mark.parametrize(
    ("to", "row", "by", "found"),
    [
        ("fault", 0, 1, 3),
        ("fault", 3, 1, 5),
        ("fault", 5, 1, None),
        ("fault", 5, -1, 3),
        ("minute", 0, 1, 1),
        ("minute", 3, -1, 1),
        ("minute", 4, 1, None),
        ("minute", 5, -1, 3),
        ("minute", 0, -1, None),
        ("minute", 99, -1, None),
    ],
)
def test_a_jump_leads_to_the_next_fault_or_the_first_line_a_minute_away(to: str, row: int, by: int, found: int) -> None:
    shown = view(jump=Jump(to=to, row=row, by=by), count=2, first=0)
    assert shown.jumped == found
    if found is not None:
        assert shown.first <= found < shown.first + 2


def test_of_nothing_there_is_no_line() -> None:
    shown = logs_view(held(), LogsAsk(), no_log)
    assert (shown.total, shown.rows, shown.jumped) == (0, (), None)
    assert plain_logs(shown, 80) == ["0 lines of 0, 0 warn, 0 fail"]


def test_as_lines_every_line_says_when_how_grave_and_about_what() -> None:
    lines = plain_logs(view(), 80)
    assert lines[0] == "6 lines of 6, 1 warn, 1 fail"
    assert lines[3] == "2026-11-29T11:42:37Z I registry refund@3: promote by ana: passes all"
    assert lines[6] == "2026-11-29T11:46:22Z F collector s-a turn 2: a \\x1b[31msecret\\u202e was taken out"
