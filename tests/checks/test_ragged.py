"""List columns as flat arrays."""

import numpy as np
import polars as pl

from checks.ragged import ragged


def test_rows_lengths_and_nulls_are_kept_apart() -> None:
    column = pl.Series([[1, 2], None, [], [3]], dtype=pl.List(pl.Int32))
    found = ragged(column)
    assert found.values.tolist() == [1, 2, 3]
    assert found.offsets.tolist() == [0, 2, 2, 2, 3]
    assert found.valid.tolist() == [True, False, True, True]
    assert found.row(3).tolist() == [3]


def test_a_slice_of_a_column_is_only_its_rows() -> None:
    column = pl.Series([[1, 2], [3], [4, 5, 6]], dtype=pl.List(pl.Int32))
    found = ragged(column.slice(1, 2))
    assert found.values.tolist() == [3, 4, 5, 6]
    assert found.offsets.tolist() == [0, 1, 4]


def test_a_null_inside_a_list_is_nan() -> None:
    found = ragged(pl.Series([[0.5, None]], dtype=pl.List(pl.Float32)))
    assert np.isnan(found.values).tolist() == [False, True]


def test_ids_are_not_copied() -> None:
    column = pl.Series([[1, 2], [3]], dtype=pl.List(pl.Int32))
    assert not ragged(column).values.flags.owndata


def test_a_column_of_nulls_has_rows_without_values() -> None:
    found = ragged(pl.Series([None, None], dtype=pl.List(pl.Int32)))
    assert found.offsets.tolist() == [0, 0, 0]
    assert not found.valid.any()
