"""slime and Miles dumps, generated in the layout of their own writers: every id and log-probability comes back."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from checks.readers.file_head import FileHead
from checks.readers.formats import FORMATS
from checks.readers.open_log import open_log
from checks.readers.slime import SLIME
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, TurnRow


def sample(index: int, **changed: Any) -> dict[str, Any]:
    """A sample as slime's Sample.to_dict gives it: 3 prompt tokens, 5 of the response."""
    made = {
        "group_index": index // 2,
        "index": index,
        "prompt": "2+2=",
        "tokens": [1, 2, 3, 100_000 + index, 11, 12, 13, 14],
        "multimodal_inputs": None,
        "response": "four",
        "response_length": 5,
        "label": "4",
        "reward": float(index % 2),
        "loss_mask": None,
        "weight_versions": ["1"],
        "rollout_log_probs": [-0.5, -0.25, 0.0, -1e-3, -2.0],
        "rollout_routed_experts": None,
        "remove_sample": False,
        "status": "completed",
        "metadata": {},
        "session_id": None,
        "non_generation_time": 0.0,
        "spec_info": {"spec_accept_token_num": 0},
        "prefix_cache_info": {"cached_tokens": 2, "total_prompt_tokens": 3},
    }
    return made | changed


def write_rollout(path: Path, rollout_id: int, samples: list[dict[str, Any]], **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"rollout_id": rollout_id, "samples": samples, **more}, path)


def write_training(path: Path, rollout_id: int, samples: list[dict[str, Any]], **more: Any) -> None:
    """Format version 2: one list of samples in the order of the rollout."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held = {"format_version": 2, "rollout_id": rollout_id, "rank": 0, "samples": samples, "dp_shards": [], **more}
    torch.save(held, path)


def trained(position: int, tokens: list[int], logprobs: list[float], **changed: Any) -> dict[str, Any]:
    length = len(logprobs)
    made = {
        "data_parallel_rank": 0,
        "sample_index": position,
        "rollout_position": position,
        "tokens": torch.tensor(tokens),
        "loss_masks": torch.ones(length, dtype=torch.int32),
        "response_lengths": length,
        "total_lengths": len(tokens),
        "log_probs": torch.tensor(logprobs),
        "ref_log_probs": torch.tensor(logprobs) - 1,
        "advantages": torch.full((length,), 0.5),
        "entropy": torch.full((length,), 1.25),
    }
    return made | changed


def read(*paths: Path) -> tuple[list[Row], UnreadableParts]:
    unreadable = UnreadableParts()
    heads = [FileHead.of(path) for path in paths]
    for head in heads:
        assert next(form.name for form in FORMATS if form.recognise(head)) == "slime"
    return [row for unit in SLIME.units(heads) for row in SLIME.read(unit, unreadable)], unreadable


def turns(rows: list[Row]) -> list[TurnRow]:
    return [row for row in rows if isinstance(row, TurnRow)]


def test_a_rollout_gives_every_id_and_log_probability(tmp_path: Path) -> None:
    path = tmp_path / "rollout_data" / "0.pt"
    write_rollout(path, 0, [sample(0), sample(1, status="truncated"), sample(2, reward={"score": 0.5, "format": 1.0})])
    rows, unreadable = read(path)
    found = turns(rows)
    assert unreadable.first == []
    assert [row.prompt_ids for row in found] == [[1, 2, 3]] * 3
    assert [row.completion_ids for row in found] == [[100_000 + i, 11, 12, 13, 14] for i in range(3)]
    assert [row.sampled_logprobs for row in found] == [[-0.5, -0.25, 0.0, -1e-3, -2.0]] * 3
    assert [row.session_id for row in found] == ["0/0", "0/1", "0/2"]
    assert [row.group_id for row in found] == ["0/0", "0/0", "0/1"]
    assert [row.reward for row in found] == [0.0, 1.0, 0.5]
    assert [row.finish_reason for row in found] == ["stop", "length", "stop"]
    assert [row.prompt_text for row in found] == ["2+2="] * 3
    assert [(row.trainer_step, row.trainer_version, row.adapter_version) for row in found] == [(0, 1, 1)] * 3
    assert found[0].weight_versions is not None
    assert [(s.version, s.start, s.end) for s in found[0].weight_versions] == [(1, 0, 5)]
    assert found[0].cached_tokens == 2
    assert found[0].loss_mask is None, "slime's null says nothing of single tokens"
    assert found[1].place == "0.pt:samples[1]"


def test_several_turns_in_one_sample_become_turns(tmp_path: Path) -> None:
    path = tmp_path / "3.pt"
    multi = sample(
        7,
        tokens=[1, 2, 50, 51, 60, 61, 62, 52, 53],
        response_length=7,
        loss_mask=[1, 1, 0, 0, 0, 1, 1],
        rollout_log_probs=[-0.1, 0.0, 0.0, 0.0, 0.0, -0.3, -0.4],
        weight_versions=["4", "5"],
        prompt=[{"role": "user", "content": "hi"}],
    )
    write_rollout(path, 3, [multi])
    first, second = turns(read(path)[0])
    assert (first.turn, first.prompt_ids, first.completion_ids) == (1, [1, 2], [50, 51])
    assert (second.turn, second.prompt_ids, second.completion_ids) == (2, [1, 2, 50, 51, 60, 61, 62], [52, 53])
    assert (first.sampled_logprobs, second.sampled_logprobs) == ([-0.1, 0.0], [-0.3, -0.4])
    assert (first.adapter_version, second.adapter_version) == (4, 5)
    assert (first.finish_reason, second.finish_reason) == (None, "stop")
    assert first.request == {"messages": [{"role": "user", "content": "hi"}]}
    assert second.request is None
    assert first.session_id == second.session_id == "3/7"


def test_a_sampled_token_that_is_masked_out_is_kept_with_its_mask(tmp_path: Path) -> None:
    path = tmp_path / "0.pt"
    write_rollout(path, 0, [sample(0, loss_mask=[1, 0, 0, 1, 1])])
    first, second = turns(read(path)[0])
    assert (first.completion_ids, first.loss_mask) == ([100_000, 11], [1, 0])
    assert (second.completion_ids, second.loss_mask) == ([13, 14], [1, 1])


def test_versions_that_no_turn_can_be_told_for_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "0.pt"
    write_rollout(path, 0, [sample(0, weight_versions=["1", "2"]), sample(1, weight_versions=["2", "2"])])
    mixed, same = turns(read(path)[0])
    assert (mixed.weight_versions, mixed.adapter_version) == (None, None)
    assert same.adapter_version == 2


def test_versions_without_a_number_or_with_an_endless_one_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "0.pt"
    write_rollout(path, 0, [sample(0, weight_versions=["default"]), sample(1, weight_versions=["9" * 5000])])
    assert [(row.adapter_version, row.trainer_version) for row in turns(read(path)[0])] == [(None, None)] * 2


def test_samples_of_one_rollout_share_a_session(tmp_path: Path) -> None:
    path = tmp_path / "0.pt"
    write_rollout(path, 0, [sample(0, rollout_id=9), sample(1, rollout_id=9)])
    assert [(row.session_id, row.turn) for row in turns(read(path)[0])] == [("0/9", 1), ("0/9", 2)]


def test_a_removed_sample_is_not_trainable(tmp_path: Path) -> None:
    path = tmp_path / "0.pt"
    write_rollout(path, 0, [sample(0, remove_sample=True, loss_mask=[0] * 5)])
    (found,) = turns(read(path)[0])
    assert (found.trainable, found.untrainable_reason) == (False, "remove_sample")
    assert (found.completion_ids, found.loss_mask) == ([100_000, 11, 12, 13, 14], [0] * 5)


def test_unequal_lengths_are_neither_cut_nor_filled(tmp_path: Path) -> None:
    path = tmp_path / "0.pt"
    write_rollout(path, 0, [sample(0, rollout_log_probs=[-0.5] * 6), sample(1, loss_mask=[1, 1])])
    longer, shorter = turns(read(path)[0])
    assert (len(longer.completion_ids or ()), len(longer.sampled_logprobs or ())) == (5, 6)
    assert (len(shorter.completion_ids or ()), shorter.loss_mask) == (5, [1, 1])


def test_a_sample_that_cannot_be_is_counted_and_the_rest_read(tmp_path: Path) -> None:
    path = tmp_path / "0.pt"
    bad = [sample(1, response_length=9), sample(2, tokens=None), sample(3, tokens=[0.5] * 8), sample(4, tokens="abc")]
    write_rollout(path, 0, [sample(0), *bad, sample(5)])
    rows, unreadable = read(path)
    assert [row.session_id for row in turns(rows)] == ["0/0", "0/5"]
    assert unreadable.count == 4
    assert unreadable.first[0].place == "0.pt:samples[1]"
    assert unreadable.first[0].reason == "a response of 9 tokens in 8 tokens"


def test_training_is_joined_by_position(tmp_path: Path) -> None:
    samples = [sample(5), sample(4)]
    write_rollout(tmp_path / "rollout_data" / "2.pt", 2, samples)
    logprobs = [[-0.5, -0.25, -0.125, -1.0, -2.0], [-0.75, -0.5, -0.25, -3.0, -1.5]]
    held = [trained(i, s["tokens"], logprobs[i], sample_index=s["index"]) for i, s in enumerate(samples)]
    write_training(tmp_path / "train_data" / "2.pt", 2, held)
    found = turns(read(tmp_path / "rollout_data" / "2.pt", tmp_path / "train_data" / "2.pt")[0])
    assert [row.trainer_logprobs for row in found] == logprobs
    assert [row.sampled_logprobs for row in found] == [s["rollout_log_probs"] for s in samples]
    assert [row.reference_logprobs for row in found] == [[v - 1 for v in row] for row in logprobs]
    assert [row.advantages for row in found] == [[0.5] * 5] * 2
    assert [row.entropies for row in found] == [[1.25] * 5] * 2


def test_training_of_several_turns_is_cut_to_each(tmp_path: Path) -> None:
    tokens = [1, 50, 60, 51]
    write_rollout(
        tmp_path / "r.pt",
        0,
        [sample(0, tokens=tokens, response_length=3, loss_mask=[1, 0, 1], rollout_log_probs=[-1.0, 0.0, -2.0])],
    )
    write_training(tmp_path / "t.pt", 0, [trained(0, tokens, [-1.5, -9.0, -2.5])])
    found = turns(read(tmp_path / "r.pt", tmp_path / "t.pt")[0])
    assert [row.trainer_logprobs for row in found] == [[-1.5], [-2.5]]


def test_older_training_dumps_of_each_rank_are_joined(tmp_path: Path) -> None:
    samples = [sample(0), sample(1), sample(2), sample(3)]
    write_rollout(tmp_path / "0.pt", 0, samples)
    for rank, positions in enumerate([[2, 0], [3, 1]]):
        held = {
            "partition": positions,
            "tokens": [torch.tensor(samples[i]["tokens"]) for i in positions],
            "response_lengths": [5, 5],
            "loss_masks": [torch.ones(5) for _ in positions],
            "log_probs": [torch.full((5,), -float(i + 1)) for i in positions],
            "global_batch_sizes": [4],
        }
        torch.save({"rollout_id": 0, "rank": rank, "rollout_data": held}, tmp_path / f"train_0_{rank}.pt")
    found = turns(read(tmp_path / "0.pt", tmp_path / "train_0_0.pt", tmp_path / "train_0_1.pt")[0])
    assert [row.trainer_logprobs for row in found] == [[-1.0] * 5, [-2.0] * 5, [-3.0] * 5, [-4.0] * 5]


def test_training_without_positions_is_joined_by_index(tmp_path: Path) -> None:
    """As Miles writes each rank's part."""
    samples = [sample(8), sample(9)]
    write_rollout(tmp_path / "0.pt", 0, samples)
    held = {
        "sample_indices": [9, 8],
        "tokens": [torch.tensor(samples[i]["tokens"]) for i in (1, 0)],
        "response_lengths": [5, 5],
        "log_probs": [torch.full((5,), -2.0), torch.full((5,), -1.0)],
    }
    path = tmp_path / "train_0_0.pt"
    torch.save(
        {"rollout_id": 0, "rank": 0, "rollout_data": held, "cp_rank": 0, "cp_size": 1, "qkv_format": "thd"}, path
    )
    found = turns(read(tmp_path / "0.pt", path)[0])
    assert [row.trainer_logprobs for row in found] == [[-1.0] * 5, [-2.0] * 5]


def test_training_of_other_tokens_is_not_joined(tmp_path: Path) -> None:
    write_rollout(tmp_path / "r.pt", 0, [sample(0)])
    write_training(tmp_path / "t.pt", 0, [trained(0, [9] * 8, [-1.0] * 5)])
    rows, unreadable = read(tmp_path / "r.pt", tmp_path / "t.pt")
    assert turns(rows)[0].trainer_logprobs is None
    assert "other tokens" in unreadable.first[0].reason


def test_slices_of_context_parallel_ranks_are_counted_not_used(tmp_path: Path) -> None:
    write_rollout(tmp_path / "r.pt", 0, [sample(0)])
    write_training(tmp_path / "t.pt", 0, [trained(0, sample(0)["tokens"], [-1.0] * 3)])
    rows, unreadable = read(tmp_path / "r.pt", tmp_path / "t.pt")
    assert turns(rows)[0].trainer_logprobs is None
    assert "for a response of 5 tokens" in unreadable.first[0].reason


def test_training_alone_gives_turns(tmp_path: Path) -> None:
    more = {"rollout_log_probs": torch.tensor([-0.5, -0.25, -1.0])}
    write_training(tmp_path / "t.pt", 4, [trained(0, [1, 2, 3, 4], [-1.0] * 3, **more)], raw_reward=[0.75])
    (found,) = turns(read(tmp_path / "t.pt")[0])
    assert (found.session_id, found.prompt_ids, found.completion_ids) == ("4/0", [1], [2, 3, 4])
    assert found.sampled_logprobs == [-0.5, -0.25, -1.0]
    assert found.trainer_logprobs == [-1.0] * 3
    assert found.reward == 0.75
    assert found.loss_mask == [1, 1, 1]


def test_the_lag_of_one_step_asynchrony_is_one(tmp_path: Path) -> None:
    """Rollout 0 and 1 are both sampled with the first weights, since the second starts before the first was trained."""
    for rollout_id, version in enumerate(["1", "1", "2", "3"]):
        write_rollout(tmp_path / f"{rollout_id}.pt", rollout_id, [sample(0, weight_versions=[version])])
    found = turns(read(*[tmp_path / f"{i}.pt" for i in range(4)])[0])
    assert [(row.trainer_version or 0) - (row.adapter_version or 0) for row in found] == [0, 1, 1, 1]


def test_versions_begin_anew_after_a_restart(tmp_path: Path) -> None:
    for rollout_id, version in [(50, "9"), (51, "10"), (52, "1"), (53, "2")]:
        write_rollout(tmp_path / f"{rollout_id}.pt", rollout_id, [sample(0, weight_versions=[version])])
    found = turns(read(*[tmp_path / f"{i}.pt" for i in (53, 50, 52, 51)])[0])
    assert [(row.trainer_step, row.trainer_version, row.adapter_version) for row in found] == [
        (50, 9, 9),
        (51, 10, 10),
        (52, 1, 1),
        (53, 2, 2),
    ]


def test_an_evaluation_is_held_out_samples(tmp_path: Path) -> None:
    write_rollout(tmp_path / "eval_3.pt", 3, [sample(0), sample(1)])
    rows, _ = read(tmp_path / "eval_3.pt")
    assert [(row.step, row.task_id, row.sample, row.score) for row in rows if isinstance(row, EvalRow)] == [
        (3, "0", 0, 0.0),
        (3, "0", 1, 1.0),
    ]


def write_columns(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "sample_index": pl.Series([0, 1], dtype=pl.Int32),
        "response_length": pl.Series([2, 2], dtype=pl.Int32),
        "total_length": pl.Series([3, 4], dtype=pl.Int32),
        "tokens": pl.Series([[1, 2, 3], [4, 5, 6, 7]], dtype=pl.List(pl.Int32)),
        "loss_mask": pl.Series([[1, 1], [1, 1]], dtype=pl.List(pl.Int8)),
        "rollout_log_probs": pl.Series([[-0.5, -0.25], [-1.0, 0.0]], dtype=pl.List(pl.Float32)),
    }
    pl.DataFrame(columns).write_parquet(path, row_group_size=8)


def test_dashboard_columns_give_turns_where_the_dump_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "dashboard_columns" / "rollout_6.parquet"
    write_columns(path)
    found = turns(read(path)[0])
    assert [(row.session_id, row.prompt_ids, row.completion_ids) for row in found] == [
        ("6/0", [1], [2, 3]),
        ("6/1", [4, 5], [6, 7]),
    ]
    assert [row.sampled_logprobs for row in found] == [[-0.5, -0.25], [-1.0, 0.0]]


def test_what_stands_beside_a_dump_is_not_counted_twice(tmp_path: Path) -> None:
    write_columns(tmp_path / "dashboard_columns" / "rollout_6.parquet")
    write_rollout(tmp_path / "rollout_data" / "6.pt", 6, [sample(0), sample(1)])
    line = {"sample_index": 0, "group_index": 0, "status": "completed", "reward": 1.0, "prompt": "", "messages": []}
    (tmp_path / "6.jsonl").write_text(json.dumps(line) + "\n")
    log = open_log(tmp_path)
    assert sum(batch.turns.height for batch in log.batches(("prompt_ids",))) == 2
    assert log.source().format == "slime"
    assert "rollout 6" in log.source().reason


def test_trajectories_alone_are_text_with_rewards(tmp_path: Path) -> None:
    line = {"sample_index": 3, "group_index": 1, "status": "truncated", "reward": 0.5, "prompt": "x"}
    line["messages"] = [{"role": "user", "content": "hi"}]
    (tmp_path / "6.jsonl").write_text(json.dumps(line) + "\n")
    (found,) = turns(read(tmp_path / "6.jsonl")[0])
    assert (found.session_id, found.group_id, found.reward, found.finish_reason) == ("6/3", "6/1", 0.5, "length")


def test_policy_loss_dumps_of_miles_give_log_probabilities(tmp_path: Path) -> None:
    held = {
        "index": 0,
        "total_length": 6,
        "response_length": 4,
        "train_log_probs": torch.tensor([-0.1, -0.2, -0.3, -0.4]),
        "old_log_probs": torch.tensor([-1.0, -2.0, -3.0, -4.0]),
        "advantages": torch.zeros(4),
        "local_loss_mask": torch.tensor([1.0, 0.0, 1.0, 1.0]),
        "rollout_log_probs": torch.tensor([-1.5, 0.0, -3.5, -4.5]),
    }
    torch.save({"rank": 0, "call": 2, "samples": [held]}, tmp_path / "rank_0_call_2.pt")
    found = turns(read(tmp_path / "rank_0_call_2.pt")[0])
    assert [(row.sampled_logprobs, row.trainer_logprobs) for row in found] == [
        ([-1.5], [-1.0]),
        ([-3.5, -4.5], [-3.0, -4.0]),
    ]


def test_numpy_routes_and_metadata_of_miles_are_no_obstacle(tmp_path: Path) -> None:
    routes = np.zeros((7, 2, 4), dtype=np.int32)
    write_rollout(
        tmp_path / "0.pt",
        0,
        [sample(0, rollout_routed_experts=routes, adapter="a", routing_key="k")],
        metadata={"x": 1},
    )
    assert len(turns(read(tmp_path / "0.pt")[0])) == 1


def test_hostile_and_cut_files_are_named_and_the_others_read(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> object:
            return print, ("run",)

    write_rollout(tmp_path / "0.pt", 0, [sample(0)])
    write_rollout(tmp_path / "1.pt", 1, [sample(0, metadata={"x": Hostile()})])
    whole = io.BytesIO()
    torch.save({"rollout_id": 2, "samples": [sample(0)]}, whole)
    (tmp_path / "2.pt").write_bytes(whole.getvalue()[:-200])
    rows, unreadable = read(*[tmp_path / f"{i}.pt" for i in range(3)])
    assert [row.session_id for row in turns(rows)] == ["0/0"]
    assert [(part.place, part.reason.split(",")[0]) for part in unreadable.first] == [
        ("1.pt", "it names 'builtins.print'"),
        ("2.pt", "a zip without its directory: it was cut off"),
    ]


def test_training_stands_in_for_a_dump_that_cannot_be_read(tmp_path: Path) -> None:
    write_rollout(tmp_path / "rollout_0.pt", 0, [sample(0)])
    (tmp_path / "rollout_0.pt").write_bytes((tmp_path / "rollout_0.pt").read_bytes()[:-100])
    write_training(tmp_path / "train_0.pt", 0, [trained(0, sample(0)["tokens"], [-1.0] * 5)])
    rows, unreadable = read(tmp_path / "rollout_0.pt", tmp_path / "train_0.pt")
    assert [(row.completion_ids, row.trainer_logprobs) for row in turns(rows)] == [
        ([100_000, 11, 12, 13, 14], [-1.0] * 5)
    ]
    assert [part.place for part in unreadable.first] == ["rollout_0.pt"]


@pytest.mark.parametrize("new", [True, False])
def test_the_layout_before_torch_1_6_is_read(tmp_path: Path, new: bool) -> None:
    torch.save({"rollout_id": 0, "samples": [sample(0)]}, tmp_path / "0.pt", _use_new_zipfile_serialization=new)
    assert len(turns(read(tmp_path / "0.pt")[0])) == 1
