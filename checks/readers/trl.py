"""TRL: the completions that GRPO logs, each generation batch once."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as arrow
import pyarrow.parquet as parquet

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.pickle_values import number, whole
from checks.readers.text_key import text_key
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow

_PLAIN = {"step", "prompt", "completion", "advantage", "mode", "image", "images"}
_BATCH_ROWS = 256


def recognise(head: FileHead) -> str | None:
    """By the name that TRL gives, since the columns of a large Parquet file stand at its end."""
    if (
        head.is_parquet
        and head.path.name.startswith("completions_")
        and head.path.parent.name in ("completions", "train", "eval")
    ):
        return "a Parquet file completions/completions_<step>, as TRL logs completions"
    return None


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """All files of a run by step: one may repeat the one before."""
    return [tuple(sorted((head.path for head in heads), key=lambda path: (str(path.parent), path.name)))]


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The completions of each file that holds another generation batch than the file before."""
    before: Counter[str] = Counter()
    for path in unit:
        try:
            rows = list(_rows(path))
        except (OSError, ValueError, KeyError, arrow.ArrowException) as error:
            unreadable.add(path.name, f"cannot be read as completions of TRL: {error}")
            continue
        # A batch that is reused over several optimizer steps is logged again, row for row, under each of them.
        batch = Counter(_identity(row) for row in rows)
        if batch != before:
            yield from _turns(path, rows)
        before = batch


# Any: a row of whatever columns were logged.
def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=_BATCH_ROWS):
        yield from batch.to_pylist()


def _identity(row: dict[str, Any]) -> str:
    parts = [row.get("prompt"), row.get("completion"), row.get("advantage")]
    return text_key(msgspec.json.encode(parts, order="deterministic").decode())


def _turns(path: Path, rows: Sequence[dict[str, Any]]) -> Iterator[TurnRow]:
    rewards = _reward_columns(rows)
    for position, row in enumerate(rows):
        step = whole(row.get("step"))
        prompt, completion = row.get("prompt"), row.get("completion")
        parts = [value for name in rewards if (value := number(row.get(name))) is not None]
        messages = cast(list[Any], prompt) if isinstance(prompt, list) else None
        yield TurnRow(
            session_id=f"{path.parent.name}/{path.stem}/{position}",
            group_id=f"{path.stem}/{text_key(msgspec.json.encode(prompt).decode())}",
            request=None if messages is None else {"messages": messages},
            response={"messages": completion} if isinstance(completion, list) else None,
            prompt_text=prompt if isinstance(prompt, str) else None,
            completion_text=completion if isinstance(completion, str) else _text(completion),
            reward=sum(parts) if parts else None,
            trainer_step=step,
            purpose="eval" if row.get("mode") == "eval" else None,
            place=f"{path.name}:row {position}",
        )


# Any: messages as TRL logs them.
def _text(completion: Any) -> str | None:
    if not isinstance(completion, list):
        return None
    contents = [
        cast(dict[str, Any], each).get("content") for each in cast(list[Any], completion) if isinstance(each, dict)
    ]
    return "\n".join(content for content in contents if isinstance(content, str))


def _reward_columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Columns named for reward functions; other logged numbers are told apart only by their names.

    Their sum is the reward where `reward_weights` are what they are by default, all one.
    """
    found = [
        name
        for name in (rows[0] if rows else ())
        if name not in _PLAIN and any(isinstance(row.get(name), int | float) for row in rows)
    ]
    named = [name for name in found if "reward" in name.lower()]
    return named or found


TRL = Format(
    name="trl",
    about="completions that TRL's GRPO trainer logs as Parquet; its trainer_state is read beside them",
    recognise=recognise,
    read=read,
    units=units,
    advice={
        "turns.completion_ids": "TRL logs text only; capture tokens with a callback or a token capture at the engine",
        "turns.sampled_logprobs": "TRL logs text only; sampling/sampling_logp_difference/* is in its metric log",
        "turns.reward": "TRL: GRPOConfig(log_completions=True)",
        "steps.grad_norm": "TRL: put trainer_state.json beside the completions",
        "steps.entropy": "TRL: put trainer_state.json beside the completions",
        "evals.score": "TRL: eval_strategy='steps'; eval_reward is in trainer_state.json",
    },
)
