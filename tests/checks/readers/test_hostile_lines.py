"""Every field of every format, one at a time, holding what it never should: nothing is raised, the rest is read."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checks.readers import (
    test_atropos,
    test_harbor,
    test_marin,
    test_nemo_gym,
    test_nemo_rl,
    test_polar,
    test_prime_rl,
    test_tinker,
    test_tinker_capture,
    test_verifiers,
)
from tests.checks.readers.reading import opened, turns, write_lines

CAPTURE = {
    "schema_version": 1,
    "rollout_id": "r",
    "model_call_id": "m",
    "prompt_token_ids": [1],
    "generation_token_ids": [2],
    "generation_log_probs": [-0.5],
    "created_at": 1.0,
}
GYM = {
    "responses_create_params": {"input": [{"role": "user", "content": "q"}], "tools": []},
    "response": {
        "output": [test_nemo_gym._call([1], [2], type="function_call"), {"type": "function_call_output"}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "incomplete_details": {"reason": "max_output_tokens"},
        "temperature": 1.0,
    },
    "reward": 1.0,
    "_ng_task_index": 0,
    "_ng_rollout_index": 0,
}
V0 = {
    "example_id": 0,
    "prompt": [{"role": "user", "content": "q"}],
    "completion": [{"role": "assistant", "content": "a"}],
    "reward": 1.0,
    "timing": {"start_time": 1.0},
    "is_truncated": False,
    "error": None,
    "trajectory": [
        {
            "prompt": [{"role": "user"}],
            "completion": [{"role": "assistant"}],
            "tokens": {
                "prompt_ids": [1],
                "completion_ids": [2],
                "completion_logprobs": [-0.5],
                "completion_mask": [1],
            },
            "advantage": 0.5,
            "is_truncated": False,
        }
    ],
}
METRICS = {
    "step": 1,
    "time": 1.0,
    "perf/mfu": 30.0,
    "optim/grad_norm": 1.0,
    "time/wait_for_batch": 1.0,
    "time/step": 2.0,
}
TIMING = {"step": 1, "spans": [{"name": "sampling", "wall_start": 0.0, "wall_end": 1.0}]}
LINES: dict[str, dict[str, Any]] = {
    "prime-rl": test_prime_rl._export(),
    "prime-rl-metrics": METRICS,
    "verifiers": test_verifiers._episode(),
    "verifiers-eval": test_verifiers._episode("eval"),
    "verifiers-v0": V0,
    "nemo-rl": test_nemo_rl._row(filtered_rewards=[1.0]),
    "nemo-rl-val": {"content": ["x"], "rewards": [1.0], "idx": 0},
    "nemo-gym": GYM,
    "nemo-gym-capture": CAPTURE,
    "polar": test_polar._trace(),
    "polar-session": {
        "session_id": "s",
        "task_id": "t",
        "trajectory": {"metadata": {}, "traces": [test_polar._trace()]},
    },
    "harbor-atif": test_harbor._trajectory(subagent_trajectories=[test_harbor._trajectory()]),
    "harbor-trial": test_harbor._result(
        agent_result={
            "rollout_details": [{"prompt_token_ids": [[1]], "completion_token_ids": [[2]], "logprobs": [[-0.5]]}]
        }
    ),
    "tinker": test_tinker._summary(),
    "tinker-timing": TIMING,
    "tinker-metrics": {"step": 1, "progress/done_frac": 0.5, "optim/lr": 1.0, "env/all/by_group/frac_all_good": 0.5},
    "tinker-capture": test_tinker_capture._sample(),
    "atropos": test_atropos._group(advantages=[[1, 1, 1, 1], 2.0]),
    "marin": test_marin._rollout(test_marin._step([1], [2])),
}
JUNK: list[Any] = [
    None,
    True,
    -1,
    2**31,
    2**70,
    1e308,
    "x",
    "",
    "\x00\ud800",
    [],
    [None],
    [[]],
    {},
    {"a": 1},
    [{"a": None}],
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _places(each, (*path, name))
    elif isinstance(value, list) and value:
        yield from _places(value[0], (*path, 0))


def _with(line: dict[str, Any], path: tuple[Any, ...], junk: Any) -> dict[str, Any]:
    changed = copy.deepcopy(line)
    inner: Any = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = junk
    return changed


@pytest.mark.parametrize("name", LINES)
def test_whatever_a_field_holds_nothing_is_raised_and_the_line_before_is_read(tmp_path: Path, name: str) -> None:
    line = LINES[name]
    good = len(turns(opened(write_lines(tmp_path / "good" / "x.jsonl", [line]))))
    lines = [_with(line, path, junk) for path in _places(line) for junk in JUNK]
    path = write_lines(tmp_path / "bad" / "x.jsonl", [line, *lines])
    if name.startswith("harbor"):
        for number, each in enumerate(lines):
            (tmp_path / "bad" / f"{number}.json").write_text(json.dumps(each))
        path.unlink()
        (tmp_path / "bad" / "good.json").write_text(json.dumps(line))
        path = tmp_path / "bad"
    log = opened(path)
    found = turns(log)
    assert len(found) >= good
    assert len(found) + log.source().unreadable >= good
    log.table("steps")
