"""The shared budget of the agents."""

import threading

from console.demo.crew import Budget


def test_turns_are_given_out_once_each_among_threads() -> None:
    budget = Budget(1000, 60)
    taken = [0] * 8

    def take(number: int) -> None:
        while budget.take():
            taken[number] += 1

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 1000
    assert budget.spent


def test_time_ends_it_too() -> None:
    budget = Budget(1000, 0.0)
    assert budget.spent
    assert not budget.take()


def test_spending_it_stops_everyone() -> None:
    budget = Budget(1000, 60)
    assert budget.take()
    budget.spend()
    assert not budget.take()
