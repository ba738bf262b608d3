"""Every column has a meaning, and it is the one written below its field."""

import msgspec
import pytest

from collector.errors import UserError
from collector.records import REGISTRY_TABLES, TABLES
from collector.store.meanings import Meaning, column_meanings, table_meaning
from collector.store.sql_views import VIEWS


@pytest.mark.parametrize("table", [*TABLES, *REGISTRY_TABLES])
def test_every_column_and_table_says_what_it_means(table: str):
    record = (TABLES | REGISTRY_TABLES)[table]
    columns = column_meanings(table)
    keys = ["writer", "seq", "crc32"] if table in TABLES else []
    assert [column.column for column in columns] == [*record.__struct_encode_fields__, *keys]
    for column in columns:
        assert column.text.endswith("."), f"{table}.{column.column}: {column.text!r} is no sentence"
        assert column.annotation
    assert table_meaning(table).endswith(".")


def test_nested_structs_say_what_their_fields_mean():
    from collector.records import ChatRequest, VersionSpan
    from collector.store.meanings import _documented_fields  # pyright: ignore[reportPrivateUsage]

    for struct in (ChatRequest, VersionSpan):
        documented = _documented_fields()[struct.__name__]
        assert list(documented) == [field.name for field in msgspec.structs.fields(struct)]
        assert all(text for _, text in documented.values())


def test_a_meaning_is_the_text_below_the_field_on_one_line():
    turns = {column.column: column for column in column_meanings("turns")}
    assert turns["prompt_ids"] == Meaning("prompt_ids", "list[int]", "int32, the exact ids the engine was given.")
    assert turns["logprob_mode"].text == (
        "Distribution of sampled_logprobs: `scaled` softmax(logits/T) before truncation, `raw` at T = 1, "
        "`truncated` renormalised over what top-p, top-k or min-p left."
    )
    assert [column.column for column in column_meanings("spans")][2:4] == ["from", "to"]


def test_an_unknown_table_names_the_known_ones():
    with pytest.raises(UserError, match=r"no table 'turn'; there are turns, scores.*, turn_workers, costs$"):
        column_meanings("turn")


def test_a_view_says_what_it_is_and_what_its_columns_mean():
    for view in VIEWS:
        assert table_meaning(view).endswith("A view: computed when it is asked for, and no part of an export.")
        assert all(column.text.endswith(".") for column in column_meanings(view))
    assert column_meanings("turn_workers")[2:] == [
        Meaning("turn", "int", "Its 1-based position in the session."),
        Meaning("worker", "str | None", "Address of the worker; None where the collector had one only."),
    ]
