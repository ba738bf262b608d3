"""The sessions in memory, bounded; what was evicted or written before a restart is read back from the store."""

import asyncio
import hashlib
from array import array
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

from uuid_utils import uuid7

from collector.caller import Caller, scope_of
from collector.conversation import Call, Reply, ToolCall, tool_calls_of
from collector.echo import Agreement, Echo, Trail
from collector.ports import Past, PastTurn
from collector.privacy.withheld import graver
from collector.request_dialogue import RequestDialogue
from collector.session import KnownTurn, Session, rank
from collector.stored_sessions import StoredSessions
from collector.workers.placements import Placements

_RECENT_SESSIONS = 64
_COMPLETIONS_PER_SESSION = 32
_ALIKE = 1024


class _Candidate(NamedTuple):
    """A turn that a request may continue; it outlives its session's stay in memory."""

    session_id: str
    turn_id: str
    trail: Trail


class SessionIndex:
    """Finds the session of a call: by header, else by a sampled completion in common within tenant and key."""

    def __init__(
        self,
        past: Past,
        *,
        most_sessions: int,
        most_tokens: int,
        stop_ids: frozenset[int],
        several_workers: bool = False,
    ) -> None:
        """With `several_workers` a session that is read back brings along which one serves it."""
        self._past = past
        self._several_workers = several_workers
        self._most_sessions = most_sessions
        self._most_tokens = most_tokens
        self._stop_ids = stop_ids
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._tokens = 0
        self._stored = StoredSessions()
        self._unread_scopes: dict[str, deque[str]] | None = None
        self._by_completion: OrderedDict[tuple[str, bytes], dict[tuple[str, str], _Candidate]] = OrderedDict()
        self._candidates = 0
        self._reading = asyncio.Lock()

    async def warm(self) -> None:
        """Reads what has to be known before the first call; calls that come earlier wait for it."""
        async with self._reading:
            await self._list_stored()

    async def find(self, caller: Caller, call: Call) -> Session:
        """The session of the call, new if nothing ties it to an old one. `release` it when the call is over."""
        if caller.session_name is not None:
            session_id = caller.stored_name(caller.session_name)
        else:
            session_id = await self._by_common_completion(caller, call) or caller.new_session_id(str(uuid7()))
        session = await self._session(caller.tenant, session_id)
        assert session is not None
        session.in_flight += 1
        return session

    async def known(self, tenant: str, session_id: str) -> Session | None:
        """A session of this tenant that has turns, in memory or in the store."""
        session = await self._session(tenant, session_id, create=False)
        return session if session is not None and session.last_turn else None

    @asynccontextmanager
    async def holding(self, tenant: str, session_id: str) -> AsyncGenerator[Session | None]:
        """The same, kept in memory until the end."""
        session = await self.known(tenant, session_id)
        if session is None:
            yield None
            return
        session.in_flight += 1
        try:
            yield session
        finally:
            self.release(session)

    def remember(self, scope: str, session: Session, known: KnownTurn, dialogue: RequestDialogue | None) -> None:
        """Adds a finished turn and makes it findable for calls without a session header."""
        fingerprint = session.add(known, dialogue)
        self._tokens += known.added
        candidate = _Candidate(session.session_id, known.turn_id, known.trail)
        for key in (fingerprint, known.token_digest):
            if key is not None:
                self._add_candidate((scope, key), candidate)
        while self._candidates > self._most_sessions * _COMPLETIONS_PER_SESSION:
            self._candidates -= len(self._by_completion.popitem(last=False)[1])

    def _add_candidate(self, key: tuple[str, bytes], candidate: _Candidate) -> None:
        alike = self._by_completion.setdefault(key, {})
        self._by_completion.move_to_end(key)
        self._candidates -= len(alike)
        # A session that was read back brings its turns again.
        alike.pop(candidate[:2], None)
        alike[candidate[:2]] = candidate
        if len(alike) > _ALIKE:
            del alike[next(iter(alike))]
        self._candidates += len(alike)

    def release(self, session: Session) -> None:
        """Ends a call's hold on its session; evicts what has not been used for longest."""
        session.in_flight -= 1
        while len(self._sessions) > self._most_sessions or self._tokens > self._most_tokens:
            key = next((key for key, idle in self._sessions.items() if idle.in_flight == 0), None)
            if key is None:
                return
            evicted = self._sessions.pop(key)
            self._tokens -= evicted.tokens
            self._stored.add(evicted.session_id)

    def drop(self, tenant: str, session_id: str) -> bool:
        """No longer knows a session whose records go; False, and nothing changes, while a call of it is served."""
        session = self._sessions.get((tenant, session_id))
        if session is not None and session.in_flight:
            return False
        if session is not None:
            del self._sessions[tenant, session_id]
            self._tokens -= session.tokens
        self._stored.discard(session_id)
        for alike in self._by_completion.values():
            for key in [key for key in alike if key[0] == session_id]:
                del alike[key]
                self._candidates -= 1
        for names in (self._unread_scopes or {}).values():
            if session_id in names:
                names.remove(session_id)
        return True

    def __len__(self) -> int:
        return len(self._sessions)

    async def _session(self, tenant: str, session_id: str, *, create: bool = True) -> Session | None:
        key = (tenant, session_id)
        if key not in self._sessions and self._unread_scopes is not None and session_id not in self._stored:
            if not create:
                return None
            self._sessions[key] = Session(session_id, tenant)
        if key not in self._sessions:
            async with self._reading:
                await self._list_stored()
                if key not in self._sessions and (create or session_id in self._stored):
                    self._sessions[key] = await self._load(tenant, session_id)
        if key in self._sessions:
            self._sessions.move_to_end(key)
        return self._sessions.get(key)

    async def _list_stored(self) -> None:
        """Names of the sessions that earlier processes stored, read once; other sessions need no look."""
        if self._unread_scopes is not None:
            return
        # Nothing was let go before this: no session can have been in memory.
        self._stored, self._unread_scopes = await asyncio.to_thread(_listed, self._past)

    async def _load(self, tenant: str, session_id: str) -> Session:
        session = Session(session_id, tenant)
        if session_id not in self._stored:
            return session
        turns = await asyncio.to_thread(self._past.session_turns, session_id)
        for turn in sorted((turn for turn in turns if turn.tenant == tenant), key=lambda turn: turn.turn):
            session.last_turn = max(session.last_turn, turn.turn)
            withheld = graver([turn.untrainable_reason])
            if withheld is not None:
                session.withheld.add(withheld)
                session.lost = session.lost or not turn.completion_ids
            if turn.completion_ids and turn.prompt_ids is not None:
                dialogue = None if turn.chat is None else RequestDialogue(turn.chat)
                ancestor = None if dialogue is None else session.match(dialogue).ancestor
                known = recall(turn, dialogue, session.deepest_prefix(turn.prompt_ids), ancestor)
                known.withheld = withheld
                self.remember(scope_of(session_id) or "", session, known, dialogue)
        session.declared.update(await asyncio.to_thread(self._past.declared, tenant, session_id))
        if self._several_workers:
            session.placements = Placements(await asyncio.to_thread(self._past.placed, session_id))
        return session

    async def _by_common_completion(self, caller: Caller, call: Call) -> str | None:
        found = self._search(caller.scope, call)
        if found is None and _has_history(call):
            await self._read_recent(caller)
            found = self._search(caller.scope, call)
        while found is not None and (caller.tenant, found.session_id) not in self._sessions:
            await self._session(caller.tenant, found.session_id)
            # While it was read another call may have continued the turn.
            found = self._search(caller.scope, call)
        if found is not None and call.chat is None:
            found.trail.continued = True
        return None if found is None else found.session_id

    async def _read_recent(self, caller: Caller) -> None:
        """Reads back the sessions of this tenant and key that were active last before a restart."""
        async with self._reading:
            await self._list_stored()
            assert self._unread_scopes is not None
            for session_id in self._unread_scopes.pop(caller.scope, ()):
                key = (caller.tenant, session_id)
                if key not in self._sessions:
                    self._sessions[key] = await self._load(caller.tenant, session_id)

    def _search(self, scope: str, call: Call) -> _Candidate | None:
        """The turn that the call continues, chosen as `Session.match` chooses among the turns of one session.

        What no client named goes first: a run that names its session goes on naming it.
        """
        messages = call.chat.messages if call.chat is not None else ()
        keys = RequestDialogue(call.chat).fingerprints() if call.chat is not None else self._token_keys(call.prompt_ids)
        echo = Echo(messages) if call.chat is not None else None

        def standing(candidate: tuple[int, _Candidate]) -> tuple[object, ...]:
            place, found = candidate
            agreement = Agreement() if echo is None else echo.agreement(found.trail)
            return rank(agreement, place, found.trail, found.turn_id, scope_of(found.session_id) is not None)

        candidates = [
            (place, found) for place, key in keys for found in self._by_completion.get((scope, key), {}).values()
        ]
        return max(candidates, key=standing)[1] if candidates else None

    def _token_keys(self, ids: Sequence[int]) -> list[tuple[int, bytes]]:
        """Lengths and fingerprints of the prompt up to each stop token."""
        data = array("i", ids).tobytes()
        hasher = hashlib.blake2b(digest_size=16)
        done, keys = 0, list[tuple[int, bytes]]()
        for place, token in enumerate(ids, start=1):
            if token in self._stop_ids:
                hasher.update(data[done * 4 : place * 4])
                done = place
                keys.append((place, hasher.digest()))
        return keys


def _listed(past: Past) -> tuple[StoredSessions, dict[str, deque[str]]]:
    """All sessions of the store; and by scope those of them that no header named and that were active last."""
    stored, recent = StoredSessions(), dict[str, deque[str]]()
    for name in past.session_ids():
        stored.add(name)
        scope = scope_of(name)
        if scope is not None:
            recent.setdefault(scope, deque(maxlen=_RECENT_SESSIONS)).append(name)
    return stored, recent


def recall(
    turn: PastTurn, dialogue: RequestDialogue | None, parent: KnownTurn | None, ancestor: KnownTurn | None = None
) -> KnownTurn:
    """What is remembered of a stored turn whose prompt is there."""
    assert turn.prompt_ids is not None
    return KnownTurn(
        turn_id=turn.turn_id,
        parent=parent,
        prompt_ids=turn.prompt_ids,
        completion_ids=turn.completion_ids,
        dialogue=dialogue,
        reply=None if turn.reply is None else _reply(turn.reply),
        ancestor=ancestor,
    )


def _reply(message: dict[str, Any]) -> Reply:
    calls = [(call, cast(dict[str, Any], call.get("function") or {})) for call in tool_calls_of(message)]
    return Reply(
        content=message.get("content") or "",
        reasoning=message.get("reasoning_content"),
        tool_calls=tuple(
            ToolCall(id=str(call.get("id")), name=str(function.get("name")), arguments=str(function.get("arguments")))
            for call, function in calls
        ),
    )


def _has_history(call: Call) -> bool:
    if call.chat is None:
        return bool(call.prompt_ids)
    return any(message.get("role") == "assistant" for message in call.chat.messages)
