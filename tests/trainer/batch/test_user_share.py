"""The cap on one user's share: worked by hand, and against capping one user at a time until nothing changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.batch.user_share import capped_scales


def shares(masses: dict[str, float], most: float) -> dict[str, float]:
    scales = capped_scales(masses, most)
    after = {user: mass * scales[user] for user, mass in masses.items()}
    return {user: mass / sum(after.values()) for user, mass in after.items()}


def test_one_above_the_cap_comes_down_to_it() -> None:
    # level = 0.5 x (level + 4), so level is 4.
    assert capped_scales({"a": 16, "b": 3, "c": 1}, 0.5) == {"a": 0.25, "b": 1.0, "c": 1.0}


def test_capping_one_may_cap_the_next() -> None:
    # With a alone capped the level is 0.4 x 10 / 0.6 = 20/3, which b is above; with both it is 0.4 x 2 / 0.2 = 4.
    assert capped_scales({"a": 40, "b": 8, "c": 1, "d": 1}, 0.4) == pytest.approx({"a": 0.1, "b": 0.5, "c": 1, "d": 1})


def test_below_the_cap_nothing_changes() -> None:
    assert capped_scales({"a": 2, "b": 1, "c": 1}, 0.5) == {"a": 1.0, "b": 1.0, "c": 1.0}


def test_too_few_users_get_equal_shares() -> None:
    assert capped_scales({"a": 6, "b": 2}, 0.5) == pytest.approx({"a": 1 / 3, "b": 1})
    assert capped_scales({"a": 6, "b": 2, "c": 3}, 0.1) == pytest.approx({"a": 1 / 3, "b": 1, "c": 2 / 3})


def test_one_user_keeps_everything_and_nobody_counts_who_pulls_nothing() -> None:
    assert capped_scales({"a": 6, "b": 0}, 0.1) == {"a": 1.0, "b": 1.0}
    assert capped_scales({"a": 0.0}, 0.5) == {"a": 1.0}
    assert capped_scales({}, 0.5) == {}


def test_a_whole_share_is_no_cap() -> None:
    assert capped_scales({"a": 1e300, "b": 1e-300}, 1.0) == {"a": 1.0, "b": 1.0}


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=9), st.floats(0.05, 1.0))
def test_no_share_is_above_the_cap_or_an_equal_share(masses: list[float], most: float) -> None:
    named = {str(place): mass for place, mass in enumerate(masses)}
    scales = capped_scales(named, most)
    assert all(0 < scale <= 1 for scale in scales.values())
    assert max(shares(named, most).values()) <= max(most, 1 / len(masses)) * (1 + 1e-9)
    level = [named[user] * scale for user, scale in scales.items() if scale < 1]
    assert not level or max(level) == pytest.approx(min(level)), "those that are capped come down to one level"
    untouched = [named[user] for user, scale in scales.items() if scale == 1]
    assert all(mass <= min(level) * (1 + 1e-9) for mass in untouched if level)


@given(st.lists(st.integers(1, 1000), min_size=3, max_size=8), st.sampled_from([0.35, 0.4, 0.5, 0.75]))
def test_the_level_is_the_fixed_point_of_capping_again_and_again(masses: list[int], most: float) -> None:
    current = [float(mass) for mass in masses]
    for _ in range(300):
        limit = most * sum(current)
        current = [min(mass, limit) for mass in current]
    scales = capped_scales({str(place): mass for place, mass in enumerate(masses)}, most)
    found = [mass * scales[str(place)] for place, mass in enumerate(masses)]
    assert found == pytest.approx(current, rel=1e-6)
