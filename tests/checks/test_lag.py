"""How far behind the trainer the sampling weights were."""

import polars as pl
import pytest

from checks.columns import SCHEMAS
from checks.lag import label_version, with_lag


def cells(*rows: tuple[str | None, int | None, int | None, int | None]) -> pl.DataFrame:
    names = {"adapter": pl.String, "sampling_version": pl.Int64, "trainer_version": pl.Int64, "trainer_step": pl.Int64}
    return pl.DataFrame(rows, schema=names, orient="row")


def versions(*rows: tuple[str, int, int | None]) -> pl.DataFrame:
    table = pl.DataFrame(rows, schema=["adapter", "version", "optimizer_step"], orient="row")
    return table.cast({name: SCHEMAS["versions"][name] for name in table.columns})  # pyright: ignore[reportArgumentType]


def lags(frame: pl.DataFrame, table: pl.DataFrame | None = None) -> list[int | None]:
    return with_lag(frame, versions() if table is None else table)["lag"].to_list()


def test_version_numbers_are_read_as_steps_without_a_table() -> None:
    assert lags(cells((None, 7, 9, None), (None, 9, 9, None), (None, 11, 9, None))) == [2, 0, -2]


def test_the_trainers_version_goes_before_its_step_without_a_table() -> None:
    assert lags(cells((None, 7, 9, 400), (None, 7, None, 10))) == [2, 3]


def test_steps_are_used_on_both_sides_where_the_table_knows_them() -> None:
    table = versions(("a", 1, 20), ("a", 2, 45), ("a", 3, None))
    frame = cells(("a", 1, 2, None), ("a", 1, 2, 50), ("a", 2, None, 50), ("a", 0, 2, None), ("a", 1, 1, None))
    assert lags(frame, table) == [25, 30, 5, 45, 0]


def test_a_version_that_the_table_does_not_know_has_no_lag_rather_than_one_of_mixed_units() -> None:
    table = versions(("a", 1, 20), ("b", 1, None))
    assert lags(cells(("a", 2, 3, None), ("a", 1, 3, None), ("b", 1, 3, None)), table) == [None, None, 2]


def test_an_unknown_side_has_no_lag() -> None:
    assert lags(cells((None, None, 9, None), (None, 3, None, None))) == [None, None]


@pytest.mark.parametrize(
    ("label", "version"),
    [
        ("7", 7),
        ("v12", 12),
        ("step_30", 30),
        ("global-step-4", 4),
        ("support@9", 9),
        ("  8 ", 8),
        ("default", None),
        ("a1b2c3", None),
        ("-1", None),
        ("9" * 19, None),
        ("", None),
        (None, None),
    ],
)
def test_a_label_is_a_version_only_when_it_is_a_number(label: str | None, version: int | None) -> None:
    column = pl.DataFrame({"label": pl.Series([label], dtype=pl.String)})
    assert column.select(label_version(pl.col("label"))).item() == version


def test_labels_are_compared_as_numbers_not_as_text() -> None:
    column = pl.DataFrame({"label": ["9", "10"]}).select(label_version(pl.col("label"))).to_series()
    assert column.to_list() == [9, 10]
