"""Loss masks: loss on what was not sampled, and sampled tokens without loss."""

from typing import Any

import polars as pl

from checks.columns import SCHEMAS
from checks.finding import Evidence, Finding
from checks.suite import run, select_checks


def finding(rows: list[dict[str, Any]]) -> Finding:
    names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
    return run({"turns": pl.DataFrame(rows, schema=names)}, checks=select_checks(["loss-mask"])).findings[0]


def turn(mu: list[float | None] | None, mask: list[int] | None, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"session_id": "s", "turn": 1, "prompt_ids": [1, 2], "completion_ids": [7] * len(mu or "xxx")}
    return row | {"sampled_logprobs": mu, "loss_mask": mask} | more


def told(found: Finding) -> list[tuple[int | None, int | None, str | None, float | None]]:
    def key(each: Evidence) -> tuple[int | None, int | None, str | None, float | None]:
        return each.turn, each.token_index, each.kind, each.value

    return [key(each) for each in found.evidence]


def test_loss_where_the_log_has_no_log_probability_is_not_sampled() -> None:
    found = finding([turn([-1.0, None, None, -1.0], [1, 1, 1, 1])])
    assert (found.status, told(found)) == ("fail", [(1, 1, "not_sampled", 2)])


def test_a_sampled_token_without_loss_is_masked_out() -> None:
    found = finding([turn([-1.0, -0.5, -0.25, -1.0], [1, 0, 0, 1])])
    assert (found.status, told(found), found.value) == ("warn", [(1, 1, "masked_out", 2)], 2)


def test_placeholders_under_the_mask_are_not_sampled_tokens() -> None:
    assert finding([turn([-1.0, 0.0, 1.0, None], [1, 0, 0, 0])]).status == "ok"


def test_exactly_0_under_loss_is_normal() -> None:
    assert finding([turn([0.0] * 8 + [-1.0], [1] * 9)]).status == "ok"


def test_a_run_of_zeros_that_the_trainer_finds_improbable_is_a_placeholder() -> None:
    old = [-0.1, -2.0, -3.0, -1.0, -4.0, -0.1]
    mu = [-0.1, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert told(finding([turn(mu, [1] * 6, trainer_logprobs=old)])) == [(1, 1, "not_sampled", 5)]
    assert finding([turn([-0.1, 0.0, 0.0, 0.0, -0.2, 0.0], [1] * 6, trainer_logprobs=old)]).status == "ok"


def test_probable_tokens_within_a_tool_result_do_not_hide_it() -> None:
    old = [-0.1, -2.0, -0.01, -3.0, -0.002, -4.0, -1.0, -0.1]
    mu = [-0.1, *[0.0] * 6, -0.1]
    assert told(finding([turn(mu, [1] * 8, trainer_logprobs=old)])) == [(1, 1, "not_sampled", 6)]
    mostly_sure = [-2.0, -0.01, -3.0, -0.01, -2.0, -2.0] + [-0.001] * 7
    assert finding([turn([0.0] * 13, [1] * 13, trainer_logprobs=mostly_sure)]).status == "ok"


def test_runs_do_not_reach_over_turns() -> None:
    rows = [turn([0.0, 0.0], [1, 1], turn=n, trainer_logprobs=[-3.0, -3.0]) for n in (1, 2)]
    assert finding(rows).status == "ok"


def test_loss_on_a_prompt_that_nobody_sampled_fails_at_its_first_token() -> None:
    found = finding([turn([-1.0, -1.0], [0, 1, 1, 1])])
    assert (found.status, told(found)) == ("fail", [(1, 1, "not_sampled", 1)])
    assert found.evidence[0].detail["in"] == "prompt_ids"


def test_loss_on_an_earlier_completion_that_the_prompt_repeats_is_sampled() -> None:
    first = turn([-1.0, -1.0], [0, 0, 1, 1])
    again = turn([-1.0], [0, 0, 1, 1, 0, 1], turn=2, prompt_ids=[1, 2, 7, 7, 3])
    assert finding([first, again]).status == "ok"
    tool_result = again | {"loss_mask": [0, 0, 1, 1, 1, 1]}
    assert told(finding([first, tool_result])) == [(2, 4, "not_sampled", 1)]
    rewritten = again | {"prompt_ids": [1, 2, 7, 8, 3]}
    assert told(finding([first, rewritten])) == [(2, 2, "not_sampled", 2)]
    stranger = again | {"session_id": "t"}
    assert told(finding([first, stranger])) == [(2, 2, "not_sampled", 2)]


def test_a_turn_left_out_whole_is_counted_and_is_no_fault() -> None:
    found = finding([turn([-1.0, -1.0], [0, 0]), turn([-1.0], [1], turn=2)])
    assert found.status == "ok"
    assert "1 turns have no loss at all" in found.summary


def test_several_turns_of_either_form_of_mask_are_judged_each_by_itself() -> None:
    rows = [
        turn([-1.0, -1.0], [1, 1]),
        turn([-1.0, -1.0, -1.0], [0, 0, 1, 0, 1], turn=2),
        turn(None, [1, 1, 1], turn=3),
        turn([-1.0], None, turn=4),
        turn([-1.0, None], [0, 1], turn=5),
    ]
    assert told(finding(rows)) == [(5, 1, "not_sampled", 1), (2, 1, "masked_out", 1), (5, 0, "masked_out", 1)]


def test_masks_that_fit_nothing_are_no_data_alone_and_counted_beside_others() -> None:
    unfit = turn([-1.0], [1, 1])
    assert finding([unfit]).status == "no_data"
    assert "1 masks of another length" in finding([unfit, turn([-1.0], [1], turn=2)]).summary
