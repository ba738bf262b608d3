"""What stands in no lane is counted on the first screen, and leads to the list."""

import polars as pl

from checks.measure import Tools
from console.watch.plain.signals import others_text
from console.watch.topic import Ask
from console.watch.views.other_faults import OtherFaults, other_faults
from console.watch.views.signals import SignalsAsk, SignalsBuilder
from console.watch.views.trajectories import trajectories_view
from tests.console.watch.drill.held_log import held_of, log_of, turn
from tests.console.watch.drill.test_drill_screens import SMALL, refund_log
from tests.console.watch.fake_feed import held, no_log


def test_breaks_and_drift_of_a_log_are_those_of_its_list() -> None:
    log = held_of(refund_log(), Tools(SMALL))
    shown = SignalsBuilder().build(log, SignalsAsk(), no_log)
    listed = trajectories_view(log, Ask(), no_log).rows
    assert shown.others == OtherFaults(
        breaks=sum(row.breaks or 0 for row in listed), drift=sum(row.retok or 0 for row in listed)
    )
    assert shown.others == OtherFaults(breaks=1, drift=1)
    assert others_text(shown.others).startswith("1 turn with a prefix break, 1 turn with retokenization drift")
    assert others_text(shown.others).endswith(": 5 lists the sessions")


def test_a_log_in_order_has_none_and_what_was_not_looked_at_is_not_known() -> None:
    kept = turn(1, prompt_ids=[1, 2], completion_ids=[3]), turn(2, prompt_ids=[1, 2, 3, 4], completion_ids=[5])
    assert other_faults(held_of(log_of([*kept]))) == OtherFaults(breaks=0, drift=None)
    assert other_faults(held()) == OtherFaults(breaks=None, drift=None)
    assert others_text(OtherFaults()) == others_text(OtherFaults(breaks=0, drift=0)) == ""
    assert others_text(OtherFaults(breaks=1)) == "1 turn with a prefix break: 5 lists the sessions"


def test_a_store_says_it_of_what_was_captured() -> None:
    turns = pl.DataFrame({"session_id": ["s", "s", "t"], "turn": [1, 2, 1], "link": ["root", "break", None]})
    missing = [
        pl.lit(None, kind).alias(name) for name, kind in held().turns.schema.items() if name not in turns.columns
    ]
    assert other_faults(held(turns=turns.with_columns(missing))) == OtherFaults(breaks=1, drift=None)
