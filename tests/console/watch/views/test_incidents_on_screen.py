"""Twelve simulated incidents: the lanes stand on the screen in the order in which the signals moved."""

import itertools

import numpy as np

from checks.columns import completed
from console.watch.views.signal_lanes import ordered
from console.watch.views.signals import SignalsAsk, SignalsBuilder
from console.watch.widgets.lane_rows import LanesLayout, drawn_lanes
from console.watch.widgets.palette import Palette
from tests.checks.simulated_runs import SPARSE, Run, healthy_run, simulated_incident
from tests.console.watch.fake_feed import held, no_log

SEED = 20261129


def drawn(run: Run) -> list[str]:
    """The lanes of an incident at 80x24, less their header."""
    view = SignalsBuilder().build(held(steps=completed(run.steps, "steps")), SignalsAsk(), no_log)
    lanes = ordered(view.lanes, "onset")
    assert len(lanes) == 8
    lines = drawn_lanes(lanes, view.axis, 0, LanesLayout(80, 9), Palette("none"))[1:]
    labels = {lane.label: lane.signal for lane in lanes}
    return [f"{labels[line.text[3:12].strip()]} {line.text[-12:].strip()}" for line in lines]


def order_is_right(run: Run) -> bool:
    """Exactly what moved has a rank; nothing stands before what moved earlier, a tie with a sparse signal apart."""
    lines = [line.split() for line in drawn(run)]
    moved = {line[0]: int(line[1][1:]) for line in lines if line[1][0] in "#="}
    ties = {line[0] for line in lines if line[1][0] == "="}
    places = {line[0]: place for place, line in enumerate(lines)}
    truth = {move.signal: move.onset for move in run.moves}
    if moved.keys() != truth.keys() or {places[name] for name in moved} != set(range(len(moved))):
        return False
    for early, late in itertools.permutations(truth, 2):
        sparse = early in SPARSE or late in SPARSE
        wrong = moved[early] > moved[late] or (moved[early] == moved[late] and not (sparse and early in ties))
        if truth[early] < truth[late] and wrong:
            return False
    return True


def test_the_order_is_right_in_eleven_of_twelve() -> None:
    right = [order_is_right(simulated_incident(np.random.default_rng([SEED, index]))) for index in range(12)]
    assert sum(right) >= 11, right


def is_ranked(index: int) -> bool:
    """Whether any lane of a quiet run has a rank."""
    return any("#" in line or "=" in line for line in drawn(healthy_run(np.random.default_rng([SEED, index]))))


def test_nothing_is_ranked_on_twenty_quiet_runs() -> None:
    assert [index for index in range(20) if is_ranked(index)] == []
