"""Atropos: a scored group per line, tokens and masks of each of its sequences."""

from collections.abc import Iterator
from typing import cast

from checks.readers.fields import Json, JsonObject, floats, listed, number, token_ids
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short
from checks.readers.format import Format, Unit
from checks.readers.json_outline import tells
from checks.readers.lines import json_objects
from checks.readers.merged_row import turns_or_whole
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow

_MASKED = -100


def recognise(head: FileHead) -> str | None:
    """By the three columns that a scored group must have."""
    found = tells(head, ("tokens", "masks", "scores"), early=("tokens.[].[]",))
    return "lines with tokens, masks and scores of a group" if found else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The sequences of one file, group after group."""
    for path in unit:
        for line_number, line in json_objects(path, unreadable):
            place = f"{short(path)}:{line_number}"
            sequences = listed(line.get("tokens"))
            if not sequences:
                unreadable.add(place, "tokens is not a list of sequences, expected a scored group")
            for index in range(len(sequences)):
                try:
                    yield from _turns(line, index, place)
                except ValueError as error:
                    unreadable.add(f"{place} sequence {index}", str(error))


def _turns(line: JsonObject, index: int, place: str) -> Iterator[TurnRow]:
    """A sequence: one turn per run that is not masked. Masked places hold no log-probability, only 1.0."""
    ids = token_ids(_of(line, "tokens", index), "tokens") or []
    given = floats(_of(line, "masks", index), "masks")
    if given is None:
        raise ValueError("no masks, expected -100 for each token that was not sampled")
    masks = [each != _MASKED for each in given]
    yield from turns_or_whole(
        ids,
        masks,
        session_id=f"{place}/{index}",
        per_token={
            "sampled_logprobs": floats(_of(line, "inference_logprobs", index), "inference_logprobs"),
            "reference_logprobs": floats(_of(line, "ref_logprobs", index), "ref_logprobs"),
            "advantages": _advantages(_of(line, "advantages", index), len(ids)),
            "loss_mask": [int(each) for each in masks],
        },
        group_id=place,
        reward=number(_of(line, "scores", index), "scores"),
        place=place,
        api="import:atropos",
    )


def _advantages(value: Json, tokens: int) -> list[float] | None:
    """Advantages per token; one number for the sequence is that of each of its tokens."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [cast(float, number(value, "advantages"))] * tokens
    return floats(value, "advantages")


def _of(line: JsonObject, name: str, index: int) -> Json:
    """One sequence's part of a column; None where there is no such column."""
    if line.get(name) is None:
        return None
    column = listed(line[name])
    if index >= len(column):
        raise ValueError(f"{name} has {len(column)} sequences, expected more than {index}")
    return column[index]


ATROPOS = Format(
    name="atropos",
    about="Atropos groups (--env.data_path_to_save_groups): tokens, masks, scores",
    recognise=recognise,
    read=read,
    units=in_order,
    advice={
        "turns.sampled_logprobs": "Atropos: inference_logprobs are in the group when the managed server returns them",
        "turns.trainer_logprobs": "Atropos: the groups come from the environment; the trainer keeps its own numbers",
        "scores.trainer_logprobs": "Atropos: the groups come from the environment; the trainer keeps its own numbers",
        "turns.weight_versions": "Atropos writes no weight version into its groups",
        "turns.finish_reason": "Atropos writes no stop reason into its groups",
    },
)
