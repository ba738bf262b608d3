"""Atropos: groups of scored token sequences, one group a line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.lines import json_objects
from checks.readers.merged_row import turns_of
from checks.readers.pickle_values import floats, ids, number
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row

_NO_LOSS = -100
_NOT_SAMPLED = 1.0
"""What stands for the log-probability of a token that the policy did not sample."""


def recognise(head: FileHead) -> str | None:
    """By the keys of a group."""
    return (
        "lines with tokens, masks and scores, as Atropos saves groups"
        if head.keys >= {"tokens", "masks", "scores"}
        else None
    )


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The turns of every sequence of every group."""
    for path in unit:
        for line_number, line in json_objects(path, unreadable):
            tokens, masks = line.get("tokens"), line.get("masks")
            if not isinstance(tokens, list) or not isinstance(masks, list) or len(tokens) != len(masks):  # pyright: ignore[reportUnknownArgumentType]
                unreadable.add(f"{path.name}:{line_number}", "no list of tokens with as many masks")
                continue
            for row in range(len(cast(list[object], tokens))):
                place = f"{path.name}:{line_number}[{row}]"
                try:
                    yield from _turns(path, line, line_number, row, place)
                except ValueError as error:
                    unreadable.add(place, str(error))


# Any: a group as it was saved.
def _turns(path: Path, line: dict[str, Any], line_number: int, row: int, place: str) -> Iterator[Row]:
    tokens, mask = ids(_of_row(line.get("tokens"), row)), ids(_of_row(line.get("masks"), row))
    if tokens is None or mask is None:
        raise ValueError("tokens or masks that are no whole numbers")
    # The mask repeats the token where the loss is taken; older environments write 1 and 0.
    flags = [int(value == 1) for value in mask] if set(mask) <= {0, 1} else [int(value != _NO_LOSS) for value in mask]
    logprobs = floats(_of_row(line.get("inference_logprobs"), row))
    sampled = flags
    if logprobs is not None and len(logprobs) == len(flags):
        sampled = [int(flag or value != _NOT_SAMPLED) for flag, value in zip(flags, logprobs, strict=True)]
    yield from turns_of(
        tokens,
        sampled,
        session_id=f"{path.stem}/{line_number}/{row}",
        group_id=f"{path.stem}/{line_number}",
        per_token={
            "sampled_logprobs": logprobs,
            "loss_mask": flags,
            "reference_logprobs": floats(_of_row(line.get("ref_logprobs"), row)),
            "advantages": floats(_of_row(line.get("advantages"), row)),
        },
        reward=number(_of_row(line.get("scores"), row)),
        place=place,
    )


# Any: as above.
def _of_row(column: Any, row: int) -> Any:
    return cast(list[Any], column)[row] if isinstance(column, list) and row < len(cast(list[Any], column)) else None


ATROPOS = Format(
    name="atropos",
    about="Atropos' groups of scored token sequences",
    recognise=recognise,
    read=read,
    advice={
        "turns.sampled_logprobs": "Atropos: a managed server, so that inference_logprobs are saved with the groups",
        "turns.trainer_logprobs": "Atropos saves none: they are the trainer's",
        "turns.weight_versions": "Atropos saves none: put the trainer's metric log beside the groups",
    },
)
