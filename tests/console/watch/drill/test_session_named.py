"""A session is found by its name, by the end that lists show, by its beginning, and never by what two share."""

import pytest

from checks.measure import Tools
from console.watch.trace.session_named import session_named
from console.watch.views import prefix_diff, retok_diff, token, turn
from console.watch.views.prefix_diff import PrefixDiffAsk
from console.watch.views.retok_diff import RetokDiffAsk
from console.watch.views.token import TokenAsk
from console.watch.views.turn import TurnAsk
from tests.console.watch.drill.held_log import held_of, log_of
from tests.console.watch.drill.held_log import turn as row

NAMES = ("demo/7f3a-run-1", "demo/7f3b-run-1-2", "demo/9c-run-12", "2")
LOG = log_of([row(1, session_id=name, prompt_ids=[1], completion_ids=[2, 3]) for name in NAMES])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("2", "2"),
        ("demo/9c-run-12", "demo/9c-run-12"),
        ("-run-1", "demo/7f3a-run-1"),
        ("…n-12", "demo/9c-run-12"),
        ("demo/9", "demo/9c-run-12"),
        # Two begin with it, two end with it, it stands inside, it is nowhere, it is nothing.
        ("demo/7f3", "demo/7f3"),
        ("run-1", "demo/7f3a-run-1"),
        ("12", "demo/9c-run-12"),
        ("-", "-"),
        ("f3a", "f3a"),
        ("zoo", "zoo"),
        ("…", "…"),
        ("", ""),
    ],
)
def test_the_session_that_a_typed_name_means(typed: str, meant: str) -> None:
    assert session_named(held_of(LOG), typed) == meant


def test_every_screen_of_one_session_takes_a_part_of_its_name() -> None:
    held = held_of(LOG)
    tools = lambda: Tools()  # noqa: E731
    views = (
        turn.topic(tools).build(held, TurnAsk(session_id="9c-run-12"), lambda: LOG),
        token.topic(tools).build(held, TokenAsk(session_id="9c-run-12", turn=1), lambda: LOG),
        prefix_diff.topic(tools).build(held, PrefixDiffAsk(session_id="9c-run-12", turn=1), lambda: LOG),
        retok_diff.topic(tools).build(held, RetokDiffAsk(session_id="9c-run-12", turn=1), lambda: LOG),
    )
    assert [view.session_id for view in views] == ["demo/9c-run-12"] * 4
