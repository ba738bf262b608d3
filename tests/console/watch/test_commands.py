"""What is typed after a colon, and times as they are typed."""

from datetime import UTC, datetime

import pytest

from collector.errors import UserError
from console.watch.frame.commands import COMMANDS, completed, read_command
from console.watch.frame.typed_time import step_asked, typed_time

NEWEST = datetime(2026, 11, 29, 11, 46, 47, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "name", "rest"),
    [
        ("adapters", "adapters", ""),
        ("traj 7f3a", "trajectories", "7f3a"),
        ("traj 7f3a 4 1187", "trajectories", "7f3a 4 1187"),
        ("  at   11:31 ", "at", "11:31"),
        ("q", "quit", ""),
        ("q!", "quit", ""),
        ("QUIT", "quit", ""),
        ("log level:fail", "logs", "level:fail"),
        ("damag", "damage", ""),
    ],
)
def test_a_command_is_found_by_name_alias_or_beginning(line: str, name: str, rest: str) -> None:
    typed = read_command(line)
    assert (typed.command.name, typed.rest) == (name, rest)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "nothing was typed; ? lists the keys, ctrl-p the commands"),
        ("adpters", "no command 'adpters'; did you mean :adapters?"),
        ("zzz", "no command 'zzz'; ctrl-p lists them"),
        ("live now", ":live takes nothing after it, but 'now' was given"),
        ("at", ":at needs TIME|@STEP after it"),
        ("export", ":export needs json|csv|svg [FILE] after it"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(line: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read_command(line)
    assert str(caught.value) == said


def test_no_two_commands_share_a_word() -> None:
    words = [word for command in COMMANDS for word in (command.name, *command.aliases)]
    assert len(words) == len({*words})


@pytest.mark.parametrize(
    ("line", "whole"), [("ad", "adapters"), ("qu", "quit"), ("zz", None), ("at 1", None), ("", None)]
)
def test_tab_completes_the_name(line: str, whole: str | None) -> None:
    assert completed(line) == whole


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("11:31", datetime(2026, 11, 29, 11, 31, tzinfo=UTC)),
        ("11:31:02", datetime(2026, 11, 29, 11, 31, 2, tzinfo=UTC)),
        ("11:31:02.5Z", datetime(2026, 11, 29, 11, 31, 2, 500_000, tzinfo=UTC)),
        ("23:00", datetime(2026, 11, 28, 23, 0, tzinfo=UTC)),
        ("-5m", datetime(2026, 11, 29, 11, 41, 47, tzinfo=UTC)),
        ("-1.5h", datetime(2026, 11, 29, 10, 16, 47, tzinfo=UTC)),
        ("-2d", datetime(2026, 11, 27, 11, 46, 47, tzinfo=UTC)),
        ("2026-11-29T11:31Z", datetime(2026, 11, 29, 11, 31, tzinfo=UTC)),
        ("2026-11-29 11:31", datetime(2026, 11, 29, 11, 31, tzinfo=UTC)),
        ("2026-11-29T12:31+01:00", datetime(2026, 11, 29, 11, 31, tzinfo=UTC)),
    ],
)
def test_times_are_in_utc_and_a_time_of_the_day_is_the_last_such_one(text: str, at: datetime) -> None:
    assert typed_time(text, NEWEST) == at


@pytest.mark.parametrize("text", ["", "noon", "25:00", "11:61", "-5", "5m", "2026-13-01"])
def test_what_is_no_time_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(UserError, match=r"is no time, expected 11:31, 11:31:02, -5m"):
        typed_time(text, NEWEST)


@pytest.mark.parametrize(
    ("text", "step"), [("@1826", 1826), ("step 7", 7), ("11:31", None), ("@", None), ("@-3", None)]
)
def test_a_step_is_asked_for_with_an_at_sign(text: str, step: int | None) -> None:
    assert step_asked(text) == step
