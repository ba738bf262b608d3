"""A native log of any size as lines of JSON, written piece by piece: turns as they end, steps and events among them."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from tests.benchmarks.synthetic_log import SESSIONS_A_STEP, scores_of, sessions, small_tables, turns_of

_PIECE = SESSIONS_A_STEP
_ENCODER = msgspec.json.Encoder()


class WrittenLines(NamedTuple):
    """What a log holds."""

    bytes: int
    turns: int
    steps: int


def write_line_log(path: Path, size: int, *, seed: int = 7) -> WrittenLines:
    """Writes whole steps, each after the turns that it trained on, until the file has that many bytes."""
    rng = np.random.default_rng(seed)
    made = sessions(rng)
    turns = steps = 0
    with path.open("wb") as file:
        while file.tell() < size:
            rows = turns_of(list(itertools.islice(made, _PIECE)), rng)
            steps += 1
            file.writelines(_encoded(_scored(rows, rng)))
            step = small_tables(steps, rng)["steps"].slice(steps - 1)
            said = {
                "record": "event",
                "kind": "retry",
                "at": step["at"][0].as_py(),
                "text": f"worker {steps % 4} again",
            }
            file.writelines(_line(each) for each in ({"record": "step", **step.to_pylist()[0]}, said))
            turns += rows.num_rows
        return WrittenLines(file.tell(), turns, steps)


def _scored(turns: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The turns with the trainer's scores in the same line, log-probabilities as logs round them."""
    scores = scores_of(turns, rng)
    for name in ("trainer_step", "trainer_version", "trainer_logprobs"):
        turns = turns.append_column(name, scores[name])
    for name in ("sampled_logprobs", "trainer_logprobs"):
        column = turns[name].combine_chunks()
        rounded = pa.ListArray.from_arrays(column.offsets, np.round(column.values.to_numpy().astype(np.float64), 4))
        turns = turns.set_column(turns.column_names.index(name), name, rounded)
    return turns


def _encoded(rows: pa.Table) -> Iterator[bytes]:
    for row in rows.to_pylist():
        yield _line(row)


def _line(row: dict[str, object]) -> bytes:
    return _ENCODER.encode(row) + b"\n"
