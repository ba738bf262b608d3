"""Turns as a reader sees them: prompts and requests made whole, and no turn trainable whose prompt is lost."""

# pyright: reportAttributeAccessIssue=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from collector.store import codec
from collector.store.columns import Column, Kind
from collector.store.rebuild import Kept, Rebuilder

PROMPT_LOST = "prompt_lost"
"""Why a turn is not trainable whose prompt cannot be rebuilt: the one reason that is found at reading."""

_DELTAS = ("prefix_seq", "prompt_prefix_tokens", "new_prompt_ids")
_REQUEST_DELTAS = ("request_prefix_messages", "new_messages", "request_rest")
NEEDED = {
    "prompt_ids": ("session_id", "completion_ids", *_DELTAS, "writer", "seq"),
    "request": ("session_id", "completion_ids", *_DELTAS, *_REQUEST_DELTAS, "writer", "seq"),
    "untrainable_reason": ("trainable",),
}
"""Stored columns that a column of turns is made of, besides itself."""

_BATCH_TOKENS = 2**24
_BATCH_ROWS = 1024
_IDS = Column("ids", Kind.IDS, False)


def split_by_tokens(rows: pa.Table) -> Iterator[pa.Table]:
    """Slices whose rebuilt prompts and requests stay within bounds."""
    added = pc.list_value_length(rows["new_prompt_ids"]).to_numpy()
    lengths = rows["prompt_prefix_tokens"].to_numpy() + added
    starts = [0]
    held = 0
    for index, length in enumerate(lengths.tolist()):
        if index - starts[-1] >= _BATCH_ROWS or (held and held + length > _BATCH_TOKENS):
            starts.append(index)
            held = 0
        held += length
    for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        yield rows.slice(start, end - start)


def kept_rows(rows: pa.Table) -> Iterator[tuple[str, int, Kept]]:
    """The writer and seq of each stored turn, and what it keeps."""
    names = rows.schema.names

    def text(name: str) -> list[Any]:
        return rows[name].cast(pa.binary()).to_pylist() if name in names else [None] * rows.num_rows

    counts = rows["request_prefix_messages"].to_pylist() if "request_prefix_messages" in names else text("-")
    kept = zip(
        rows["session_id"].to_pylist(),
        rows["prefix_seq"].to_pylist(),
        rows["prompt_prefix_tokens"].to_pylist(),
        codec.column_bytes(_IDS, rows["new_prompt_ids"]),
        codec.column_bytes(_IDS, rows["completion_ids"]),
        counts,
        text("new_messages"),
        text("request_rest"),
        strict=True,
    )
    for writer, seq, values in zip(rows["writer"].to_pylist(), rows["seq"].to_pylist(), kept, strict=True):
        yield writer, seq, Kept(*values)


def made_whole(rows: pa.Table, names: Sequence[str], rebuilder: Rebuilder, damage: list[str]) -> dict[str, pa.Array]:
    """The columns among `names` that are not as stored; a turn whose prompt is lost adds a line to `damage`."""
    kept = list(kept_rows(rows))
    wholes = [rebuilder.whole(writer, seq, keeps) for writer, seq, keeps in kept]
    for (writer, seq, _), whole in zip(kept, wholes, strict=True):
        if whole is None:
            line = f"record {seq} of {writer}: the turn its prompt extends is lost; its prompt is null"
            damage += [] if line in damage else [line]
    lost = pa.array([whole is None for whole in wholes], pa.bool_())
    made: dict[str, pa.Array] = {}
    if "prompt_ids" in names:
        made["prompt_ids"] = codec.list_array(_IDS, [whole.prompt if whole else None for whole in wholes])
    if "request" in names:
        requests = [whole.request() if whole else None for whole in wholes]
        made["request"] = pa.array(requests, pa.binary()).cast(pa.string())
    if "trainable" in names:
        made["trainable"] = pc.and_not(rows["trainable"].combine_chunks(), lost)
    if "untrainable_reason" in names:
        newly = pc.and_(rows["trainable"].combine_chunks(), lost)
        made["untrainable_reason"] = pc.if_else(newly, PROMPT_LOST, rows["untrainable_reason"].combine_chunks())
    return made
