"""Which signal moved first: how often the order is right in simulated incidents, and how often a healthy run is ranked.

The limits of `checks/onset.py` were chosen on seeds below 1,000; every seed here is another.
"""

import functools
import itertools
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from checks.columns import completed, empty
from checks.faults.first_mover import Ranked, rank_signals
from checks.signals import signal_series
from tests.checks.simulated_runs import SPARSE, Run, healthy_run, simulated_incident, simulated_run

NOTHING = {name: empty(name) for name in ("turns", "rewards", "evals", "spans", "versions")}


def ranked(steps: pl.DataFrame) -> tuple[Ranked, ...]:
    held = completed(steps, "steps")
    return rank_signals(
        signal_series(
            NOTHING["turns"], NOTHING["rewards"], held, NOTHING["evals"], NOTHING["spans"], NOTHING["versions"]
        )
    )


def order_is_right(run: Run) -> bool:
    """All that moved was found and nothing else, in the true order; a tie is right only with a sparse signal in it."""
    (found,) = ranked(run.steps)
    truth = {move.signal: move.onset for move in run.moves}
    if {move.signal for move in found.moves} != set(truth):
        return False
    onset = {move.signal: move for move in found.moves}
    for early, late in itertools.permutations(truth, 2):
        dense = early not in SPARSE and late not in SPARSE
        surely_wrong = onset[late].last < onset[early].first
        if truth[early] < truth[late] and (surely_wrong or (dense and onset[early].last >= onset[late].first)):
            return False
    return True


def counted(one: Callable[[np.random.Generator], bool], seed: int, runs: int) -> int:
    return sum(one(np.random.default_rng([seed, index])) for index in range(runs))


def is_ranked(rng: np.random.Generator) -> bool:
    return any(each.moves for each in ranked(healthy_run(rng).steps))


def incident_is_right(rng: np.random.Generator) -> bool:
    return order_is_right(simulated_incident(rng))


def test_the_order_is_right_in_eleven_of_twelve_incidents() -> None:
    assert counted(incident_is_right, 20261129, 12) >= 11


def test_nothing_is_ranked_in_nineteen_of_twenty_healthy_runs() -> None:
    assert counted(is_ranked, 20261130, 20) <= 1


@pytest.mark.long
def test_the_order_is_right_in_nine_of_ten_of_many_incidents() -> None:
    right = counted(incident_is_right, 7_001, 300)
    print(f"order right in {right} of 300 incidents")
    assert right >= 270


@pytest.mark.long
def test_at_most_two_percent_of_many_healthy_runs_are_ranked() -> None:
    wrong = counted(is_ranked, 7_002, 500)
    print(f"{wrong} of 500 healthy runs ranked")
    assert wrong <= 15, "2 % of 500, and the spread of such a count"


@pytest.mark.long
def test_eight_healthy_adapters_in_one_log_are_ranked_no_oftener() -> None:
    @functools.cache
    def adapters(seed: int) -> pl.DataFrame:
        rng = np.random.default_rng([7_003, seed])
        return pl.concat([simulated_run(rng, 1000, adapter=f"a{index}").steps for index in range(8)])

    wrong = sum(any(each.moves for each in ranked(adapters(seed))) for seed in range(40))
    print(f"{wrong} of 40 healthy logs of eight adapters ranked")
    assert wrong <= 4
