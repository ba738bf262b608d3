"""Six causes of a prefix break: the common prefix exact, the check's kind, and every id accounted for."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from checks.log import MemoryLog
from checks.measure import Tools
from checks.suite import run, select_checks
from collector.rendering.renderer import Renderer
from collector.rendering.tokenizer import ChatTokenizer
from console.watch.plain.prefix_diff import plain_prefix_diff
from console.watch.views.prefix_diff import PrefixDiffAsk, PrefixDiffView, topic
from tests.collector.published import small_renderer
from tests.console.watch.drill.held_log import held_of, log_of, turn

SYSTEM = {"role": "system", "content": "You are terse."}
ASK = {"role": "user", "content": "What is 17 + 25?"}
AGAIN = {"role": "user", "content": "Double it."}
SAID = {"role": "assistant", "content": "It is 42."}
QWEN = small_renderer()


class Cause(NamedTuple):
    kind: str
    first: list[dict[str, Any]]
    completion: str
    second: list[dict[str, Any]]
    thinking: bool = True


def calling(arguments: str) -> dict[str, Any]:
    function = {"name": "add", "arguments": json.loads(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


CAUSES = [
    Cause(
        "reasoning_stripped",
        [SYSTEM, ASK],
        "<think>\n17 and 25 make 42, I am sure of it.\n</think>\n\nIt is 42.<|im_end|>",
        [SYSTEM, ASK, SAID, AGAIN],
    ),
    Cause("empty_think_block", [SYSTEM, ASK], "It is 42.<|im_end|>", [SYSTEM, ASK, SAID, AGAIN], thinking=False),
    Cause(
        "tool_call_reserialized",
        [SYSTEM, ASK],
        '<tool_call>\n{"name": "add", "arguments": {"b": 25, "a": 17}}\n</tool_call><|im_end|>',
        [SYSTEM, ASK, calling('{"a": 17, "b": 25}'), {"role": "tool", "content": "42"}],
    ),
    Cause(
        "system_prompt_changed",
        [SYSTEM, ASK],
        "It is 42.<|im_end|>",
        [{"role": "system", "content": "You are verbose, and it is 11:32."}, ASK, SAID, AGAIN],
    ),
    Cause("stop_token_replaced", [SYSTEM, ASK], "It is 42.<|endoftext|>", [SYSTEM, ASK, SAID, AGAIN]),
]


def ids(renderer: Renderer, messages: list[dict[str, Any]], *, thinking: bool = True) -> list[int]:
    return renderer.tokenizer.encode(renderer.text(messages, tools=None, variables={"enable_thinking": thinking}))


def log_with(cause: Cause) -> MemoryLog:
    first = ids(QWEN, cause.first, thinking=cause.thinking)
    second = ids(QWEN, cause.second, thinking=cause.thinking)
    rows = [
        turn(1, prompt_ids=first, completion_ids=QWEN.tokenizer.encode(cause.completion), adapter="refund"),
        turn(2, prompt_ids=second, completion_ids=[5, 6], adapter="refund", cached_tokens=9),
    ]
    return log_of(rows)


def retokenized_log() -> MemoryLog:
    """The answer's ids for <think> are letters; text sent back makes one token of them."""
    first = ids(QWEN, [SYSTEM, ASK])
    spelled = [QWEN.tokenizer.backend.token_to_id(letter) for letter in "<think>"]
    whole = QWEN.tokenizer.encode("<think>")
    said, end = QWEN.tokenizer.encode("Say "), QWEN.tokenizer.encode(" aloud.<|im_end|>")
    more = QWEN.tokenizer.encode("\n<|im_start|>user\nDouble it.<|im_end|>\n<|im_start|>assistant\n")
    rows = [
        turn(1, prompt_ids=first, completion_ids=[*said, *spelled, *end], adapter="refund"),
        turn(2, prompt_ids=[*first, *said, *whole, *end, *more], completion_ids=[5, 6], adapter="refund"),
    ]
    return log_of(rows)


def seen(log: MemoryLog, tools: Tools, number: int = 2, **asked: Any) -> PrefixDiffView:
    ask = PrefixDiffAsk(session_id="s", turn=number, **{"count": 10_000, "first": 0, **asked})
    view = topic(lambda: tools).build(held_of(log, tools), ask, lambda: log)
    assert isinstance(view, PrefixDiffView)
    return view


def prefix_by_hand(log: MemoryLog, previous: int, number: int) -> int:
    turns = {row["turn"]: row for row in log.table("turns").iter_rows(named=True)}
    before, now = [*turns[previous]["prompt_ids"], *turns[previous]["completion_ids"]], turns[number]["prompt_ids"]
    count = 0
    while count < min(len(before), len(now)) and before[count] == now[count]:
        count += 1
    return count


def sides(view: PrefixDiffView) -> tuple[list[int], list[int]]:
    """What the lines, all opened, hold of both sides."""
    before = [line.before.id for line in view.lines if line.before is not None]
    now = [line.now.id for line in view.lines if line.now is not None]
    return before, now


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("kind", [*(cause.kind for cause in CAUSES), "retokenized"])
def test_each_cause_with_its_exact_prefix_and_every_id(kind: str, split: bool) -> None:
    cause = next((each for each in CAUSES if each.kind == kind), None)
    log = retokenized_log() if cause is None else log_with(cause)
    tools = Tools(QWEN.tokenizer, QWEN)
    view = seen(log, tools, split=split, opened=tuple(range(20)))
    finding = run(log, checks=select_checks(["prefix-break"]), tools=tools).findings[0]
    (evidence,) = finding.evidence
    assert view.relation == "break"
    assert view.kind == evidence.kind == kind
    assert view.common == evidence.token_index == prefix_by_hand(log, 1, 2)
    assert view.lost == evidence.detail["previous_tokens_lost"]
    assert (view.inside, view.index_inside) == (
        evidence.detail["inside_previous"],
        evidence.detail["index_in_previous_part"],
    )
    turns = log.table("turns")
    before = [*turns["prompt_ids"][0].to_list(), *turns["completion_ids"][0].to_list()]
    assert sides(view) == (before, turns["prompt_ids"][1].to_list())
    assert view.total == len(view.lines)
    assert len(before) - view.lost + view.realigned + view.new == view.now_tokens


def test_what_a_break_does() -> None:
    cause = CAUSES[0]
    log = log_with(cause)
    view = seen(log, Tools(QWEN.tokenizer, QWEN))
    assert view.effect is not None
    thought = len(QWEN.tokenizer.encode(cause.completion))
    assert view.effect.lost_sampled == thought
    assert view.effect.reusable == view.common
    assert view.effect.cached == 9
    assert (view.effect.same_sessions, view.effect.of_sessions) == (1, 1)
    # The answer's ids come back after what was removed.
    answer = QWEN.tokenizer.encode("It is 42.<|im_end|>")
    assert view.realigned >= len(answer)


def test_the_same_break_is_counted_in_the_sessions_of_the_adapter() -> None:
    log = log_with(CAUSES[0])
    rows = log.table("turns").to_dicts()
    for name, adapter in (("t", "refund"), ("u", "other")):
        rows += [{**row, "session_id": name, "adapter": adapter, "turn_id": f"{name}{row['turn']}"} for row in rows[:2]]
    rows.append({**rows[0], "session_id": "v", "turn_id": "v1"})
    view = seen(log_of(rows), Tools(QWEN.tokenizer, QWEN))
    assert view.effect is not None
    assert (view.effect.same_sessions, view.effect.of_sessions) == (2, 3)


def test_in_a_store_only_captured_links_tell_of_other_sessions() -> None:
    log = log_with(CAUSES[0])
    held = held_of(log, store=True)
    view = topic().build(held, PrefixDiffAsk(session_id="s", turn=2), lambda: log)
    assert isinstance(view, PrefixDiffView)
    assert view.effect is not None
    assert view.effect.same_sessions is None


def test_a_turn_that_extends_keeps_every_id() -> None:
    rows = [
        turn(1, prompt_ids=[1, 2], completion_ids=[3, 4]),
        turn(2, prompt_ids=[1, 2, 3, 4, 5, 6, 7], completion_ids=[8]),
    ]
    view = seen(log_of(rows), Tools())
    assert (view.relation, view.previous, view.common, view.lost, view.new) == ("extends", 1, 4, 0, 3)
    assert (view.kind, view.effect) == (None, None)
    assert [(each.kind, each.length) for each in view.runs] == [("same", 4), ("added", 3)]


def test_a_first_turn_has_nothing_to_differ_from() -> None:
    view = seen(log_with(CAUSES[0]), Tools(), number=1)
    assert (view.relation, view.previous, view.lines) == ("root", None, ())


def test_a_declared_compaction_is_said_to_be_meant() -> None:
    long = list(range(100, 160))
    rows = [
        turn(1, prompt_ids=long, completion_ids=[3, 4]),
        turn(2, prompt_ids=[*long[:20], 7, 7, 7, 7], completion_ids=[8]),
    ]
    log = log_of(rows, events=[{"kind": "compaction", "session_id": "s", "turn": 2}])
    view = seen(log, Tools())
    assert (view.relation, view.kind, view.common) == ("declared", "compaction", 20)


def test_a_compaction_of_the_session_alone_excuses_no_turn() -> None:
    long = list(range(100, 160))
    rows = [
        turn(1, prompt_ids=long, completion_ids=[3, 4]),
        turn(2, prompt_ids=[*long[:50], 7, 7, 7, 7], completion_ids=[8]),
    ]
    view = seen(log_of(rows, events=[{"kind": "compaction", "session_id": "s"}]), Tools())
    assert (view.relation, view.common) == ("break", 50)


def test_text_only_turns_have_no_ids_to_compare() -> None:
    view = seen(log_of([turn(1, prompt_text="a"), turn(2, prompt_text="ab")]), Tools())
    assert (view.found, view.lines) == (False, ())


def test_a_window_has_the_lines_that_were_asked_for() -> None:
    log = log_with(CAUSES[0])
    whole = seen(log, Tools(QWEN.tokenizer), opened=tuple(range(9)))
    part = seen(log, Tools(QWEN.tokenizer), opened=tuple(range(9)), first=7, count=5)
    assert part.lines == whole.lines[7:12]
    assert part.total == whole.total


def test_folded_lines_stand_for_the_ids_that_are_not_shown() -> None:
    view = seen(log_with(CAUSES[0]), Tools())
    folded = sum(line.folded for line in view.lines)
    assert folded > 0
    shown = sum(line.before is not None or line.now is not None for line in view.lines)
    assert shown + folded == sum(each.length for each in view.runs)


@pytest.mark.parametrize(
    "name", ["001-qwen3-thinking-stripped", "005-tool-call-key-order", "010-retokenized-next-turn"]
)
def test_handed_cases(name: str, shared_folder: Path, qwen_tokenizer: ChatTokenizer) -> None:
    case = json.loads((shared_folder / "cases" / f"{name}.json").read_text(encoding="utf-8"))
    rows = [
        turn(each["turn"], prompt_ids=each["prompt_ids"], completion_ids=each["completion_ids"])
        for each in case["input"]["turns"]
    ]
    (expected,) = case["expected"]["prefix_breaks"]
    view = seen(log_of(rows), Tools(qwen_tokenizer), number=expected["turn"])
    assert (view.previous, view.common, view.kind, view.lost) == (
        expected["previous_turn"],
        expected["token_index"],
        expected["kind"],
        expected["previous_tokens_lost"],
    )
    assert plain_prefix_diff(view, 80)[0].startswith("PREFIX BREAK turn 1")
