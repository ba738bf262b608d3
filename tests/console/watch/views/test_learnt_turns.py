"""Which turns were learned from, by the ranges of the registry or by steps, and which version sampled them."""

import polars as pl
import pytest

from console.watch.held import Held
from console.watch.views.learnt_turns import sampler_of, turns_of_steps, turns_within
from tests.console.watch.fake_feed import held
from tests.console.watch.small_held import frame


def turns(*places: tuple[str | None, int | None]) -> pl.DataFrame:
    """A turn of each writer and seq, numbered from 1."""
    rows = [
        {"session_id": "s", "turn": number, "writer": writer, "seq": seq}
        for number, (writer, seq) in enumerate(places, start=1)
    ]
    return frame("turns", rows)


def test_the_ends_of_a_range_belong_to_it_and_each_writer_has_its_own() -> None:
    known = turns(("c", 1), ("c", 2), ("c", 4), ("c", 5), ("d", 2), ("d", 9), (None, None))
    found = turns_within(known, [("c", 2, 4), ("d", 9, 9)])
    assert found["turn"].to_list() == [2, 3, 6]
    assert turns_within(known, []).is_empty()


def test_a_range_within_another_takes_nothing_from_it() -> None:
    known = turns(("c", 1), ("c", 5), ("c", 8), ("c", 11))
    assert turns_within(known, [("c", 1, 9), ("c", 3, 4)])["turn"].to_list() == [1, 2, 3]


def scored(*rows: dict[str, object], stepped: bool, more: str | None = None) -> Held:
    """Turns by the step that they were scored at; where versions have steps, it trained in the next one."""
    names = ["a", *([more] if more else [])]
    versions = [{"adapter": name, "version": 1, "optimizer_step": 4 if stepped else None} for name in names]
    made = [{"session_id": "s", "turn": number, **row} for number, row in enumerate(rows, start=1)]
    return held(turns=frame("turns", made), versions=frame("versions", versions))


STEPS = [{"adapter": "a", "trainer_step": step} for step in (3, 4, 5)]


@pytest.mark.parametrize(("stepped", "expected"), [(True, [1, 2]), (False, [2, 3])])
def test_steps_are_those_that_trained(stepped: bool, expected: list[int]) -> None:
    assert turns_of_steps(scored(*STEPS, stepped=stepped), "a", 4, 5)["turn"].to_list() == expected


def test_a_turn_without_an_adapter_is_of_the_only_one() -> None:
    rows = ({"trainer_step": 4}, {"adapter": "a", "trainer_step": 4})
    assert turns_of_steps(scored(*rows, stepped=True), "a", 5, 5)["turn"].to_list() == [1, 2]
    assert turns_of_steps(scored(*rows, stepped=True, more="b"), "a", 5, 5)["turn"].to_list() == [2]


@pytest.mark.parametrize(
    ("rows", "version"),
    [
        ([{"adapter": "a", "adapter_version": 3}] * 2, 3),
        ([{"adapter": "a", "adapter_version": 3}, {"adapter": "a", "adapter_version": 4}], None),
        ([{}], 0),
        ([{}, {"adapter": "a", "adapter_version": 0}], 0),
        ([{"adapter": "b", "adapter_version": 3}], None),
        ([{"adapter": "a"}], None),
        ([], None),
    ],
)
def test_a_sampler_is_named_only_where_there_is_one(rows: list[dict[str, object]], version: int | None) -> None:
    assert sampler_of(scored(*rows, stepped=True).turns, "a") == version
