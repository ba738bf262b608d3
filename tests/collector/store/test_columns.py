"""Columns of the tables."""

import msgspec
import pyarrow as pa
import pytest

from collector.records import TABLES
from collector.store.columns import Kind, record_columns, record_schema, stored_columns, stored_schema


@pytest.mark.parametrize("table", TABLES)
def test_columns_are_the_records_fields_by_their_names_on_the_wire(table: str) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(TABLES[table])]
    assert [column.name for column in record_columns(table)] == names
    assert record_schema(table).names == [*names, "writer", "seq", "crc32"]


def test_a_span_begins_in_the_column_from() -> None:
    assert record_schema("spans").names[:4] == ["role", "kind", "from", "to"]


def test_types_of_a_turn() -> None:
    schema = record_schema("turns")
    assert schema.field("prompt_ids").type == pa.list_(pa.int32())
    assert schema.field("sampled_logprobs").type == pa.list_(pa.float32())
    assert schema.field("loss_mask").type == pa.list_(pa.int8())
    assert schema.field("started_at").type == pa.timestamp("us", tz="UTC")
    assert schema.field("request").type == pa.string()
    span = schema.field("weight_versions").type.value_type
    assert [(field.name, field.type) for field in span] == [
        ("version", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
    ]


def test_a_turn_is_stored_without_its_prompt_and_request() -> None:
    stored = [column.name for column in stored_columns("turns")]
    assert {"prompt_ids", "request"} == {column.name for column in record_columns("turns")} - set(stored)
    assert {"prefix_seq", "prompt_prefix_tokens", "new_prompt_ids", "new_messages"} <= set(stored)


def test_only_columns_that_may_be_missing_are_nullable_when_stored() -> None:
    for column in stored_columns("turns"):
        assert stored_schema("turns").field(column.name).nullable == column.nullable
    kinds = {column.name: column.kind for column in stored_columns("rewards")}
    assert kinds["parts"] is Kind.JSON
