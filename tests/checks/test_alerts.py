"""Alert timelines worked by hand, and what holds of every timeline."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.alerting.alert import Act, Alert
from checks.alerting.alert_event import act_of, alert_event, alert_of
from checks.alerting.rule import Observation
from checks.alerts import Board, Transition, acknowledge, advance, comment, rebuilt, silence
from collector.errors import UserError
from tests.checks.alerting.timeline import INCIDENT_S, LEVELS, START, act, rule, second, told


def test_nothing_is_ok_before_it_was_seen() -> None:
    assert Alert(rule="a").state == "no_data"
    assert told("nng").shown == ["no_data", "no_data", "ok"]


def test_it_fires_after_as_many_evaluations_at_fault_and_recovers_after_as_many_good_ones() -> None:
    # for_evaluations = 2 and recover_evaluations = 2
    told_of = told("gwwggg")
    assert told_of.shown == ["ok", "pending", "firing", "recovering", "ok", "ok"]
    assert told_of.changes == ["fired", "recovered"]
    fired = told_of.alerts[2]
    assert (fired.began_at, fired.raised_at, fired.since) == (second(10), second(20), second(20))
    assert told_of.alerts[4].began_at is None


def test_a_rule_without_duration_fires_at_once() -> None:
    assert told("wg", for_evaluations=1, recover_evaluations=1).shown == ["firing", "ok"]
    assert told("wg", for_evaluations=0, recover_evaluations=0).shown == ["firing", "ok"]


def test_seconds_and_evaluations_have_both_to_pass() -> None:
    # Evaluations at 0, 10, 20, 30 s: 25 s at fault have passed at 30.
    assert told("wwww", for_s=25).shown == ["pending", "pending", "pending", "firing"]
    assert told("wwww", for_s=20).shown == ["pending", "pending", "firing", "firing"]
    assert told("wwww", for_s=5, for_evaluations=4).shown == ["pending", "pending", "pending", "firing"]
    assert told("wwgggg", recover_s=25).shown == ["pending", "firing", "recovering", "recovering", "recovering", "ok"]


def test_one_good_evaluation_ends_what_is_pending() -> None:
    assert told("wgwgww").shown == ["pending", "ok", "pending", "ok", "pending", "firing"]
    assert told("wbww").shown == ["pending", "ok", "pending", "firing"], "between is not at fault"


def test_between_the_thresholds_an_alert_neither_begins_nor_ends() -> None:
    assert told("bbb").shown == ["ok", "ok", "ok"]
    assert told("wwbbb").shown == ["pending", "firing", "firing", "firing", "firing"]
    assert told("wwgbgg").shown == ["pending", "firing", "recovering", "firing", "recovering", "ok"]


def test_flapping_is_one_alert_that_fires_once() -> None:
    told_of = told("wwgwgwgwgg")
    assert told_of.shown[2:] == [
        "recovering",
        "firing",
        "recovering",
        "firing",
        "recovering",
        "firing",
        "recovering",
        "ok",
    ]
    assert told_of.changes == ["fired", "recovered"]
    assert {alert.raised_at for alert in told_of.alerts[1:-1]} == {second(10)}


def test_no_data_while_firing_keeps_the_alarm() -> None:
    told_of = told("wwnnwgg")
    assert told_of.shown == ["pending", "firing", "no_data", "no_data", "firing", "recovering", "ok"]
    assert [alert.alarming for alert in told_of.alerts] == [False, True, True, True, True, True, False]
    assert told_of.changes == ["fired", "blind", "sighted", "recovered"]
    assert told_of.alerts[4].began_at == second(0)


def test_no_data_is_no_step_towards_recovery_nor_towards_firing() -> None:
    assert told("wnw").shown == ["pending", "no_data", "pending"]
    assert told("wwgng").shown == ["pending", "firing", "recovering", "no_data", "recovering"]
    assert told("wwnb").shown == ["pending", "firing", "no_data", "firing"]
    assert told("gn").shown == ["ok", "no_data"]
    assert told("gn").changes == []


def test_a_pause_of_the_evaluator_starts_the_duration_anew() -> None:
    # Pauses: 40 s between the second and the third evaluation, gap_s = 30.
    assert told("w...ww", gap_s=30).shown == ["pending", "pending", "firing"]
    assert told("w...w", gap_s=30).alerts[-1].began_at == second(40)
    assert told("w..w", gap_s=30).shown == ["pending", "firing"]
    assert told("wwg...gg", gap_s=30).shown == ["pending", "firing", "recovering", "recovering", "ok"]


def test_a_warning_that_becomes_a_failure_is_told_of_again_and_does_not_go_back() -> None:
    told_of = told("wwfwgg")
    assert told_of.changes == ["fired", "graver", "recovered"]
    assert [alert.severity for alert in told_of.alerts[1:4]] == ["warn", "fail", "fail"]
    assert told_of.alerts[2].raised_at == second(20)
    assert told("fw").alerts[-1].severity == "warn", "what is pending is as grave as it is now"


def test_an_acknowledged_alert_stays_so_until_it_is_over() -> None:
    told_of = told("wwwgwggww", [act("acknowledge", 15)])
    assert told_of.shown == ["pending", "firing", "acked", "acked", "acked", "acked", "ok", "pending", "firing"]
    assert [alert.state for alert in told_of.alerts[2:6]] == ["firing", "recovering", "firing", "recovering"]
    assert told_of.alerts[2].acked_by == "ana"
    assert told_of.alerts[-1].acked_by is None, "what fires anew is not what was acknowledged"
    assert told_of.notices == ["fired", "recovered", "fired"]


def test_an_acknowledgement_of_a_warning_is_none_of_the_failure() -> None:
    assert told("wwwff", [act("acknowledge", 15)]).shown == ["pending", "firing", "acked", "firing", "firing"]
    assert told("wwwff", [act("acknowledge", 15), act("acknowledge", 35)]).shown[-1] == "acked"


def test_what_is_not_firing_cannot_be_acknowledged() -> None:
    assert told("wwww", [act("acknowledge", 0), act("acknowledge", 5)]).shown[-1] == "firing"
    assert told("ggww", [act("acknowledge", 5)]).shown[-1] == "firing"
    assert told("wwww", [act("acknowledge", 15, rule="b")]).shown[-1] == "firing"


def test_a_silence_keeps_notices_back_and_says_so_when_it_ends() -> None:
    told_of = told("wwwwww", [act("silence", 5, until=35)])
    assert told_of.shown == ["pending", "silenced", "silenced", "silenced", "firing", "firing"]
    assert told_of.changes == ["fired", "silence_over"]
    assert told_of.notices == ["silence_over"]


def test_a_silence_that_outlives_the_alert_keeps_its_recovery_back_too() -> None:
    told_of = told("wwwggg", [act("silence", 15, until=500)])
    assert told_of.shown == ["pending", "firing", "silenced", "silenced", "ok", "ok"]
    assert told_of.notices == ["fired"]
    assert told("wwgg" + "g" * 10, [act("silence", 15, until=65)]).notices == ["fired"], "an ended one has no news"


def test_a_later_silence_replaces_an_earlier_one_and_one_that_is_past_ends_it() -> None:
    longer = [act("silence", 5, until=15), act("silence", 8, until=45)]
    assert told("wwwwww", longer).shown == ["pending", *["silenced"] * 4, "firing"]
    ended = [act("silence", 5, until=500), act("silence", 25, until=25)]
    assert told("wwww", ended).shown == ["pending", "silenced", "silenced", "firing"]


def test_a_silence_goes_before_an_acknowledgement() -> None:
    both = [act("acknowledge", 15), act("silence", 16, until=25)]
    assert told("wwww", both).shown == ["pending", "firing", "silenced", "acked"]


def test_a_comment_changes_nothing() -> None:
    assert told("www", [act("comment", 15)]).transitions == told("www").transitions


def test_alerts_that_began_in_one_window_are_one_incident_named_for_the_first() -> None:
    rules = [rule("late"), rule("first"), rule("tie"), rule("apart")]
    # Onsets: first and tie at 0, late at 500, apart at 700; the window is 600 s from the first.
    began = {"late": 500, "first": 0, "tie": 0, "apart": 700}
    board = Board()
    for now in range(0, 900, 100):
        seen = {name: Observation("warn" if now >= at else "good") for name, at in began.items()}
        board, _ = advance(board, rules, seen, [], second(now), incident_window_s=600)
    assert [(each.incident, each.title) for each in board.incidents] == [(1, "first = tie"), (2, "apart")]
    assert board.incidents[0].onsets == {"first": second(0), "tie": second(0), "late": second(500)}
    assert board.incidents[0].began_at == second(0)
    assert board.incident_of(board.alerts["late"]) == board.incidents[0]


def test_what_began_first_is_the_title_even_when_it_fires_later() -> None:
    slow, fast = rule("slow", for_s=300), rule("fast")
    board = Board()
    for now in range(0, 400, 50):
        seen = {"slow": Observation("warn"), "fast": Observation("warn" if now >= 100 else "good")}
        board, _ = advance(board, [slow, fast], seen, [], second(now), incident_window_s=600)
    assert [each.title for each in board.incidents] == ["slow"]
    assert [*board.incidents[0].onsets] == ["slow", "fast"]


def test_what_was_pending_only_is_no_part_of_an_incident() -> None:
    told_of = told("wgww")
    assert [(each.incident, each.onsets) for each in told_of.board.incidents] == [(1, {"a": second(20)})]


def test_an_alert_whose_rule_is_gone_is_dropped_once() -> None:
    board = told("ww").board
    board, changed = advance(board, [], {}, [], second(30), incident_window_s=INCIDENT_S)
    assert [(each.change, each.after.state, each.after.alarming) for each in changed] == [("dropped", "no_data", False)]
    again = rebuilt([changed[0].after])
    assert advance(again, [], {}, [], second(40), incident_window_s=INCIDENT_S)[1] == ()


def test_what_people_do_becomes_events_and_comes_back() -> None:
    at = second(0)
    acked = acknowledge("a", actor="ana", at=at, text="looking")
    quiet = silence("a", until=second(60), actor="bo", at=at)
    assert (acked.kind, acked.actor, acked.text, acked.detail) == ("acknowledge", "ana", "looking", {"rule": "a"})
    assert act_of(acked) == Act("acknowledge", "a", at, "ana")
    assert act_of(quiet) == Act("silence", "a", at, "bo", second(60))
    assert act_of(comment("a", actor="bo", at=at, text="why")) == Act("comment", "a", at, "bo")
    with pytest.raises(UserError, match="expected a time with its zone"):
        silence("a", until=second(60).replace(tzinfo=None), actor="bo", at=at)


def recorded(transition: Transition) -> Alert:
    """The alert as it comes back from its event."""
    found = alert_of(alert_event(transition, window="the last 1 h", actor="evaluator"))
    assert found is not None
    return found


@st.composite
def acts(draw: st.DrawFn) -> Act:
    kind = draw(st.sampled_from(["acknowledge", "silence", "comment"]))
    at = draw(st.integers(0, 400))
    return act(
        kind, at, until=draw(st.integers(0, 500)) if kind == "silence" else None, actor=draw(st.sampled_from("xy"))
    )


TIMELINES = st.lists(st.sampled_from("ngbwf"), min_size=1, max_size=30)
RULES = st.fixed_dictionaries(
    {
        "for_evaluations": st.integers(0, 4),
        "for_s": st.integers(0, 50),
        "recover_evaluations": st.integers(0, 4),
        "recover_s": st.integers(0, 50),
        "gap_s": st.integers(0, 50),
    }
)
GAPS = st.lists(st.integers(1, 60), min_size=30, max_size=30)


def times(gaps: list[int]) -> list[int]:
    """Seconds of evaluations with these pauses before them."""
    return [sum(gaps[: number + 1]) for number in range(len(gaps))]


PAIRS = st.lists(st.tuples(st.sampled_from("ngbwf"), st.sampled_from("ngbwf")), min_size=1, max_size=30)


@given(PAIRS, GAPS, RULES, RULES, st.lists(acts(), max_size=4), st.integers(0, 30))
def test_a_restart_anywhere_changes_nothing(
    pairs: list[tuple[str, str]],
    gaps: list[int],
    of_first: dict[str, int],
    of_second: dict[str, int],
    done: list[Act],
    restart: int,
) -> None:
    rules = [rule("a", **of_first), rule("b", **of_second)]
    straight, restarted = Board(), Board()
    written: list[Alert] = []
    for number, (pair, at) in enumerate(zip(pairs, times(gaps), strict=False)):
        now = second(at)
        seen = {name: Observation(LEVELS[letter]) for name, letter in zip("ab", pair, strict=True)}
        earlier = second(times(gaps)[number - 1]) if number else START - timedelta(1)
        new = [each for each in done if earlier < each.at <= now]
        so_far = [each for each in done if each.at <= now]
        if number == restart:
            restarted = rebuilt(written)
        given_acts = so_far if number == restart else new
        straight, expected = advance(straight, rules, seen, new, now, incident_window_s=60)
        restarted, found = advance(restarted, rules, seen, given_acts, now, incident_window_s=60)
        assert found == expected
        assert restarted == straight
        written += [recorded(each) for each in found]


@given(TIMELINES, GAPS, RULES)
def test_it_never_fires_before_its_duration_nor_ends_before_its_own(
    letters: list[str], gaps: list[int], of_rule: dict[str, int]
) -> None:
    watched, board = rule(**of_rule), Board()
    history: list[tuple[int, str]] = []
    for letter, at in zip(letters, times(gaps), strict=False):
        history.append((at, letter))
        seen = {"a": Observation(LEVELS[letter])}
        board, changed = advance(board, [watched], seen, [], second(at), incident_window_s=60)
        for transition in changed:
            if transition.change == "fired":
                assert lasted(history, "wf", of_rule, "for")
            if transition.change == "recovered":
                assert lasted(history, "g", of_rule, "recover")
        assert board.alerts["a"].shown != "ok" or letter in "gb"
        assert (board.alerts["a"].state == "no_data") == (letter == "n")


def lasted(history: list[tuple[int, str]], letters: str, of_rule: dict[str, int], what: str) -> bool:
    """Whether the end of a history was of these letters, without a gap, for as long as the rule asks."""
    run: list[int] = []
    for at, letter in reversed(history):
        if letter not in letters or (run and run[-1] - at > of_rule["gap_s"]):
            break
        run.append(at)
    return len(run) >= of_rule[f"{what}_evaluations"] and run[0] - run[-1] >= of_rule[f"{what}_s"]


@given(st.permutations([act("acknowledge", 15), act("acknowledge", 18, actor="bo"), act("silence", 16, until=200)]))
def test_the_order_in_which_acts_are_read_does_not_matter(done: list[Act]) -> None:
    fired = told("ww").board
    seen = {"a": Observation("warn")}
    board, _ = advance(fired, [rule()], seen, done, second(20), incident_window_s=INCIDENT_S)
    again, changed = advance(board, [rule()], seen, [*reversed(done)], second(30), incident_window_s=INCIDENT_S)
    assert (board.alerts["a"].acked_by, board.alerts["a"].shown) == ("ana", "silenced")
    assert changed == ()
    assert again == board
