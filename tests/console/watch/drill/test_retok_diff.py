"""The retokenization view has the spans of the turn, and says when nobody looked."""

import json
from pathlib import Path

from checks.measure import Tools
from checks.suite import run, select_checks
from collector.rendering.tokenizer import ChatTokenizer
from console.watch.plain.retok_diff import plain_retok_diff
from console.watch.views.retok_diff import RetokDiffAsk, RetokDiffView, SpanRow, topic
from tests.collector.published import small_backend
from tests.console.watch.drill.held_log import held_of, log_of, turn

SMALL = ChatTokenizer(small_backend())
SPELLED = [SMALL.backend.token_to_id(letter) for letter in "<think>"]
WHOLE = SMALL.encode("<think>")


def test_spans_and_what_they_become() -> None:
    said = SMALL.encode("Say ")
    rows = [
        turn(1, prompt_ids=[1], completion_ids=SMALL.encode("plain")),
        turn(2, prompt_ids=[1], completion_ids=[*said, *SPELLED, *said]),
    ]
    log, tools = log_of(rows), Tools(SMALL)
    view = topic(lambda: tools).build(held_of(log, tools), RetokDiffAsk(session_id="s", turn=2), lambda: log)
    assert isinstance(view, RetokDiffView)
    assert view.rows == (
        SpanRow(
            start=4,
            end=11,
            recorded=tuple(SPELLED),
            recorded_text="<think>",
            encoded=tuple(WHOLE),
            encoded_text="<think>",
            same_text=True,
            difference=-6,
        ),
    )
    assert (view.kept, view.completion, view.changed) == (8, 15, (2,))
    (evidence,) = run(log, checks=select_checks(["retokenization-drift"]), tools=tools).findings[0].evidence
    assert (view.turn, view.token_index, view.kind) == (evidence.turn, evidence.token_index, evidence.kind)


def test_without_a_tokenizer_nobody_looked() -> None:
    log = log_of([turn(1, prompt_ids=[1], completion_ids=[2])])
    view = topic().build(held_of(log), RetokDiffAsk(session_id="s", turn=1), lambda: log)
    assert isinstance(view, RetokDiffView)
    assert (view.looked, view.total, view.kept) == (False, 0, 0)
    assert "--tokenizer" in plain_retok_diff(view, 80)[0]


def test_a_clean_completion_comes_back_whole() -> None:
    log, tools = log_of([turn(1, prompt_ids=[1], completion_ids=SMALL.encode("It is 42."))]), Tools(SMALL)
    view = topic(lambda: tools).build(held_of(log, tools), RetokDiffAsk(session_id="s", turn=1), lambda: log)
    assert plain_retok_diff(view, 80) == ["turn 1: all 9 ids come back the same"]  # pyright: ignore[reportArgumentType]


def test_the_handed_case_of_a_drift(shared_folder: Path, qwen_tokenizer: ChatTokenizer) -> None:
    case = json.loads((shared_folder / "cases" / "010-retokenized-next-turn.json").read_text(encoding="utf-8"))
    first = case["input"]["turns"][0]
    log = log_of([turn(1, prompt_ids=first["prompt_ids"], completion_ids=first["completion_ids"])])
    tools = Tools(qwen_tokenizer)
    view = topic(lambda: tools).build(held_of(log, tools), RetokDiffAsk(session_id="s", turn=1), lambda: log)
    assert isinstance(view, RetokDiffView)
    expected = [each for each in case["expected"]["drift"] if each["turn"] == 1]
    assert [row.start for row in view.rows] == [each["token_index"] for each in expected]
    assert all(row.same_text for row in view.rows)
