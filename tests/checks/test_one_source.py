"""One source for each curve: the truest that knows at least half of what the best one knows."""

import polars as pl

from checks.one_source import one_source


def curve(*points: tuple[str | None, int, float | None]) -> pl.DataFrame:
    schema = {"adapter": pl.String, "step": pl.Int64, "value": pl.Float64}
    return pl.DataFrame(points, schema=schema, orient="row")


def test_the_first_is_taken_when_it_knows_half_the_steps() -> None:
    first = curve(("a", 1, 1.0), ("a", 2, 2.0))
    four, five = (curve(*(("a", step, 9.0) for step in range(count))) for count in (4, 5))
    assert one_source(first, four)["source"].to_list() == [0, 0]
    assert one_source(first, five)["source"].to_list() == [1] * 5


def test_each_adapter_and_no_adapter_have_a_source_of_their_own() -> None:
    found = one_source(curve(("a", 1, 1.0), (None, 1, 2.0)), curve(("b", 1, 3.0), (None, 1, 4.0)))
    assert found.rows() == [(None, 1, 2.0, 0), ("a", 1, 1.0, 0), ("b", 1, 3.0, 1)]


def test_what_is_not_known_does_not_count() -> None:
    assert one_source(curve(("a", 1, None)), curve(("a", 1, 3.0))).rows() == [("a", 1, 3.0, 1)]
    assert one_source(curve(), curve()).is_empty()
