"""Runs of sampled tokens with the trainer's scores of them, found again by all tokens up to their end."""

from collections import defaultdict
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np

from checks.rows import Row, TurnRow

_LISTS = ("sampled_logprobs", "trainer_logprobs", "entropies", "advantages")


class _Scores(NamedTuple):
    """The lists of one run, float32 as they were exported, and the step."""

    # Any: NumPy's own generic parameter.
    lists: dict[str, "np.ndarray[Any, np.dtype[np.float32]]"]
    trainer_step: int | None
    trainer_version: int | None


class ScoredRuns:
    """The scored turns of one step, without their tokens. Equal runs are handed out one by one."""

    def __init__(self) -> None:
        self._runs: defaultdict[bytes, list[_Scores]] = defaultdict(list)

    def add(self, row: Row) -> None:
        """Keeps the scores of a turn."""
        if isinstance(row, TurnRow) and row.trainer_logprobs is not None:
            held = {name: values for name in _LISTS if (values := getattr(row, name)) is not None}
            lists = {name: np.asarray(values, dtype=np.float32) for name, values in held.items()}
            self._runs[_key(row)].append(_Scores(lists, row.trainer_step, row.trainer_version))

    def joined(self, row: Row) -> Row:
        """A turn with the scores of the same tokens, if there are any left; another row as it is.

        The exported log-probabilities replace those of the trace, which are rounded.
        """
        if not isinstance(row, TurnRow) or not row.completion_ids:
            return row
        found = self._runs.get(_key(row))
        if not found:
            return row
        scores = found.pop(0)
        lists = {name: values.tolist() for name, values in scores.lists.items()}
        version = scores.trainer_version
        return msgspec.structs.replace(row, trainer_step=scores.trainer_step, trainer_version=version, **lists)

    def is_left(self, row: Row) -> bool:
        """Whether a turn's scores were not handed out; asked once for each turn that was added."""
        if not isinstance(row, TurnRow):
            return True
        found = self._runs.get(_key(row))
        if found:
            found.pop(0)
            return True
        return False


def _key(row: TurnRow) -> bytes:
    ids = np.asarray([*(row.prompt_ids or ()), *(row.completion_ids or ())], dtype=np.int32)
    return blake2b(ids.tobytes(), digest_size=16).digest() + len(row.completion_ids or ()).to_bytes(8, "little")
