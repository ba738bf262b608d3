"""Curves follow at once what states, findings and the ranking follow later; each says which step it is of."""

from datetime import timedelta

import numpy as np
import polars as pl

from checks.columns import completed
from console.watch.held import Held
from console.watch.plain.signals import first_mover_text
from console.watch.topic import Ask
from console.watch.views.signal_grading import Gradings
from console.watch.views.signals import SignalsAsk, SignalsBuilder, SignalsView
from tests.checks.simulated_runs import simulated_incident
from tests.console.watch.fake_feed import NOW, held, no_log

INCIDENT = completed(simulated_incident(np.random.default_rng(2)).steps, "steps").sort("step")
"""Its first mover is seen well before its last step."""
WHOLE = held(steps=INCIDENT)
MOVED = 1000
"""By this step it moved, for certain; and by this one it had not."""
STEADY = 300


def before(step: int) -> Held:
    """Without what came after a step."""
    return held(steps=INCIDENT.filter(INCIDENT["step"] <= step))


def seen(builder: SignalsBuilder, of: Held, grading: int | None) -> SignalsView:
    """As the screen asks for it."""
    return builder.build(of, SignalsAsk(steps=0, report=False, grading=grading), no_log)


def last_steps(view: SignalsView) -> set[int | None]:
    """Of the curves of each step."""
    return {lane.newest_step for lane in view.lanes if lane.signal in ("grad_norm", "mfu", "max_w")}


def test_curves_come_before_their_grading_and_then_all_is_as_if_made_at_once() -> None:
    gradings = Gradings()
    builder = SignalsBuilder(gradings)
    early = seen(builder, before(STEADY), 0)
    assert (early.step, early.graded) == (STEADY, STEADY)
    assert not early.first_mover.movers
    ahead = seen(builder, WHOLE, 0)
    newest = int(INCIDENT["step"][-1])
    assert (ahead.step, ahead.graded) == (newest, STEADY)
    assert last_steps(ahead) == {newest}
    assert ahead.first_mover == early.first_mover
    assert ahead.findings == early.findings
    assert f"graded @{STEADY}" in first_mover_text(ahead)
    told = gradings.build(WHOLE, Ask(), no_log)
    assert told.step == newest
    whole = seen(builder, WHOLE, told.number)
    assert whole == seen(SignalsBuilder(), WHOLE, None)
    assert whole.first_mover.movers
    assert "graded @" not in first_mover_text(whole)


def test_a_grading_is_of_another_number_only_where_it_says_something_else() -> None:
    gradings = Gradings()
    first = gradings.made(WHOLE, None)
    assert gradings.made(WHOLE._replace(revision=2, newest_at=NOW + timedelta(seconds=9)), None).number == first.number
    assert gradings.made(before(MOVED), None).number != first.number


def test_gradings_of_two_adapters_are_never_of_one_number() -> None:
    """A screen that goes to another adapter knows by the number that what comes is another grading."""
    gradings = Gradings()
    numbers = [gradings.made(of, name).number for of in (WHOLE, before(MOVED)) for name in (None, "nobody")]
    assert len({*numbers}) == len(numbers)


def test_newer_records_of_the_same_step_are_not_shown_under_the_states_before_them() -> None:
    gradings = Gradings()
    builder = SignalsBuilder(gradings)
    seen(builder, WHOLE, 0)
    last = pl.col("step") == pl.col("step").max()
    again = held(steps=INCIDENT.with_columns(grad_norm=pl.when(last).then(1e6).otherwise("grad_norm")))
    ahead = seen(builder, again, 0)
    assert ahead.graded == ahead.step
    assert ahead.ungraded
    assert "newest records not graded" in first_mover_text(ahead)
    before_number = gradings.made(WHOLE, None).number
    told = gradings.made(again, None)
    assert told.number != before_number
    whole = seen(builder, again, told.number)
    assert not whole.ungraded
    assert "not graded" not in first_mover_text(whole)


def test_whoever_asks_for_what_is_shown_gets_a_grading_of_that() -> None:
    builder = SignalsBuilder(Gradings())
    seen(builder, before(STEADY), 0)
    printed = seen(builder, WHOLE, None)
    assert printed.graded == printed.step
    assert printed == seen(SignalsBuilder(), WHOLE, None)


def test_a_time_gone_back_to_and_another_window_are_never_graded_by_the_newest() -> None:
    builder = SignalsBuilder(Gradings())
    assert seen(builder, WHOLE, 0).first_mover.movers
    then = before(STEADY)._replace(replayed_at=NOW - timedelta(hours=1))
    replayed = seen(builder, then, 0)
    assert (replayed.graded, replayed.first_mover.movers) == (STEADY, ())
    assert seen(builder, WHOLE, 0).first_mover.movers
    assert WHOLE.source.window is None
    of_window = before(STEADY)._replace(source=WHOLE.source.__replace__(window="the last 300 steps"))
    assert not seen(builder, of_window, 0).first_mover.movers


def test_another_adapter_is_graded_when_it_is_asked_for() -> None:
    builder = SignalsBuilder(Gradings())
    assert seen(builder, WHOLE, 0).first_mover.movers
    other = builder.build(WHOLE, SignalsAsk(adapter="nobody", grading=0), no_log)
    assert (other.adapter, other.graded, other.first_mover.movers) == ("nobody", None, ())
