"""duplicate-prefix: the share of tokens that repeat a prefix, worked by hand."""

import json
from typing import Any

import polars as pl

from checks.columns import IDS
from checks.finding import Finding
from checks.suite import run, select_checks


def found(turns: list[dict[str, Any]], **thresholds: float) -> Finding:
    """The finding for some turns."""
    schema = {
        "session_id": pl.String,
        "adapter": pl.String,
        "prompt_ids": IDS,
        "completion_ids": IDS,
        "prompt_text": pl.String,
        "completion_text": pl.String,
        "request": pl.String,
        "response": pl.String,
    }
    frame = pl.DataFrame([{"session_id": "s", **turn} for turn in turns], schema=schema)
    report = run(
        {"turns": frame}, checks=select_checks(["duplicate-prefix"]), thresholds={"duplicate-prefix": thresholds}
    )
    return report.finding("duplicate-prefix")


def ids(prompt: list[int] | None, completion: list[int] | None, adapter: str | None = None) -> dict[str, Any]:
    return {"prompt_ids": prompt, "completion_ids": completion, "adapter": adapter}


def test_a_turn_that_extends_another_repeats_all_of_it():
    # 3 and 6 tokens; the second repeats the 3 of the first: a tree of 6.
    finding = found([ids([1, 2], [3]), ids([1, 2, 3, 4], [5, 6])])
    assert finding.value == 1 - 6 / 9
    assert finding.metrics == {"duplicate_prefix_share": 1 - 6 / 9}
    assert finding.unit == "share of tokens"
    assert finding.status == "ok"


def test_the_cut_between_prompt_and_completion_does_not_matter():
    assert found([ids([1, 2], [3]), ids([1], [2, 3]), ids([], [1, 2, 3])]).value == 1 - 3 / 9


def test_above_half_is_information_and_never_a_warning():
    same = [ids([1, 2, 3], [4])] * 2
    assert (found(same).value, found(same).status) == (0.5, "ok")
    thrice = [ids([1, 2, 3], [4])] * 3
    assert found(thrice).status == "info"
    assert found(thrice, info_at=0.7).status == "ok"
    assert found([ids([1, 2, 3], [4])] * 1_000).status == "info"


def test_adapters_share_nothing_and_are_told_apart():
    finding = found([ids([1, 2], [3], "a"), ids([1, 2], [3], "b"), ids([1, 2], [4], "b"), ids([1], [2], None)])
    # a: 3 of 3; b: 4 of 6; none: 2 of 2.
    assert finding.value == 1 - 9 / 11
    assert {row["adapter"]: (row["tokens"], row["tree_tokens"], row["share"]) for row in finding.breakdown} == {
        "a": (3, 3, 0.0),
        "b": (6, 4, 1 - 4 / 6),
        None: (2, 2, 0.0),
    }


def test_a_turn_whose_prompt_is_lost_says_nothing():
    assert found([ids(None, [1, 2, 3]), ids([1], [2]), ids([1], None)]).value == 0.0


def test_text_is_counted_in_characters():
    finding = found(
        [{"prompt_text": "naïve?", "completion_text": "yes"}, {"prompt_text": "naïve?", "completion_text": "yelp"}]
    )
    # 9 and 10 characters; "naïve?ye" is common: a tree of 9 + 2.
    assert finding.value == 1 - 11 / 19
    assert finding.unit == "share of characters"
    assert "characters" in finding.summary
    assert finding.breakdown == (
        {"adapter": None, "turns": 2, "characters": 19, "tree_characters": 11, "share": 1 - 11 / 19},
    )


def test_messages_are_counted_a_line_each():
    def request(*contents: str) -> str:
        return json.dumps({"messages": [{"role": "user", "content": content} for content in contents]})

    finding = found([{"request": request("a")}, {"request": request("a", "b")}])
    line = len('{"content":"a","role":"user"}\n')
    assert finding.value == 1 - 2 * line / (3 * line)


def test_ids_anywhere_in_the_log_make_tokens_the_unit():
    finding = found([{"prompt_text": "abc", "completion_text": "d"}, ids([1], [2])])
    assert (finding.unit, finding.value) == ("share of tokens", 0.0)


def test_nothing_to_count_is_no_data_and_not_zero():
    for turns in ([{}], [ids(None, [1])], [ids([], [])]):
        finding = found(turns)
        assert (finding.status, finding.value, finding.metrics) == ("no_data", None, {})
        assert "turns.prompt_ids" in finding.missing
