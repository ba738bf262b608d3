"""A replay shows nothing of training that is not known to have been there by then."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checks.columns import SCHEMAS
from checks.measure import Tools
from checks.measures.parts import part
from console.watch.options import Options
from console.watch.printed import Place, printed
from console.watch.trace.session_rows import break_rows
from console.watch.trained_then import trained_then
from console.watch.views.other_faults import other_faults
from console.watch.views.token import TOPIC as TOKEN
from console.watch.views.token import TokenAsk, TokenView
from tests.console.watch.drill.held_log import held_of, log_of, turn
from tests.console.watch.drill.test_trajectories import SMALL
from tests.console.watch.fake_feed import NOW
from tests.console.watch.measured_log import measured_log

T0 = datetime(2020, 1, 1, 12, tzinfo=UTC)
"""Before any clock: a log of that day was read later."""
READ_AT = T0 + timedelta(days=1)


def ended(*rows: tuple[str | None, int, int | None]) -> pl.DataFrame:
    """Steps of adapters, each so many seconds after T0."""
    found = [
        {"adapter": adapter, "step": step, "at": None if at is None else T0 + timedelta(seconds=at)}
        for adapter, step, at in rows
    ]
    return pl.DataFrame(found, schema={name: SCHEMAS["steps"][name] for name in ("adapter", "step", "at")})


def there(
    steps: pl.DataFrame, after_s: float, *scores: tuple[str | None, int | None, int | None], **more: Any
) -> list[bool]:
    """Which scores, each an adapter, trainer_step and trainer_version, were there so long after T0."""
    kinds = {"adapter": pl.String, "trainer_step": pl.Int64, "trainer_version": pl.Int64}
    versions = pl.DataFrame(more.get("versions", []), schema=SCHEMAS["versions"])
    then = trained_then(steps, versions, at=T0 + timedelta(seconds=after_s), read_at=READ_AT)
    return then.scored(pl.DataFrame([*scores], schema=kinds, orient="row")).to_list()


def test_a_score_is_there_once_its_step_has_ended() -> None:
    steps = ended(("bot", 1, 10), ("bot", 2, 20))
    scores = [("bot", 1, None), ("bot", 2, None), ("bot", 3, None)]
    assert [there(steps, at, *scores) for at in (9, 10, 20, 99)] == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
        [True, True, False],
    ]


def test_what_no_record_gives_a_time_was_there_when_it_was_read() -> None:
    scores = [("bot", 1, None), ("bot", None, 4), ("bot", None, None)]
    assert there(ended(), 99, *scores) == [False] * 3
    assert there(ended(), 86400, *scores) == [True] * 3
    # Its end is known to be later, whenever it was read.
    assert there(ended(("bot", 1, 90000)), 86400, *scores) == [False, True, True]


def test_a_step_without_a_time_had_ended_when_a_later_one_had() -> None:
    steps = ended(("bot", 1, None), ("bot", 2, 20), ("bot", 3, None))
    assert there(steps, 30, ("bot", 1, None), ("bot", 2, None), ("bot", 3, None)) == [True, True, False]
    assert there(steps, 10, ("bot", 1, None)) == [False]


def test_a_score_that_names_where_the_trainer_stood_is_of_the_step_after() -> None:
    steps = ended(("bot", 1, 10), ("bot", 2, 20))
    versions = [{"adapter": "bot", "version": 0, "optimizer_step": 0}]
    assert there(steps, 15, ("bot", 0, 0), ("bot", 1, 0), versions=versions) == [True, False]


def test_a_score_of_no_named_adapter_is_there_once_the_step_of_every_one_has_ended() -> None:
    steps = ended(("bot", 1, 10), ("other", 1, 20))
    assert [there(steps, at, (None, 1, None)) for at in (15, 20)] == [[False], [True]]
    assert there(ended((None, 1, 10)), 10, ("bot", 1, None), ("bot", 2, None)) == [True, False]
    assert there(steps, 99, ("third", 1, None)) == [False]


def test_a_turn_shows_no_scoring_of_a_step_that_is_not_known_to_have_ended() -> None:
    row = turn(prompt_ids=[1], completion_ids=[2], sampled_logprobs=[-1.0], trainer_step=1, trainer_logprobs=[-2.0])
    log = log_of([row])
    held = held_of(log)._replace(read_at=NOW)
    ask = TokenAsk(session_id="s", turn=1)
    seen = [TOKEN.build(held.until(at), ask, lambda: log) for at in (NOW - timedelta(seconds=1), NOW)]
    assert all(isinstance(view, TokenView) for view in seen)
    assert [len(view.scorings) for view in seen if isinstance(view, TokenView)] == [0, 1]


def test_breaks_and_weights_of_later_turns_are_not_counted_yet() -> None:
    long = list(range(100, 160))
    turns = [
        turn(1, prompt_ids=long, completion_ids=[3], sampled_logprobs=[-1.0]),
        turn(
            2,
            prompt_ids=[*long[:50], *[7] * 12],
            completion_ids=[8],
            sampled_logprobs=[-1.0],
            trainer_step=1,
            trainer_logprobs=[float("nan")],
        ),
    ]
    held = held_of(log_of(turns, steps=[{"step": 1, "at": NOW}]))
    assert (break_rows(held).height, part(held.tokens.weights, "bad").height) == (1, 1)
    ends = turns[0]["finished_at"]
    then = held.until(ends)
    assert (then.turns.height, break_rows(then).height) == (1, 0)
    assert "bad" not in then.tokens.weights.columns
    assert held.until(NOW).tokens.weights.equals(held.tokens.weights)


def test_what_is_found_in_later_turns_and_later_scores_is_not_told_yet() -> None:
    spelled = [SMALL.backend.token_to_id(letter) for letter in "<think>"]
    turns = [
        turn(1, prompt_ids=[1], completion_ids=spelled, sampled_logprobs=[0.5] * len(spelled)),
        turn(2, prompt_ids=[2], completion_ids=spelled, trainer_step=1, trainer_logprobs=[0.5] * len(spelled)),
    ]
    log = log_of(turns, steps=[{"step": 1, "at": NOW}])
    held = held_of(log, Tools(SMALL))
    held = held._replace(tokens=held.tokens._replace(entropies=measured_log(log).tokens.entropies))
    found: list[tuple[int | None, list[str]]] = []
    for moment in (turns[0]["finished_at"], turns[1]["finished_at"], NOW):
        then = held.until(moment)
        above = part(then.tokens.entropies, "above")["column"].to_list()
        found.append((other_faults(then).drift, above))
    # Turn 1 alone; then turn 2 as well, which nobody had scored; then its score too.
    assert found == [
        (1, ["sampled_logprobs"]),
        (2, ["sampled_logprobs"]),
        (2, ["sampled_logprobs", "trainer_logprobs"]),
    ]


def written(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def at(after_s: int) -> str:
    return f"{T0 + timedelta(seconds=after_s):%Y-%m-%dT%H:%M:%SZ}"


SCORED = {
    "record": "turn",
    "session_id": "s",
    "turn_id": "t",
    "turn": 1,
    "adapter": "bot",
    "adapter_version": 0,
    "finished_at": at(0),
    "prompt_ids": [1, 2],
    "completion_ids": [3, 4],
    "sampled_logprobs": [-1.0, -1.0],
    "trainer_logprobs": [-1.0, -3.5],
    "entropies": [0.5, 0.5],
    "trainer_step": 2,
    "trainer_version": 1,
}
EVALS = [
    {"record": "eval", "adapter": "bot", "version": 7, "suite": "held-out", "task_id": str(task), "score": 0.5}
    for task in range(3)
]


@pytest.mark.parametrize(
    ("steps", "after_s", "lanes", "step"),
    [
        ([], 60, ["n/d"] * 3, None),
        ([(2, 90)], 60, ["n/d"] * 3, None),
        ([(1, 30), (2, 90)], 60, ["n/d"] * 3, 1),
        ([(1, 30), (2, 90)], 90, ["max_w", "staleness", "entropy"], 2),
    ],
)
def test_lanes_and_header_of_a_replay_know_no_later_step(
    tmp_path: Path, steps: list[tuple[int, int]], after_s: int, lanes: list[str], step: int | None
) -> None:
    made = [{"record": "step", "adapter": "bot", "step": of, "at": at(end), "grad_norm": 1.0} for of, end in steps]
    log = written(tmp_path / "log.jsonl", SCORED, *EVALS, *made)
    found = json.loads(printed(Options(path=log, at=at(after_s)), "signals", Place(), rows=50, width=None).text)
    assert found["step"] == step
    by_name = {lane["signal"]: lane for lane in found["lanes"]}
    told = [name if by_name[name]["newest"] is not None else "n/d" for name in ("max_w", "staleness", "entropy")]
    assert told == lanes
    assert [by_name[name]["state"] for name in ("reward_eval_gap", "pass_at_k")] == ["no_data"] * 2
    assert all(part["newest"] is None for part in by_name["reward_eval_gap"]["parts"])


def test_evaluations_that_name_their_step_are_there_once_it_has_ended() -> None:
    evals = [{"adapter": "bot", "step": step, "suite": "h", "task_id": "a", "score": 1.0} for step in (1, 2)]
    steps = [{"adapter": "bot", "step": step, "at": NOW + timedelta(seconds=step)} for step in (1, 2)]
    held = held_of(log_of([turn()], evals=evals, steps=steps))
    assert held.until(NOW + timedelta(seconds=1)).evals["step"].to_list() == [1]


def test_versions_without_a_time_are_there_once_their_step_has_ended() -> None:
    versions = [{"adapter": "bot", "version": at, "optimizer_step": at * 2} for at in (0, 1, 2)]
    steps = [{"adapter": "bot", "step": step, "at": NOW + timedelta(seconds=step)} for step in (2, 4)]
    held = held_of(log_of([turn()], versions=versions, steps=steps))
    assert held.until(NOW).versions["version"].to_list() == [0]
    assert held.until(NOW + timedelta(seconds=2)).versions["version"].to_list() == [0, 1]
