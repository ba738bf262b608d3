"""Native JSON lines: scores after the turns, names for what JSON cannot hold, and what is wrong with a line."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checks.log import Batch, Log
from checks.readers.open_log import open_log
from checks.suite import run


def write(path: Path, *records: dict[str, Any] | str) -> Path:
    """A line for each record, or the text itself."""
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in records))
    return path


def turn(session: str, **fields: Any) -> dict[str, Any]:
    return {"session_id": session, "prompt_ids": [1], "completion_ids": [2, 3], **fields}


def score(turn_id: str, step: int) -> dict[str, Any]:
    return {"record": "score", "turn_id": turn_id, "trainer_step": step, "trainer_logprobs": [-0.5, "-Infinity"]}


def only(log: Log, columns: tuple[str, ...] = (), scores: tuple[str, ...] = ()) -> Batch:
    (batch,) = log.batches(columns, scores)
    return batch


def reasons(log: Log) -> list[tuple[str, str]]:
    """Place and reason of everything that could not be read."""
    list(log.batches(()))
    source = log.source()
    assert source.unreadable == len(source.unreadable_first)
    return [(one.place, one.reason) for one in source.unreadable_first]


def test_scores_before_between_and_after_their_turns_are_joined(tmp_path: Path):
    path = write(
        tmp_path / "log.jsonl",
        score("b", 1),
        turn("s", turn_id="a"),
        score("a", 2),
        turn("s", turn_id="b", trainer_logprobs=[-1.0, -1.0], trainer_step=9),
        turn("s"),
        score("b", 3),
    )
    scores = only(open_log(path), (), ("trainer_step", "trainer_logprobs")).scores
    assert scores.select("row", "trainer_step").rows() == [(0, 2), (1, 9), (1, 1), (1, 3)]
    assert scores["trainer_logprobs"][0].to_list() == [-0.5, float("-inf")]


def test_scores_may_lie_in_a_file_of_their_own(tmp_path: Path):
    write(tmp_path / "a-scores.jsonl", score("a", 1))
    write(tmp_path / "b-turns.jsonl", turn("s", turn_id="a"))
    assert only(open_log(tmp_path), (), ("trainer_step",)).scores.rows() == [(0, 1)]


def test_a_score_of_no_turn_is_counted_at_each_pass_once(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", turn("s", turn_id="a"), score("zz", 1))
    log = open_log(path)
    expected = [("log.jsonl:2", "a score of turn 'zz', which the log does not hold")]
    assert reasons(log) == reasons(log) == expected


def test_a_score_that_is_wrong_is_named_by_its_line(tmp_path: Path):
    bad = score("a", 1) | {"trainer_logprobs": "none"}
    path = write(tmp_path / "log.jsonl", turn("s", turn_id="a"), bad, {"record": "score", "trainer_step": 1})
    (first, second) = sorted(reasons(open_log(path)))
    assert first == ("log.jsonl:2", "Expected `array | null`, got `str` - at `$.trainer_logprobs`")
    assert second == ("log.jsonl:3", "Object missing required field `turn_id`")


def test_names_and_literals_of_floats_that_are_not_finite(tmp_path: Path):
    path = write(
        tmp_path / "log.jsonl",
        turn("s", sampled_logprobs=["-Infinity", "NaN"], reward="Infinity"),
        '{"session_id": "s", "prompt_ids": [], "completion_ids": [1, 2], "sampled_logprobs": [NaN, -Infinity]}',
    )
    frame = only(open_log(path), ("sampled_logprobs", "reward")).turns
    assert str(frame["sampled_logprobs"].to_list()) == "[[-inf, nan], [nan, -inf]]"
    assert frame["reward"].to_list() == [float("inf"), None]


def test_a_version_is_a_number_or_a_text(tmp_path: Path):
    spans = [{"version": 3, "start": 0, "end": 1}, {"version": "step-4", "start": 1, "end": 2}]
    frame = only(open_log(write(tmp_path / "l.jsonl", turn("s", weight_versions=spans))), ("weight_versions",)).turns
    assert [span["version"] for span in frame["weight_versions"][0]] == ["3", "step-4"]


def test_the_trainers_version_may_be_a_label_too(tmp_path: Path):
    labels = {"trainer_version": "step_12", "adapter_version": "bot@7", "trainer_step": "4"}
    spans = [{"version": "step_9", "start": 0, "end": 2}]
    path = write(
        tmp_path / "log.jsonl",
        turn("a", **labels),
        turn("b", trainer_version="default"),
        turn("c", turn_id="c", weight_versions=spans),
        {"record": "score", "turn_id": "c", "trainer_version": "step_12", "trainer_logprobs": [-0.5, None]},
        {"record": "version", "adapter": "bot", "version": "v7", "optimizer_step": "step 70"},
    )
    log = open_log(path)
    names = ("trainer_version", "trainer_step")
    frame = only(log, ("adapter_version", *names)).turns
    assert frame.select("adapter_version", *names).rows()[:2] == [(7, 12, 4), (None, None, None)]
    scores = only(log, (), (*names, "trainer_logprobs")).scores
    assert str(scores.rows()) == "[(2, 12, None, [-0.5, nan])]"
    assert log.table("versions").select("version", "optimizer_step").rows() == [(7, 70)]
    staleness = run(log).finding("staleness")
    assert (staleness.metrics["staleness_mean"], staleness.metrics["staleness_max"]) == (
        4.0,
        5,
    )  # lags 12 - 7 and 12 - 9, of two tokens each
    assert reasons(log) == []


def test_null_in_a_list_numbers_for_names_and_booleans_are_read_as_what_they_say(tmp_path: Path):
    path = write(
        tmp_path / "log.jsonl",
        turn("s", sampled_logprobs=[-0.5, None], group_id=5, reward=True, loss_mask=[True, False]),
        turn("s", advantages=[None, 1], loss_mask=[1.0, 0.0]),
    )
    log = open_log(path)
    frame = only(log, ("sampled_logprobs", "group_id", "reward", "loss_mask")).turns
    assert str(frame["sampled_logprobs"].to_list()) == "[[-0.5, nan], None]"
    assert frame.select("group_id", "reward", "loss_mask").rows() == [("5", 1.0, [1, 0]), (None, None, [1, 0])]
    assert reasons(log) == []


def test_lines_are_advised_as_the_other_native_forms_are(tmp_path: Path):
    log = open_log(write(tmp_path / "log.jsonl", turn("s")))
    assert log.advice("steps.grad_norm") == "write grad_norm into the native log's steps"
    assert "the trainer's to record" in (log.advice("turns.trainer_logprobs") or "")


def test_records_no_check_reads_are_passed_over_and_unknown_ones_counted(tmp_path: Path):
    path = write(
        tmp_path / "log.jsonl",
        turn("s"),
        {"record": "adapter", "adapter": "bot"},
        {"record": "route"},
        {"record": "audit", "action": '"score"'},
        {"record": "turm", "session_id": "s"},
        {"record": 3},
    )
    (first, second) = reasons(open_log(path))
    assert first[0] == "log.jsonl:5"
    assert first[1].startswith("\"record\" is 'turm', expected one of turn, step, eval")
    assert second[0] == "log.jsonl:6"
    assert second[1].startswith('"record" is 3')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"session_id": "s", "prompt_ids": "x", "completion_ids": []}', "Expected `array | null`, got `str`"),
        ('{"session_id": "s", "prompt_ids": [1.5], "completion_ids": []}', "Expected `int`, got `float`"),
        ('{"prompt_ids": [], "completion_ids": []}', "Object missing required field `session_id`"),
        ('{"record": "step", "step": "first"}', "Expected `int`, got `str`"),
        ('{"record": "span", "role": "trainer", "kind": "step", "from": "now", "to": "then"}', "Invalid RFC3339"),
        ("[1, 2]", "a JSON list, expected an object"),
        ('{"session_id": "s", "prompt_ids": [1', ""),
        ("\x00\x01", ""),
    ],
)
def test_what_is_wrong_with_a_line_is_said_and_the_rest_is_read(tmp_path: Path, line: str, reason: str):
    path = write(tmp_path / "log.jsonl", turn("a"), line, turn("b"))
    log = open_log(path)
    assert only(log).turns["session_id"].to_list() == ["a", "b"]
    ((place, said),) = reasons(log)
    assert place == "log.jsonl:2"
    assert said.startswith(reason)
    assert said


def test_ids_beyond_int32_are_one_bad_line(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", turn("a"), turn("b", prompt_ids=[2**40]), turn("c", completion_ids=[2**63]))
    log = open_log(path)
    assert only(log).turns["session_id"].to_list() == ["a"]
    assert [place for place, _ in reasons(log)] == ["log.jsonl:2", "log.jsonl:3"]


def test_small_records_become_tables(tmp_path: Path):
    path = write(
        tmp_path / "log.jsonl",
        turn("s", reward=1),
        {"record": "step", "step": 1, "grad_norm": "NaN"},
        {
            "record": "span",
            "role": "engine",
            "kind": "wait",
            "from": "2026-01-01T00:00:00Z",
            "to": "2026-01-01T00:00:02Z",
        },
    )
    log = open_log(path)
    assert log.table("steps")["grad_norm"].is_nan().to_list() == [True]
    (span,) = log.table("spans").with_columns(s=(pl.col("to") - pl.col("from")).dt.total_seconds()).rows(named=True)
    assert (span["role"], span["s"]) == ("engine", 2)
    assert run(log).counts.turns == 1


ASKED = [{"role": "user", "content": "Hi."}]
TOOLS = [{"type": "function", "function": {"name": "look"}}]


def requests(log: Log) -> list[Any]:
    return [None if one is None else json.loads(one) for one in only(log, ("request",)).turns["request"]]


def test_messages_and_tools_that_stand_in_a_turn_are_its_request(tmp_path: Path):
    kwargs = {"enable_thinking": False}
    path = write(
        tmp_path / "log.jsonl",
        turn("s", messages=ASKED, tools=TOOLS),
        turn("s", messages=ASKED, chat_template_kwargs=kwargs, request={"model": "m"}),
        # Python's dialect of JSON, which another decoder reads.
        '{"session_id": "s", "prompt_ids": [1], "completion_ids": [2], "reward": NaN, "messages": []}',
        turn("s", tools=TOOLS),
    )
    assert requests(open_log(path)) == [
        {"messages": ASKED, "tools": TOOLS},
        {"model": "m", "messages": ASKED, "chat_template_kwargs": kwargs},
        {"messages": []},
        None,
    ]


def test_a_request_that_has_messages_is_left_as_it_is(tmp_path: Path):
    own = {"messages": [{"role": "user", "content": "Own."}]}
    path = write(tmp_path / "log.jsonl", turn("s", request=own, messages=ASKED, tools=TOOLS))
    assert requests(open_log(path)) == [own]


def test_messages_that_are_no_list_do_not_lose_the_turn(tmp_path: Path):
    log = open_log(write(tmp_path / "log.jsonl", turn("s", messages="Hi.", event={"at": 1})))
    assert requests(log) == [None]
    assert reasons(log) == []


def test_an_event_in_a_turn_is_declared_of_that_turn_whether_or_not_it_has_a_number(tmp_path: Path):
    path = write(
        tmp_path / "log.jsonl",
        turn("s", event="started"),
        turn("t", turn=7),
        turn("t", event="subagent"),
        turn("s", event="compaction", started_at="2026-01-01T00:00:00Z"),
    )
    log = open_log(path)
    for _ in range(2):
        list(log.batches(()))
        events = log.table("events")
        assert events.select("session_id", "turn", "kind").rows() == [("t", 8, "subagent"), ("s", 2, "compaction")]
        assert events["at"].is_null().to_list() == [True, False]


def test_an_event_in_a_turn_decides_what_a_break_is(tmp_path: Path):
    first, later = list(range(20)), [*range(15), *range(40, 60)]

    def status(**fields: Any) -> tuple[str, list[str | None]]:
        lines = [turn("s", prompt_ids=first), turn("s", prompt_ids=later, **fields)]
        finding = run(open_log(write(tmp_path / "log.jsonl", *lines))).finding("prefix-break")
        return finding.status, [each.kind for each in finding.evidence]

    assert status() == ("fail", ["other"])
    assert status(event="compaction") == ("info", ["compaction"])
    assert status(event="subagent") == ("ok", [])
