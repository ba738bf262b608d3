"""The sessions in memory: found by header or by a completion in common, bounded, read back when they go on."""

import asyncio
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest

from collector.caller import Caller, identify
from collector.conversation import Call, Reply, Sampling, ToolCall
from collector.fakes import MemoryPast
from collector.ports import PastTurn
from collector.records import ChatRequest, Turn
from collector.refusal import Refusal
from collector.request_dialogue import RequestDialogue
from collector.session import KnownTurn, Session
from collector.session_index import SessionIndex

HELLO = Reply(content="Hello.")
HI = [{"role": "user", "content": "Hi"}]
ON = [*HI, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "On."}]


def caller(*, tenant: str = "dev", key: str | None = None, **headers: str) -> Caller:
    return identify({name.replace("_", "-"): value for name, value in headers.items()}, tenant=tenant, key_sha256=key)


def call(messages: list) -> Call:
    return Call(api="chat", chat=ChatRequest(messages=messages), sampling=Sampling())


def index(past: object = None, **limits: int) -> SessionIndex:
    known = {"most_sessions": 10, "most_tokens": 10_000, **limits}
    return SessionIndex(past or MemoryPast(), stop_ids=frozenset({7}), **known)  # type: ignore[arg-type]


async def finish_turn(
    sessions: SessionIndex,
    who: Caller,
    messages: list,
    *,
    size: int = 4,
    reply: Reply = HELLO,
    turn_id: str = "t",
) -> Session:
    session = await sessions.find(who, call(messages))
    session.last_turn += 1
    chat = RequestDialogue(ChatRequest(messages=messages))
    known = KnownTurn(
        turn_id=turn_id,
        parent=None,
        prompt_ids=[1] * (size - 1),
        completion_ids=[7],
        dialogue=chat,
        reply=reply,
        ancestor=session.match(chat).ancestor,
    )
    sessions.remember(who.scope, session, known, chat)
    sessions.release(session)
    return session


async def test_a_header_names_the_session_and_the_first_of_several_wins() -> None:
    sessions = index()
    named = await sessions.find(caller(session_id="codex", x_session_id="mine"), call(HI))
    assert named.session_id == "mine"
    assert await sessions.find(caller(x_session_id="mine"), call(ON)) is named
    assert (await sessions.find(caller(x_claude_code_session_id="c"), call(HI))).session_id == "c"


async def test_without_a_header_a_completion_in_common_finds_the_session() -> None:
    sessions = index()
    first = await finish_turn(sessions, caller(), HI)
    assert await sessions.find(caller(), call(ON)) is first
    assert await sessions.find(caller(), call(HI)) is not first


def calling(run: int, *, tail: str = "On.") -> tuple[Reply, list]:
    """A reply with a tool call, and the conversation that goes on from it."""
    reply = Reply(tool_calls=(ToolCall(id=f"call_{run}", name="ls", arguments="{}"),))
    return reply, [*HI, reply.message(), {"role": "tool", "tool_call_id": f"call_{run}", "content": tail}]


async def test_runs_that_sampled_the_same_call_are_told_apart_by_its_id() -> None:
    sessions = index()
    runs = [await finish_turn(sessions, caller(), HI, reply=calling(n)[0], turn_id=f"t{n}") for n in range(3)]
    assert len({run.session_id for run in runs}) == 3
    for n in (0, 1, 2, 0):
        assert await sessions.find(caller(), call(calling(n)[1])) is runs[n]
    reply, on = Reply(content="Done."), {"role": "user", "content": "More."}
    for n in (2, 0, 1):
        assert await finish_turn(sessions, caller(), calling(n)[1], reply=reply, turn_id=f"u{n}") is runs[n]
    for n in (1, 2, 0):
        assert await sessions.find(caller(), call([*calling(n)[1], reply.message(), on])) is runs[n]


async def test_ids_that_a_client_made_up_still_lead_to_the_only_run_there_is() -> None:
    sessions = index()
    run = await finish_turn(sessions, caller(), HI, reply=calling(1)[0])
    assert await sessions.find(caller(), call(calling(9)[1])) is run


async def test_runs_are_told_apart_by_thinking_also_when_they_are_no_longer_in_memory() -> None:
    past = MemoryPast()
    sessions = index(past, most_sessions=1)
    replies = [Reply(content="Hello.", reasoning=thinking) for thinking in ("A", "B", "C")]
    runs = [
        (await finish_turn(sessions, caller(), HI, reply=reply, turn_id=f"t{n}")).session_id
        for n, reply in enumerate(replies)
    ]
    assert len(sessions) == 1
    found = [await sessions.find(caller(), call([*HI, reply.message(), ON[2]])) for reply in replies]
    assert [session.session_id for session in found] == runs


async def test_runs_that_nothing_tells_apart_each_get_one_continuation_the_newest_first() -> None:
    sessions = index()
    runs = [await finish_turn(sessions, caller(), HI, turn_id=f"t{n}") for n in range(3)]
    ons = [[*ON[:2], {"role": "user", "content": f"On {n}."}] for n in range(4)]
    found = [await finish_turn(sessions, caller(), on, turn_id=f"u{n}") for n, on in enumerate(ons)]
    assert found == [runs[2], runs[1], runs[0], runs[2]]


async def test_a_run_that_its_client_names_is_not_taken_for_one_without_a_name() -> None:
    sessions = index()
    nameless = await finish_turn(sessions, caller(), HI, turn_id="t1")
    await finish_turn(sessions, caller(x_session_id="named"), HI, turn_id="t2")
    assert await sessions.find(caller(), call(ON)) is nameless


async def test_ids_without_messages_that_were_sampled_twice_each_get_one_continuation() -> None:
    sessions = index()
    by_ids = Call(api="generate", prompt_ids=(1, 1, 7, 1), sampling=Sampling())
    runs: list[Session] = []
    for n in range(2):
        runs.append(await sessions.find(caller(), Call(api="generate", prompt_ids=(1, 1), sampling=Sampling())))
        known = KnownTurn(
            turn_id=f"t{n}", parent=None, prompt_ids=[1, 1], completion_ids=[7], dialogue=None, reply=None
        )
        sessions.remember(caller().scope, runs[-1], known, None)
    assert [await sessions.find(caller(), by_ids) for _ in range(3)] == [runs[1], runs[0], runs[1]]


async def test_what_reads_the_same_is_bounded() -> None:
    sessions = index(most_sessions=2)
    for n in range(200):
        await finish_turn(sessions, caller(), HI, reply=Reply(content=str(n % 70)), turn_id=f"t{n:03}")
    kept = sessions._by_completion.values()
    assert sessions._candidates == sum(len(alike) for alike in kept) <= 2 * 32


async def test_the_sessions_that_were_active_last_are_read_back_not_those_begun_last() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def turn(number: int, session: int, messages: list, said: str, minute: int) -> Turn:
        return Turn(
            turn_id=f"{minute:04}",
            session_id=f"auto-{caller().scope}-{session:04}",
            turn=number,
            tenant="dev",
            api="chat",
            started_at=start + timedelta(minutes=minute),
            prompt_ids=[minute],
            completion_ids=[7],
            sampled_logprobs=[-1.0],
            weight_versions=[],
            request=ChatRequest(messages=messages),
            response={"role": "assistant", "content": said},
        )

    turns = [turn(1, n, [{"role": "user", "content": str(n)}], f"r{n}", n) for n in range(200)]
    first = [{"role": "user", "content": "0"}, {"role": "assistant", "content": "r0"}, ON[2]]
    turns.append(turn(2, 0, first, "again", 500))
    on = [*first, {"role": "assistant", "content": "again"}, ON[2]]
    for asked in range(2):
        sessions = index(MemoryPast(turns))
        both = await asyncio.gather(*(sessions.find(caller(), call(on)) for _ in range(asked + 1)))
        assert {session.session_id for session in both} == {turns[0].session_id}


async def test_another_key_or_tenant_finds_nothing_in_common() -> None:
    sessions = index()
    first = await finish_turn(sessions, caller(tenant="a", key="1"), HI)
    for other in (caller(tenant="a", key="2"), caller(tenant="b", key="1")):
        assert (await sessions.find(other, call(ON))).session_id != first.session_id
    assert await sessions.find(caller(tenant="a", key="1"), call(ON)) is first


async def test_what_has_not_been_used_for_longest_is_let_go() -> None:
    sessions = index(most_sessions=2)
    kept = [await finish_turn(sessions, caller(x_session_id=name), HI) for name in ("a", "b", "c")]
    assert len(sessions) == 2
    assert await sessions.find(caller(x_session_id="c"), call(HI)) is kept[2]
    by_tokens = index(most_tokens=100)
    for name in ("a", "b", "c"):
        await finish_turn(by_tokens, caller(x_session_id=name), HI, size=60)
    assert len(by_tokens) == 1


async def test_a_session_in_use_is_not_let_go() -> None:
    sessions = index(most_sessions=1)
    held = await sessions.find(caller(x_session_id="a"), call(HI))
    await finish_turn(sessions, caller(x_session_id="b"), HI)
    assert await sessions.find(caller(x_session_id="a"), call(HI)) is held


class SlowPast(MemoryPast):
    """Counts how often a session is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def session_ids(self) -> list[str]:
        return ["old"]

    def session_turns(self, session_id: str) -> list[PastTurn]:
        self.read.append(session_id)
        reply = {"role": "assistant", "content": "Hello."}
        chat = ChatRequest(messages=HI)
        return [
            PastTurn(f"t{n}", session_id, n, owner, [1], [7], chat, reply) for n, owner in ((3, "dev"), (9, "else"))
        ]


async def test_a_stored_session_is_read_once_and_only_its_own_tenants_turns_count() -> None:
    past = SlowPast()
    sessions = index(past)
    found = await asyncio.gather(*(sessions.find(caller(x_session_id="old"), call(ON)) for _ in range(5)))
    assert past.read == ["old"]
    assert len({id(session) for session in found}) == 1
    assert found[0].last_turn == 3
    await sessions.find(caller(x_session_id="new"), call(HI))
    assert past.read == ["old"]


async def test_a_session_that_was_let_go_and_dropped_begins_anew_without_a_look_into_the_store() -> None:
    past = SlowPast()
    sessions = index(past, most_sessions=1)
    await finish_turn(sessions, caller(x_session_id="a"), HI)
    await finish_turn(sessions, caller(x_session_id="b"), HI)
    assert past.read == []
    assert await sessions.known("dev", "a") is not None
    assert past.read == ["a"]
    await finish_turn(sessions, caller(x_session_id="c"), HI)
    assert sessions.drop("dev", "a")
    assert sessions.drop("dev", "old")
    assert await sessions.known("dev", "a") is None
    assert (await sessions.find(caller(x_session_id="old"), call(HI))).last_turn == 0
    assert past.read == ["a"]


async def test_what_is_remembered_of_sessions_that_were_let_go_does_not_grow_with_their_names() -> None:
    sessions = index(most_sessions=4)

    async def serve(count: int) -> None:
        for _ in range(count):
            await finish_turn(sessions, caller(), HI)

    tracemalloc.start()
    try:
        await serve(1000)
        # Whatever is bounded is full by now.
        before, _ = tracemalloc.get_traced_memory()
        await serve(2000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(sessions), len(sessions._stored)) == (4, 2996)
    # A name alone takes 100 bytes, and another 50 in a set.
    assert (after - before) / 2000 < 60


@pytest.mark.parametrize(
    "headers",
    [{"x_session_id": "x" * 257}, {"x_session_id": "a\x1b[2J"}, {"x_roundhouse_purpose": "fun"}],
)
def test_odd_headers_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="expected"):
        caller(**headers)
