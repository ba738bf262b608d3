"""Length mismatches: everything the log says per token is compared with the ids; a stop token may not be sampled."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from tokenizers import Tokenizer, models

from checks.columns import SCHEMAS
from checks.finding import Finding
from checks.measure import Tools
from checks.suite import run, select_checks
from collector.rendering.tokenizer import ChatTokenizer

LISTS = ("trainer_logprobs", "sampling_version_logprobs", "entropies", "reference_logprobs", "advantages")


def finding(rows: list[dict[str, Any]], tools: Tools | None = None) -> Finding:
    names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
    frames = {"turns": pl.DataFrame(rows, schema=names)}
    return run(frames, checks=select_checks(["length-mismatch"]), tools=tools).findings[0]


def turn(**more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"session_id": "s", "turn": 1, "prompt_ids": [1, 1], "completion_ids": [7, 8, 9]}
    return row | {"sampled_logprobs": [-1.0, -1.0, -1.0]} | more


def spans(*bounds: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"version": "1", "start": a, "end": b} for a, b in bounds]


@pytest.mark.parametrize("column", ["sampled_logprobs", *LISTS])
@pytest.mark.parametrize("length", [0, 2, 4])
def test_every_list_of_another_length_is_found_with_both_lengths(column: str, length: int) -> None:
    found = finding([turn(**{column: [-1.0] * length})])
    (fault,) = found.evidence
    assert (found.status, found.value, fault.kind, fault.turn) == ("fail", 1, "length_mismatch", 1)
    assert fault.detail["column"] == column
    assert (fault.detail["n_tokens"], fault.detail.get("n_logprobs", fault.detail.get("n_values"))) == (3, length)


def test_equal_lists_are_quiet() -> None:
    rows = [turn(**dict.fromkeys(LISTS, [-1.0] * 3)), turn(completion_ids=[], sampled_logprobs=[])]
    found = finding(rows)
    assert (found.status, found.value, found.evidence) == ("ok", 0, ())


@pytest.mark.parametrize(("length", "faults"), [(3, 0), (5, 0), (2, 1), (4, 1), (6, 1)])
def test_a_mask_covers_the_completion_or_prompt_and_completion(length: int, faults: int) -> None:
    assert finding([turn(loss_mask=[1] * length)]).value == faults


@pytest.mark.parametrize(("routes", "faults"), [(3, 0), (4, 0), (5, 0), (2, 1), (6, 1)])
def test_routes_cover_the_completion_or_the_whole_or_all_but_its_last(routes: int, faults: int) -> None:
    assert finding([turn(routed_experts_tokens=routes)]).value == faults


@pytest.mark.parametrize(
    ("bounds", "index"),
    [
        ([(0, 1), (1, 3)], None),
        ([(1, 3), (0, 1)], None),
        ([(0, 0), (0, 3), (3, 3)], None),
        ([(0, 2)], 2),
        ([(1, 3)], 0),
        ([(0, 1), (2, 3)], 1),
        ([(0, 2), (1, 3)], 1),
        ([(0, 3), (0, 3)], 0),
        ([(0, 2), (2, 4)], 3),
        ([(0, 3), (-1, 0)], 0),
    ],
)
def test_spans_cover_every_token_once(bounds: list[tuple[int, int]], index: int | None) -> None:
    found = finding([turn(weight_versions=spans(*bounds)), turn(turn=2, weight_versions=spans((0, 3)))])
    assert [(each.turn, each.token_index) for each in found.evidence] == ([] if index is None else [(1, index)])


def test_counts_of_the_source_are_compared() -> None:
    assert [each.text for each in finding([turn(stated_prompt_tokens=3, stated_completion_tokens=4)]).evidence] == [
        "stated_completion_tokens is 4 for 3 completion tokens",
        "stated_prompt_tokens is 3 for 2 prompt tokens",
    ]


def test_lists_without_ids_are_compared_with_each_other() -> None:
    row = {"session_id": "s", "turn": 1, "sampled_logprobs": [-1.0, -1.0], "trainer_logprobs": [-1.0]}
    assert [each.detail["n_tokens"] for each in finding([row]).evidence] == [2]


def ended(last: float, **more: Any) -> dict[str, Any]:
    return turn(sampled_logprobs=[-1.0, -0.5, last], finish_reason="stop") | more


def test_the_source_counting_one_less_is_a_token_not_sampled_and_fails() -> None:
    found = finding([ended(0.0, stated_completion_tokens=2, loss_mask=[1, 1, 1])])
    assert found.status == "fail"
    assert [(each.kind, each.token_index) for each in found.evidence] == [("token_not_sampled", 2)]


def test_a_last_token_without_ids_has_its_place_all_the_same() -> None:
    found = finding([ended(0.0, completion_ids=None, turn=n) for n in range(1, 9)])
    assert [(each.token_index, each.detail["token_id"]) for each in found.evidence] == [(2, None)] * 8


def test_a_stop_token_at_exactly_0_in_every_turn_is_a_warning() -> None:
    found = finding([ended(0.0, turn=n, loss_mask=[1, 1, 1]) for n in range(1, 5)])
    assert found.status == "warn"
    assert [(each.turn, each.kind, each.status) for each in found.evidence] == [
        (n, "token_not_sampled", "warn") for n in range(1, 5)
    ]


def test_a_model_that_is_often_sure_of_its_stop_token_is_no_fault() -> None:
    rows = [ended(0.0 if n % 5 else -1e-3, turn=n) for n in range(1, 101)]
    found = finding(rows)
    assert (found.status, found.evidence) == ("ok", ())
    assert "80 of 100 stop tokens have mu exactly 0" in found.summary


def test_the_trainer_decides_where_it_has_a_number() -> None:
    sure = [ended(0.0, turn=n, trainer_logprobs=[-1.0, -0.5, -1e-6]) for n in range(1, 4)]
    assert finding(sure).status == "ok"
    doubted = [ended(0.0, trainer_logprobs=[-1.0, -0.5, -2.0]), *(ended(-0.1, turn=n) for n in range(2, 9))]
    assert [each.turn for each in finding(doubted).evidence] == [1]


def test_the_sources_own_count_may_include_the_stop_token() -> None:
    assert finding([ended(0.0, stated_completion_tokens=3)]).status == "ok"


def test_a_stop_token_without_loss_or_cut_by_length_is_no_fault() -> None:
    assert finding([ended(0.0, loss_mask=[1, 1, 0])]).status == "ok"
    assert finding([ended(0.0, finish_reason="length")]).status == "ok"


def test_zeros_of_a_log_rounded_to_four_decimals_mean_nothing() -> None:
    values = np.round(-np.random.default_rng(0).exponential(1, 60), 4).tolist()
    row = turn(completion_ids=[7] * 61, sampled_logprobs=[*values, 0.0], finish_reason="stop")
    assert finding([row]).status == "ok"


def test_the_tokenizers_stop_tokens_decide_where_it_is_given() -> None:
    tokenizer = ChatTokenizer(Tokenizer(models.WordLevel({"a": 0, "b": 9}, unk_token="a")), stop_ids=frozenset({9}))
    tools = Tools(tokenizer=tokenizer)
    assert finding([ended(0.0, finish_reason=None)], tools).status == "warn"
    assert finding([ended(0.0, completion_ids=[7, 8, 7])], tools).status == "ok"


def test_a_stop_token_after_a_cut_by_length_was_not_sampled() -> None:
    tokenizer = ChatTokenizer(Tokenizer(models.WordLevel({"a": 0, "b": 9}, unk_token="a")), stop_ids=frozenset({9}))
    found = finding([ended(0.0, finish_reason="length")], Tools(tokenizer=tokenizer))
    assert [(each.kind, each.token_index, each.status) for each in found.evidence] == [("token_not_sampled", 2, "warn")]


@pytest.mark.parametrize(("old", "status"), [(-9.0, "warn"), (-0.6, "warn"), (-0.4, "ok"), (None, "ok")])
def test_without_a_reason_to_finish_the_trainer_tells_that_the_last_token_was_appended(
    old: float | None, status: str
) -> None:
    more = {} if old is None else {"trainer_logprobs": [-1.0, -0.5, old]}
    found = finding([ended(0.0, finish_reason=None, **more)])
    assert found.status == status
    assert [each.kind for each in found.evidence] == ["token_not_sampled"] * (status == "warn")


def test_ids_alone_are_nothing_to_compare() -> None:
    found = finding([{"session_id": "s", "completion_ids": [1]}])
    assert (found.status, found.value) == ("no_data", None)


def test_a_source_s_own_count_alone_is_compared_with_nothing() -> None:
    bare = turn(prompt_ids=None, completion_ids=None, sampled_logprobs=None, stated_completion_tokens=24)
    assert finding([bare]).status == "no_data"
