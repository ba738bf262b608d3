"""A turn under way: the reply does not depend on how the engine groups its tokens."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.caller import identify
from collector.conversation import Call, Outcome, Sampling, TextDelta
from collector.engine.wire import Delta, Finish, Span
from collector.fakes import MemoryJournal, MemoryPast, ScriptedEngine
from collector.metrics import Metrics
from collector.parsing.call_syntax import JSON_CALLS
from collector.ports import Target
from collector.privacy.config import OptOutConfig
from collector.privacy.record_screen import RecordScreen
from collector.receipts import Receipts
from collector.records import ChatRequest
from collector.turn import TurnInProgress
from collector.turn_record import Plan
from tests.collector.published import small_renderer

SMALL = small_renderer()
TEXT = (
    "<think>\nWeigh – naïve 🙂\n</think>\n\nI look.\n"
    '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>\nand 🙂🙂 STOP not shown<|im_end|>'
)
IDS = SMALL.tokenizer.encode(TEXT)


async def outcome(sizes: list[int], stop: tuple[str, ...]) -> tuple[Outcome, str]:
    cuts, at = list[Delta](), 0
    for size in [*sizes, len(IDS)]:
        part = IDS[at : at + size]
        cuts.append(Delta(token_ids=part, logprobs=[-0.25] * len(part)))
        at += size
    whole = [Span(version="3", start=0, end=len(IDS))]
    cuts.append(Delta(token_ids=[], logprobs=[], finish=Finish(type="stop", matched=IDS[-1]), spans=whole))
    journal = MemoryJournal()
    plan = Plan(
        turn_id="01890000-0000-7000-8000-000000000000",
        session_id="s",
        turn=1,
        call=Call(
            api="chat",
            chat=ChatRequest(messages=[{"role": "user", "content": "x"}]),
            sampling=Sampling(stop=stop),
            parse_tools=True,
        ),
        caller=identify({}, tenant="dev", key_sha256=None),
        target=Target(),
        base_model="m",
        started_at=datetime.now(UTC),
        prompt_ids=[1, 2],
        max_tokens=500,
        parent_turn_id=None,
        link="root",
        break_kind=None,
        logprob_mode="scaled",
    )
    turn = TurnInProgress(
        plan,
        engine=ScriptedEngine(lambda _: cuts),
        journal=journal,
        tokenizer=SMALL.tokenizer,
        thinking_open=False,
        syntax=JSON_CALLS,
        keeper=None,
        metrics=Metrics(),
        must_record=True,
        receipts=Receipts(MemoryPast()),
        screen=RecordScreen(OptOutConfig(), None, SMALL.tokenizer.decode),
        withhold=lambda *_: None,
        ended=lambda *_: None,
        settled=lambda: None,
    )
    shown = ""
    async for events in turn.events():
        shown += "".join(event.text for event in events if isinstance(event, TextDelta))
        assert "\ufffd" not in shown
    ended = await turn.finish()
    record = journal.turns[0]
    assert record.completion_ids == IDS
    assert [(span.version, span.start, span.end) for span in record.weight_versions] == [(3, 0, len(IDS))]
    assert record.trainable
    return ended, shown


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 12), max_size=60), stop=st.sampled_from([(), ("STOP",), ("🙂🙂",)]))
async def test_how_the_engine_groups_its_tokens_does_not_matter(sizes: list[int], stop: tuple[str, ...]) -> None:
    expected, _ = await outcome([], stop)
    found, shown = await outcome(sizes, stop)
    assert found.reply == expected.reply
    assert shown == found.reply.content
    ends = {(): "and 🙂🙂 STOP not shown", ("STOP",): "and 🙂🙂", ("🙂🙂",): "and"}
    assert found.reply.content == f"I look.\n{ends[stop]}"
    assert found.reply.reasoning == "Weigh – naïve 🙂"
    assert [call.arguments for call in found.reply.tool_calls] == ['{"a": "é"}']
