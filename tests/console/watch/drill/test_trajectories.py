"""The list of sessions: counts as the frames have them, never 0 for what was not observed; sorted and filtered."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from checks.measure import Tools
from collector.rendering.tokenizer import ChatTokenizer
from console.watch.frame.filter import FilterError
from console.watch.held import Held
from console.watch.plain.trajectories import plain_trajectories
from console.watch.topic import Ask
from console.watch.views.other_faults import OtherFaults, other_faults
from console.watch.views.trajectories import TOPIC, TrajectoriesView, TrajectoryRow
from console.watch.views.trajectory_words import COLUMNS, list_words
from console.watch.views.turn import TOPIC as TURN
from console.watch.views.turn import TurnAsk, TurnsView
from console.watch.views.turn import topic as turn_topic
from console.watch.views.turn_words import session_words
from tests.collector.published import small_backend
from tests.console.watch.drill.held_log import SAMPLED_AT, held_of, log_of, turn
from tests.console.watch.fake_feed import no_log

SMALL = ChatTokenizer(small_backend())


def of(session: str, number: int, **more: Any) -> dict[str, Any]:
    row = {"prompt_ids": [1, 2], "completion_ids": [3], "adapter": "refund", "adapter_version": 7, "tenant": "acme"}
    return turn(number, **{**row, "session_id": session, "turn_id": f"{session}-{number}", **more})


def seen(held: Held, **asked: Any) -> TrajectoriesView:
    view = TOPIC.build(held, Ask(**asked), no_log)
    assert isinstance(view, TrajectoriesView)
    return view


def row_of(view: TrajectoriesView, session: str) -> TrajectoryRow:
    return next(row for row in view.rows if row.session_id == session)


@pytest.fixture
def held() -> Held:
    long = list(range(100, 160))
    spelled = [SMALL.backend.token_to_id(letter) for letter in "<think>"]
    turns = [
        of("a", 1, completion_ids=[3, 4, 5], trainable=True),
        of("a", 2, prompt_ids=[1, 2, 3, 4, 5, 9], trainable=False, untrainable_reason="top_p", finish_reason="length"),
        of("b", 1, prompt_ids=long, completion_ids=spelled, adapter_version=8),
        of(
            "b",
            2,
            adapter_version=8,
            prompt_ids=[*long[:50], 7, 7, 7, 7, 7, 7],
            finished_at=SAMPLED_AT + timedelta(hours=1),
        ),
        of("c", 1, tenant="zeta", adapter=None, adapter_version=None, reward=0.5),
        of(
            "d",
            1,
            completion_ids=[3, 4],
            sampled_logprobs=[-1.0, -1.0],
            trainer_logprobs=[-1.0, -3.0],
            trainer_version=7,
        ),
    ]
    feedback = [
        {"feedback_id": "1", "turn_id": "a-1", "kind": "thumb", "value": 1.0},
        {"feedback_id": "1", "turn_id": "a-1", "kind": "thumb", "value": 1.0},
        {"feedback_id": "2", "session_id": "a", "kind": "score", "value": 0.0, "supersedes": "1"},
        {"feedback_id": "3", "session_id": "a", "kind": "score", "value": 0.7},
        {"feedback_id": "4", "turn_id": "b-2", "kind": "thumb", "value": 0.0},
    ]
    rewards = [
        {"session_id": "a", "turn_id": None, "value": 0.25, "closed_at": SAMPLED_AT},
        {"session_id": "a", "turn_id": None, "value": 0.75, "closed_at": SAMPLED_AT + timedelta(seconds=9)},
        {"session_id": "b", "turn_id": "b-1", "value": 1.0, "closed_at": SAMPLED_AT},
        {"session_id": "b", "turn_id": "b-2", "value": 0.0, "closed_at": SAMPLED_AT},
    ]
    return held_of(log_of(turns, feedback=feedback, rewards=rewards), Tools(SMALL))


def test_counts_of_a_session(held: Held) -> None:
    row = row_of(seen(held), "a")
    assert (row.turns, row.tokens, row.context, row.served) == (2, 4, 7, "refund@7")
    assert (row.trainable, row.why_not, row.cut) == (1, "top_p", 1)
    assert (row.breaks, row.break_turn, row.retok) == (0, None, 0)
    # One was given twice and then replaced: two stand, and they disagree.
    assert (row.judgements, row.feedback, row.reward) == (2, "mixed", 0.75)


def test_breaks_and_drift_are_marked(held: Held) -> None:
    row = row_of(seen(held), "b")
    assert (row.breaks, row.break_turn, row.break_kind) == (1, 2, "other")
    assert (row.retok, row.reward, row.feedback) == (1, 0.5, "down")


def test_what_was_not_observed_is_none(held: Held) -> None:
    row = row_of(seen(held), "c")
    assert (row.served, row.judgements, row.feedback, row.trainable, row.worst_w, row.failed) == (None,) * 6
    assert row.reward == 0.5
    bare = seen(held_of(log_of([of("a", 1)]), store=True)).rows[0]
    assert (bare.breaks, bare.retok, bare.subagents, bare.cut) == (None,) * 4


def test_the_farthest_weight_is_where_the_check_has_it(held: Held) -> None:
    row = row_of(seen(held), "d")
    assert row.worst_w == pytest.approx(0.1353352832366127)
    assert (row.worst_turn, row.worst_token) == (1, 1)


def test_the_newest_session_comes_first_and_the_rest_by_name(held: Held) -> None:
    assert [row.session_id for row in seen(held).rows] == ["b", "a", "c", "d"]


def test_sorting_puts_what_is_not_known_last(held: Held) -> None:
    by_turns = [row.session_id for row in seen(held, sort="turns", descending=True).rows]
    assert set(by_turns[:2]) == {"a", "b"}
    by_reward = [row.session_id for row in seen(held, sort="reward").rows]
    assert (by_reward[-1], by_reward[-2]) == ("d", "a")
    by_reward_down = [row.session_id for row in seen(held, sort="reward", descending=True).rows]
    assert (by_reward_down[0], by_reward_down[-1]) == ("a", "d")


@pytest.mark.parametrize(
    ("text", "sessions"),
    [
        ("prefix:break", {"b"}),
        ("!prefix:break", {"a", "c", "d"}),
        ("tenant:zeta", {"c"}),
        ("adapter:refund version>7", {"b"}),
        ("turns>1", {"a", "b"}),
        ("fb:-", {"b"}),
        ("fb:n/d", {"c", "d"}),
        ("w<0.5", {"d"}),
        ("why:top_p", {"a"}),
        ("retok>0", {"b"}),
        ("zeta", {"c"}),
    ],
)
def test_filters(held: Held, text: str, sessions: set[str]) -> None:
    view = seen(held, filter=text)
    assert {row.session_id for row in view.rows} == sessions
    assert (view.total, view.sessions) == (len(sessions), 4)


def test_a_filter_that_is_wrong_says_where(held: Held) -> None:
    with pytest.raises(FilterError) as found:
        seen(held, filter="turns>1 colour:red")
    assert found.value.column == 8


def test_a_window_of_many_sessions() -> None:
    turns = [of(f"s{number:04}", 1) for number in range(300)]
    held = held_of(log_of(turns))
    view = seen(held, sort="session_id", first=120, count=3)
    assert [row.session_id for row in view.rows] == ["s0120", "s0121", "s0122"]
    assert (view.total, view.first) == (300, 120)
    assert plain_trajectories(view, 80)[-1] == "… 177 more"


def test_links_of_a_store_are_those_of_capture() -> None:
    held = held_of(log_of([of("a", 1), of("a", 2), of("b", 1)]), store=True)
    links = pl.Series("link", ["root", "break", "root"])
    kinds = pl.Series("break_kind", [None, "system_prompt_changed", None])
    view = seen(held._replace(turns=held.turns.with_columns(links, kinds)))
    row = row_of(view, "a")
    assert (row.breaks, row.break_turn, row.break_kind) == (1, 2, "system_prompt_changed")
    assert row_of(view, "b").breaks == 0
    assert view.broken == 1


def test_names_from_the_log_cannot_drive_the_terminal() -> None:
    held = held_of(log_of([of("a\x1b[2Jb", 1, tenant="t\x07")]))
    lines = plain_trajectories(seen(held), 120)
    assert all(line.isprintable() for line in lines)
    assert any("a\\x1b[2Jb" in line for line in lines)


def test_nothing_is_no_session() -> None:
    view = seen(held_of(log_of([])))
    assert (view.total, view.rows, view.broken) == (0, (), None)


def of_text(session: str, number: int) -> dict[str, Any]:
    return of(session, number, prompt_ids=None, completion_ids=None)


def test_sessions_of_text_are_not_said_to_be_in_order() -> None:
    turns = [
        of_text("text", 1),
        of_text("text", 2),
        of("ids", 1),
        of("both", 1),
        of_text("both", 2),
        *(of("broken", at, prompt_ids=[*range(at, at + 40)]) for at in (1, 2)),
        of_text("broken", 3),
    ]
    log = log_of(turns)
    held = held_of(log, Tools(SMALL))
    view = seen(held)
    rows = {name: row_of(view, name) for name in ("text", "ids", "both", "broken")}
    assert [row.breaks for row in rows.values()] == [None, 0, None, 1]
    assert [rows[name].retok for name in ("text", "ids", "both")] == [None, 0, None]
    column = next(each for each in COLUMNS if each.key == "breaks")
    assert [column.cell(row) for row in rows.values()] == ["–", "✓", "–", "✗ t2"]
    assert (view.broken, view.prefix_unknown) == (1, 2)
    assert "1 with a prefix break (2 n/d)" in list_words(view)
    assert {row.session_id for row in seen(held, filter="prefix:ok").rows} == {"ids"}
    asked = [TURN.build(held, TurnAsk(session_id=name), lambda: log) for name in rows]
    assert [each.broken for each in asked if isinstance(each, TurnsView)] == [None, 0, None, 1]
    said = [session_words(each).split(" · ") for each in asked if isinstance(each, TurnsView)]
    assert [each for words in said for each in words if "break" in each] == [
        "breaks n/d",
        "0 breaks",
        "breaks n/d",
        "1 break",
    ]


def test_a_log_of_text_has_no_number_of_breaks_nor_of_drift() -> None:
    held = held_of(log_of([of_text("text", 1), of_text("text", 2)]), Tools(SMALL))
    view = seen(held)
    assert (view.broken, view.prefix_unknown) == (None, 1)
    assert "prefix breaks n/d" in list_words(view)
    assert other_faults(held) == OtherFaults(breaks=None, drift=None)


@pytest.mark.parametrize(
    ("store", "read", "of_turn", "listed"),
    [(True, False, True, "unread"), (False, True, True, "✗1"), (False, False, False, "–")],
)
def test_what_a_list_does_not_re_encode_and_its_turns_do_is_unread(
    store: bool, read: bool, of_turn: bool, listed: str
) -> None:
    spelled = [SMALL.backend.token_to_id(letter) for letter in "<think>"]
    log = log_of([of("s", 1, completion_ids=spelled)])
    held = held_of(log, Tools(SMALL) if read else None, store=store)
    column = next(each for each in COLUMNS if each.key == "retok")
    assert column.cell(seen(held).rows[0]) == listed
    own = turn_topic(lambda: Tools(SMALL) if of_turn else Tools())
    turns = own.build(held, TurnAsk(session_id="s"), lambda: log)
    assert isinstance(turns, TurnsView)
    assert turns.rows[0].retok_spans == (1 if of_turn else None)
