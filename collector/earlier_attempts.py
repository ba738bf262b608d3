"""Attempts at requests that were made before this process began, so that a retry across a restart is known as one."""

import asyncio
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import NamedTuple

from collector.caller import Caller, scope_of
from collector.conversation import Call
from collector.ports import Past, PastAttempt
from collector.request_dialogue import RequestDialogue

TRIED_AGAIN_WITHIN_S = 900.0
"""An agent gives a silent stream up after ten minutes at most, and asks again at once."""

_Key = tuple[str, str, str, bytes]


class EarlierAttempt(NamedTuple):
    """The first stored attempt at a request, and the one of its attempts that is trained."""

    turn_id: str
    started_s: float
    """On this process's monotonic clock."""
    trained: str | None
    complete: bool


class EarlierAttempts:
    """Stored turns of the last quarter of an hour before the start, by who asked and what was said.

    A record does not say under which key a session was named, by which model name it was asked, or whether the reply
    was a stream. So a tenant's same request in the same session is taken for the same, and one that is no stream for
    the fallback from one that was: one sample less is trained at worst, and none twice.
    """

    def __init__(self, past: Past) -> None:
        self._past = past
        self._began = datetime.now(UTC)
        self._reading = asyncio.Lock()
        self._found: dict[_Key, EarlierAttempt] | None = None

    async def read(self) -> None:
        """Reads them from the store, once. Raises StoreError."""
        if self._found is not None:
            return
        async with self._reading:
            if self._found is None:
                since = self._began - timedelta(seconds=TRIED_AGAIN_WITHIN_S)
                stored = await asyncio.to_thread(self._past.attempts, since)
                self._found = self._by_key(stored)

    def of(self, call: Call, caller: Caller, said: bytes) -> EarlierAttempt | None:
        """The attempt at the same request that is stored, if there is one; `read` comes first."""
        assert self._found is not None
        whose = caller.scope if caller.session_name is None else caller.stored_name(caller.session_name)
        return self._found.get((caller.tenant, whose, call.api, said))

    def _by_key(self, stored: list[PastAttempt]) -> dict[_Key, EarlierAttempt]:
        now, now_s = datetime.now(UTC), monotonic()
        found: dict[_Key, EarlierAttempt] = {}
        for each in sorted(stored, key=lambda each: each.started_at):
            whose = scope_of(each.session_id) or each.session_id
            key = (each.tenant, whose, each.api, RequestDialogue(each.chat).said)
            first = found.get(key)
            started_s = now_s - (now - each.started_at).total_seconds()
            trained = each.turn_id if each.trainable else None
            if first is None:
                found[key] = EarlierAttempt(each.turn_id, started_s, trained, each.complete)
            else:
                found[key] = first._replace(trained=first.trained or trained, complete=each.complete)
        return found
