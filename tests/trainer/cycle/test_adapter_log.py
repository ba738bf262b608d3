"""One adapter's part of a log: its own turns with their own scores, and nothing that names another adapter."""

import polars as pl

from checks.log import MemoryLog
from trainer.cycle.adapter_log import AdapterLog

TURNS = pl.DataFrame(
    {
        "session_id": ["a", "b", "c", "d", "e"],
        "turn": [1, 1, 1, 1, 1],
        "turn_id": ["t0", "t1", "t2", "t3", "t4"],
        "tenant": ["acme", "beta", "acme", "acme", "acme"],
        "adapter": ["bot", "bot", "other", None, "bot"],
        "prompt_ids": [[1], [2], [3], [4], [5]],
        "completion_ids": [[1], [2], [3], [4], [5]],
        "trainer_logprobs": [[-0.5], [-1.0], [-2.0], None, [-4.0]],
    }
)
EVENTS = pl.DataFrame({"kind": ["proof", "proof", "x"], "adapter": ["bot", "other", None], "version": [1, 2, 3]})


def log(*ended: int) -> AdapterLog:
    whole = MemoryLog({"turns": TURNS, "events": EVENTS})
    return AdapterLog(whole, tenant="acme", adapter="bot", ended=ended)


def test_turns_are_those_of_the_tenant_that_the_adapter_or_the_base_model_sampled() -> None:
    [batch] = log().batches(["turn_id"], ["trainer_logprobs"])
    assert batch.turns["turn_id"].to_list() == ["t0", "t3", "t4"]
    assert "adapter" not in batch.turns.columns
    # Each score stands by its own turn under the new numbering.
    found = {batch.turns["turn_id"][row["row"]]: row["trainer_logprobs"] for row in batch.scores.to_dicts()}
    assert found == {"t0": [-0.5], "t4": [-4.0]}


def test_columns_that_were_asked_for_stay() -> None:
    [batch] = log().batches(["tenant", "adapter"])
    assert batch.turns["adapter"].to_list() == ["bot", None, "bot"]


def test_a_table_keeps_what_names_no_other_adapter() -> None:
    assert log().table("events")["version"].to_list() == [1, 3]
    assert log().table("steps").is_empty()


def test_what_a_version_served_that_has_ended_is_no_witness() -> None:
    # Of version 3 nothing is said about what is served, so that it stays.
    assert log(1, 3).table("events")["version"].to_list() == [3]
    assert log(2).table("events")["version"].to_list() == [1, 3]
