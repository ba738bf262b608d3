"""verifiers v1: episodes generated from the definition of its records (version 0.4)."""

from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, rows, scores, turns, unreadable, write_lines


def _node(parent: int | None, ids: list[int], sampled: int = 0, **changes: Any) -> dict[str, Any]:
    """A node whose last `sampled` tokens the model sampled."""
    role = "assistant" if sampled else "user"
    return {
        "parent": parent,
        "message": {"role": role, "content": str(ids)},
        "sampled": sampled > 0,
        "timestamp": 1_760_000_000.0,
        "token_ids": ids,
        "mask": [False] * (len(ids) - sampled) + [True] * sampled,
        "logprobs": [-0.5 * (index + 1) for index in range(sampled)],
    } | changes


def _trace(**changes: Any) -> dict[str, Any]:
    """A tool loop of two calls, and a third one from a rewritten history."""
    return {
        "version": 1,
        "id": "trace-a",
        "agent": {"name": "solver", "trainable": True, "config": {}},
        "nodes": [
            _node(None, [1, 2]),
            _node(0, [3, 4, 5], 2, trainer_logprobs=[-0.25, -0.75], entropies=[0.1, 0.2], advantages=[1.0, 1.0]),
            _node(1, [6, 7]),
            _node(2, [8, 9], 1),
            _node(None, [1, 90]),
            _node(4, [3, 10], 1, semantic_parents=[{"node": 3, "type": "compaction"}]),
        ],
        "calls": [
            {
                "node": 1,
                "model": "m",
                "finish_reason": "tool_calls",
                "sampling": {"temperature": 0.7},
                "usage": {"prompt_tokens": 1, "cached_input_tokens": 2, "completion_tokens": 2},
                "time": {"start": 1_760_000_000.0, "end": 1_760_000_002.5},
            },
            {"node": 3, "model": "m", "finish_reason": "length"},
            {"model": "m", "error": {"type": "ProviderError", "message": "x"}},
        ],
        "rewards": {"correct": {"score": 1.0, "weight": 0.5}, "style": {"score": 0.25, "weight": 1.0}, "late": None},
        "metrics": {},
    } | changes


def _episode(kind: str = "train", **changes: Any) -> dict[str, Any]:
    return {
        "id": "episode-a",
        "env": {"id": "gsm8k", "name": "math"},
        "task": {"type": "T", "data": {}, "key": "task-7", "hash": "h"},
        "group": {"id": "g1"},
        "run": {"type": "train", "id": "r", "work": {"type": kind, "step": 4, "policy": {"start": 2, "end": 3}}},
        "ok": True,
        "errors": [],
        "traces": [_trace()],
    } | changes


def test_each_sampled_node_is_a_turn_after_the_tokens_on_its_path(tmp_path: Path) -> None:
    found = turns(opened(write_lines(tmp_path / "traces.jsonl", [_episode()])))
    assert [(turn["session_id"], turn["turn"]) for turn in found] == [("trace-a", n) for n in (1, 2, 3)]
    assert [turn["prompt_ids"] for turn in found] == [[1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8], [1, 90, 3]]
    assert [turn["completion_ids"] for turn in found] == [[4, 5], [9], [10]]
    assert [turn["sampled_logprobs"] for turn in found] == [[-0.5, -1.0], [-0.5], [-0.5]]
    assert [turn["finish_reason"] for turn in found] == ["stop", "length", None]
    assert found[0]["weight_versions"] == [{"version": "2", "start": 0, "end": 2}]
    assert {(turn["reward"], turn["group_id"], turn["task_id"]) for turn in found} == {(0.75, "g1", "task-7")}
    assert (found[0]["stated_prompt_tokens"], found[0]["cached_tokens"], found[0]["stated_completion_tokens"]) == (
        3,
        2,
        2,
    )
    assert (found[0]["temperature"], found[0]["loss_mask"]) == (0.7, None)
    assert (found[0]["finished_at"] - found[0]["started_at"]).total_seconds() == 2.5


def test_annotations_of_the_trainer_are_scores(tmp_path: Path) -> None:
    (score,) = scores(opened(write_lines(tmp_path / "step_6" / "train" / "all" / "traces.jsonl", [_episode()])))
    assert (score["turn"], score["trainer_logprobs"], score["entropies"]) == (1, [-0.25, -0.75], [0.1, 0.2])
    assert (score["trainer_step"], score["trainer_version"]) == (6, 5), "the folder's step, not that of the dispatch"


def test_a_declared_compaction_is_an_event_of_its_turn(tmp_path: Path) -> None:
    (event,) = rows(opened(write_lines(tmp_path / "traces.jsonl", [_episode()])), "events")
    assert (event["kind"], event["session_id"], event["turn"]) == ("compaction", "trace-a", 3)


def test_evaluations_are_marked_and_each_is_a_sample(tmp_path: Path) -> None:
    lines = [_episode("eval"), _episode("eval", traces=[_trace(id="trace-b", rewards={"correct": {"score": 0.0}})])]
    log = opened(write_lines(tmp_path / "traces.jsonl", lines))
    assert {(turn["purpose"], turn["trainer_step"]) for turn in turns(log)} == {("eval", None)}
    assert rows(log, "evals") == [
        {"version": 2, "step": 4, "suite": "math", "task_id": "task-7", "sample": sample, "score": score}
        for sample, score in ((0, 0.75), (1, 0.0))
    ]


def test_agents_of_one_episode_are_sessions_and_groups_of_their_own(tmp_path: Path) -> None:
    judge = _trace(id="trace-j", agent={"name": "judge", "trainable": False}, rewards={})
    found = turns(opened(write_lines(tmp_path / "traces.jsonl", [_episode(traces=[_trace(), judge])])))
    assert {(turn["session_id"], turn["group_id"], turn["reward"], turn["trainable"]) for turn in found} == {
        ("trace-a", "g1/solver", 0.75, None),
        ("trace-j", None, None, False),
    }


def test_a_reply_without_tokens_has_the_messages_it_answers(tmp_path: Path) -> None:
    bare = [node | {"token_ids": [], "mask": [], "logprobs": []} for node in _trace()["nodes"]]
    found = turns(opened(write_lines(tmp_path / "traces.jsonl", [_episode(traces=[_trace(nodes=bare)])])))
    assert [turn["prompt_ids"] for turn in found] == [None] * 3
    assert found[1]["request"] == (
        '{"messages":[{"role":"user","content":"[1, 2]"},'
        '{"role":"assistant","content":"[3, 4, 5]"},{"role":"user","content":"[6, 7]"}]}'
    )


def test_what_is_put_into_a_reply_parts_it(tmp_path: Path) -> None:
    mixed = _node(0, [3, 4, 5, 6], 3) | {"mask": [True, False, True, True], "logprobs": [-1.0, -2.0, -3.0]}
    found = turns(
        opened(write_lines(tmp_path / "traces.jsonl", [_episode(traces=[_trace(nodes=[_node(None, [1]), mixed])])]))
    )
    assert [turn["prompt_ids"] for turn in found] == [[1], [1, 3, 4]]
    assert [turn["completion_ids"] for turn in found] == [[3], [5, 6]]
    assert [turn["sampled_logprobs"] for turn in found] == [[-1.0], [-2.0, -3.0]]


def test_a_missing_log_probability_stays_for_the_checks(tmp_path: Path) -> None:
    short = _node(0, [3, 4], 2) | {"logprobs": [-0.5]}
    (turn,) = turns(
        opened(write_lines(tmp_path / "traces.jsonl", [_episode(traces=[_trace(nodes=[_node(None, [1]), short])])]))
    )
    assert (turn["completion_ids"], turn["sampled_logprobs"]) == ([3, 4], [-0.5])


def test_the_effective_copy_is_not_read_twice(tmp_path: Path) -> None:
    for name in ("all", "effective"):
        write_lines(tmp_path / f"step_1/train/{name}/traces.jsonl", [_episode()])
    assert len(turns(opened(tmp_path))) == 3
    assert len(turns(opened(tmp_path / "step_1/train/effective"))) == 3


def test_a_broken_graph_is_named_and_the_other_traces_are_read(tmp_path: Path) -> None:
    loop = _trace(id="trace-l", nodes=[_node(1, [1]), _node(0, [2], 1)])
    uneven = _trace(id="trace-u", nodes=[_node(None, [1, 2], 1) | {"mask": [True]}])
    log = opened(write_lines(tmp_path / "run" / "traces.jsonl", [_episode(traces=[loop, uneven, _trace()])]))
    assert {turn["session_id"] for turn in turns(log)} == {"trace-a"}
    assert unreadable(log) == [
        ("run/traces.jsonl:1 trace 0", "node 0 has parent 1, expected one before it"),
        ("run/traces.jsonl:1 trace 1", "1 mask flags for 2 tokens of a node, expected as many"),
    ]


def test_a_trace_alone_on_a_line_is_read(tmp_path: Path) -> None:
    assert len(turns(opened(write_lines(tmp_path / "traces.jsonl", [_trace()])))) == 3
