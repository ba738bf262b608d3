"""A table that grows at its end and is changed where it must be, and nowhere else."""

import random

import polars as pl

from console.watch.source.growing_table import GrowingTable
from console.watch.source.trained_marks import first_marks, marked


def turns(*names: str) -> pl.DataFrame:
    """Unmarked turns."""
    return pl.DataFrame({"turn_id": names}, schema={"turn_id": pl.String})


def scores(*rows: tuple[str, int | None, int | None]) -> pl.DataFrame:
    """Turn, step, version."""
    schema = {"turn_id": pl.String, "trainer_step": pl.Int64, "trainer_version": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def mark(table: GrowingTable, told: pl.DataFrame) -> list[str]:
    """As the store's rows do it; the turns that are not there yet."""
    first = first_marks(told)
    left = table.change("turn_id", first["turn_id"], lambda piece: marked(piece, first))
    return left.to_list()


def marks(table: GrowingTable) -> list[tuple[str, int | None, int | None]]:
    """What stands beside each turn."""
    return table.frame().select("turn_id", "trainer_step", "trainer_version").rows()


def test_only_the_piece_with_the_row_is_made_anew() -> None:
    table = GrowingTable("turns")
    table.add(turns("a", "b"))
    table.add(turns("c"))
    before = table._pieces[0]  # pyright: ignore[reportPrivateUsage]
    assert mark(table, scores(("c", 7, 1), ("nobody", 9, 9))) == ["nobody"]
    assert table._pieces[0] is before  # pyright: ignore[reportPrivateUsage]
    assert marks(table) == [("a", None, None), ("b", None, None), ("c", 7, 1)]
    mark(table, scores(("a", None, 2), ("a", 8, 3), ("c", 10, 10)))
    assert marks(table) == [("a", None, 2), ("b", None, None), ("c", 7, 1)]


def test_any_pieces_give_what_the_whole_gives() -> None:
    source = random.Random(4)
    for _ in range(20):
        names = [f"turn-{number}" for number in range(source.randrange(1, 200))]
        table, at = GrowingTable("turns"), 0
        while at < len(names):
            many = source.randrange(1, 9)
            table.add(turns(*names[at : at + many]))
            at += many
        whole = GrowingTable("turns")
        whole.add(turns(*names))
        for step in range(5):
            told = scores(*((source.choice(names), step, None) for _ in range(source.randrange(12))))
            mark(table, told)
            mark(whole, told)
        assert table.frame().equals(whole.frame())
        assert sum(step is not None for _, step, _ in marks(table)) > 0 or len(names) < 20
