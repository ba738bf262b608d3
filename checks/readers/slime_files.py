"""The files of a slime or Miles run: which kind each is and of which rollout, told from its first bytes."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from checks.readers.file_head import FileHead
from checks.readers.format import Unit

_KEYS_WITHIN = 8192
_ROLLOUT_ID = re.compile(rb"rollout_id(?:q.|r....|\x94)?(?:K(.)|M(..)|J(....))", re.DOTALL)
_NUMBER_IN_NAME = re.compile(r"(\d+)(?!.*\d)")
KINDS = ("rollout", "train", "trajectories", "columns", "policy_loss", "eval")
"""In the order in which the files of one rollout are read: each adds what the ones before it did not hold."""


class DumpFile(NamedTuple):
    """One file of a run."""

    path: Path
    kind: str
    """One of `KINDS`."""
    rollout_id: int
    """-1 where neither the file nor its name says it."""


def dump_file(head: FileHead) -> DumpFile | None:
    """What a file is; None when it is none of a slime or Miles run."""
    name = head.path.name
    if head.is_parquet:
        return DumpFile(head.path, "columns", _in_name(name)) if head.path.parent.name == "dashboard_columns" else None
    if {"sample_index", "group_index", "status", "reward", "messages"} <= head.keys:
        return DumpFile(head.path, "trajectories", _in_name(name))
    if not (head.is_zip or head.is_pickle):
        return None
    start = head.start[:_KEYS_WITHIN]
    if _has_key(start, "train_log_probs") and _has_key(start, "old_log_probs"):
        return DumpFile(head.path, "policy_loss", -1)
    found = _ROLLOUT_ID.search(start)
    if found is None:
        return None
    rollout_id = int.from_bytes(next(group for group in found.groups() if group is not None), "little")
    if _has_key(start, "rollout_data") or _has_key(start, "format_version"):
        return DumpFile(head.path, "train", rollout_id)
    if not _has_key(start, "samples"):
        return None
    return DumpFile(head.path, "eval" if name.startswith("eval_") else "rollout", rollout_id)


def _has_key(start: bytes, name: str) -> bool:
    """Whether a pickle has this text: with its length before it, unlike the names of a zip's entries."""
    text = name.encode()
    return len(text).to_bytes(4, "little") + text in start or b"\x8c" + bytes([len(text)]) + text in start


def _in_name(name: str) -> int:
    found = _NUMBER_IN_NAME.search(name.partition(".")[0])
    return int(found[1]) if found else -1


def in_order(files: Sequence[DumpFile]) -> list[DumpFile]:
    """By rollout, and within one by kind."""
    return sorted(files, key=lambda file: (file.rollout_id, KINDS.index(file.kind), str(file.path)))


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """All files of the run in one: which weights are newest is known only from the rollouts before."""
    files = [file for head in heads if (file := dump_file(head)) is not None]
    left_over = [(head.path,) for head in heads if dump_file(head) is None]
    return [tuple(file.path for file in in_order(files)), *left_over] if files else left_over
