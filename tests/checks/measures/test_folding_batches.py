"""Measures of token numbers say the same of a log whole and of the same log in batches."""

from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from checks.columns import SCHEMAS, completed
from checks.finding import Finding
from checks.log import MemoryLog, split_scores
from checks.measure import Measure, Tools
from checks.suite import Check, run, select_checks

NAMES = ("importance-weight", "staleness", "entropy", "length-mismatch", "loss-mask", "served-adapter")


def rows(seed: int, count: int = 60) -> list[dict[str, Any]]:
    """Turns with something of everything: faults, masks of either form, sessions that go on, several versions."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    for number in range(count):
        n, prompt = int(rng.integers(0, 30)), int(rng.integers(1, 4))
        mu = np.where(rng.random(n) < 0.1, 0.0, -rng.exponential(1, n))
        mu[:1] = 0.25 if rng.random() < 0.1 else mu[:1]
        old = np.minimum(mu + rng.normal(0, 0.3 * (number % 4 == 0) + 1e-3, n), 0.0)
        row: dict[str, Any] = {
            "session_id": f"s{number % 5}",
            "turn": number + 1,
            "prompt_ids": rng.integers(0, 3, prompt).tolist(),
            "completion_ids": rng.integers(0, 9, n).tolist(),
            "sampled_logprobs": mu.tolist() + [0.5] * int(rng.random() < 0.1),
            "trainer_logprobs": old.tolist(),
            "entropies": rng.random(n).tolist(),
            "reference_logprobs": (mu - number % 2).tolist(),
            "sampling_version_logprobs": (mu - 1 + number % 2).tolist(),
            "adapter": f"a{number % 2}",
            "adapter_version": int(rng.integers(1, 4)),
            "trainer_version": int(rng.integers(2, 9)),
            "trainer_step": int(rng.integers(0, 12)),
            "finish_reason": "stop",
            "temperature": 1.0,
        }
        if rng.random() < 0.5:
            row["loss_mask"] = rng.integers(0, 2, n + prompt * int(rng.random() < 0.5)).tolist()
        found.append(row)
    return found


def whole_frame(seed: int) -> pl.DataFrame:
    turns = rows(seed)
    names = {name: SCHEMAS["turns"][name] for row in turns for name in row}
    return completed(pl.DataFrame(turns, schema=names), "turns")


def in_batches(check: Check, turns: pl.DataFrame, size: int) -> Finding:
    (kind,) = check.measures
    measure: Measure = kind(Tools())
    for begin in range(0, turns.height, size):
        measure.add(split_scores(turns.slice(begin, size), kind.turn_columns, kind.score_columns))
    sessions = list(measure.again())
    again = turns.filter(pl.col("session_id").is_in(sessions))
    for begin in range(0, again.height, size):
        measure.add_again(split_scores(again.slice(begin, size), kind.turn_columns, kind.score_columns))
    log = MemoryLog({})
    return check.function(measure.frame(), *(log.table(name) for name in check.frames[1:]))


def rounded(value: Any) -> Any:
    """Floats to 11 digits: sums in another order differ in the last ones."""
    if isinstance(value, float):
        return float(f"{value:.11g}") + 0.0
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return {name: rounded(each) for name, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 7, 59])
def test_batches_do_not_matter(name: str, size: int) -> None:
    (check,) = select_checks([name])
    turns = whole_frame(3)
    whole = run({"turns": turns}, checks=[check]).findings[0]
    parts = in_batches(check, turns, size)
    assert whole.evidence, "the log has faults of this kind"

    def plain(finding: Finding) -> Any:
        found = msgspec.to_builtins(finding)
        found["evidence"] = sorted(map(str, rounded(found["evidence"])))
        return rounded(found)

    assert plain(parts) == plain(whole)
