"""Whose a turn is: what a response id is worth to the client that got it, and to no other tenant."""

import asyncio
from collections import OrderedDict

from collector.ports import Past, Receipt
from collector.records import Turn
from collector.refusal import Refusal

_WIRE_PREFIXES = ("chatcmpl-", "resp_", "msg_")


class Receipts:
    """Finds turns by response id or by session and number, in memory first, then in the store."""

    def __init__(self, past: Past, *, most: int = 100_000) -> None:
        """`most` are kept in memory."""
        self._past = past
        self._most = most
        self._recent: OrderedDict[str, Receipt] = OrderedDict()
        self._by_place: dict[tuple[str, str, int], str] = {}

    def add(self, turn: Turn) -> None:
        """Remembers a turn of this process."""
        receipt = Receipt(turn.turn_id, turn.session_id, turn.turn, turn.tenant)
        self._recent[turn.turn_id] = receipt
        self._by_place[turn.tenant, turn.session_id, turn.turn] = turn.turn_id
        if len(self._recent) > self._most:
            _, old = self._recent.popitem(last=False)
            self._by_place.pop((old.tenant, old.session_id, old.turn), None)

    async def of_response(self, tenant: str, response_id: str) -> Receipt:
        """The turn behind a response id or turn id. Refusal 404 for one that is not this tenant's."""
        turn_id = response_id
        for prefix in _WIRE_PREFIXES:
            turn_id = turn_id.removeprefix(prefix)
        receipt = self._recent.get(turn_id)
        found = [receipt] if receipt is not None else await asyncio.to_thread(self._past.receipts, turn_id=turn_id)
        return _owned(found, tenant, f"response {response_id[:80]!r}")

    async def of_place(self, tenant: str, session_id: str, turn: int) -> Receipt:
        """The turn with this number in a session. Refusal 404 for one that is not this tenant's."""
        turn_id = self._by_place.get((tenant, session_id, turn))
        if turn_id is not None:
            return self._recent[turn_id]
        stored = await asyncio.to_thread(self._past.receipts, session_id=session_id)
        return _owned(
            [receipt for receipt in stored if receipt.turn == turn], tenant, f"turn {turn} of session {session_id!r}"
        )


def _owned(found: list[Receipt], tenant: str, what: str) -> Receipt:
    for receipt in found:
        if receipt.tenant == tenant:
            return receipt
    # The same words whether it is another tenant's or nobody's.
    raise Refusal.not_found(
        f"{what} is not known; expected one that was returned to this key's tenant", code="not_found"
    )
