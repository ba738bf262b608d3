"""The sessions in memory: found by header or by a completion in common, bounded, read back when they go on."""

import asyncio

import pytest

from collector.caller import Caller, identify
from collector.conversation import Call, Reply, Sampling
from collector.fakes import MemoryPast
from collector.ports import PastTurn
from collector.records import ChatRequest
from collector.refusal import Refusal
from collector.session import KnownTurn, Session
from collector.session_index import SessionIndex

HI = [{"role": "user", "content": "Hi"}]
ON = [*HI, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "On."}]


def caller(*, tenant: str = "dev", key: str | None = None, **headers: str) -> Caller:
    return identify({name.replace("_", "-"): value for name, value in headers.items()}, tenant=tenant, key_sha256=key)


def call(messages: list) -> Call:
    return Call(api="chat", chat=ChatRequest(messages=messages), sampling=Sampling())


def index(past: object = None, **limits: int) -> SessionIndex:
    known = {"most_sessions": 10, "most_tokens": 10_000, **limits}
    return SessionIndex(past or MemoryPast(), stop_ids=frozenset({7}), **known)  # type: ignore[arg-type]


async def finish_turn(sessions: SessionIndex, who: Caller, messages: list, *, size: int = 4) -> Session:
    session = await sessions.find(who, call(messages))
    session.last_turn += 1
    chat = ChatRequest(messages=messages)
    known = KnownTurn(
        turn_id="t",
        parent=None,
        prompt_ids=[1] * (size - 1),
        completion_ids=[7],
        chat=chat,
        reply=Reply(content="Hello."),
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


@pytest.mark.parametrize(
    "headers",
    [{"x_session_id": "x" * 257}, {"x_session_id": "a\x1b[2J"}, {"x_roundhouse_purpose": "fun"}],
)
def test_odd_headers_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="expected"):
        caller(**headers)
