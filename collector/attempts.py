"""Several attempts at one request: which were tried again, and which one may be trained on."""

from collections import OrderedDict
from typing import NamedTuple

from collector.caller import Caller
from collector.conversation import Call
from collector.earlier_attempts import TRIED_AGAIN_WITHIN_S, EarlierAttempts

_KEPT = 4096

_ASKS_ONCE = "codex"
"""How the user agent of a client begins that draws one sample of a request, and tries again without saying so."""

_Key = tuple[str, str | None, str, str | None, bytes]


class Twins:
    """The attempts at one request. At most one of them is trained, whichever is recorded as trainable first."""

    def __init__(self) -> None:
        self._trained: str | None = None
        self.broke_off = False
        """Whether the attempt that ended last did so without a whole reply."""

    def claim(self, turn_id: str) -> bool:
        """Whether this attempt is the one that may be trained on."""
        if self._trained is None:
            self._trained = turn_id
        return self._trained == turn_id


class Attempt(NamedTuple):
    """How a call stands to earlier ones."""

    twins: Twins
    retry_of: str | None
    """turn_id of the first attempt; None when this is the first."""


class _First(NamedTuple):
    turn_id: str
    streamed: bool
    started_s: float
    twins: Twins


class Attempts:
    """Recent calls by who made them and what was said in them."""

    def __init__(self, earlier: EarlierAttempts) -> None:
        self._earlier = earlier
        self._recent: OrderedDict[_Key, _First] = OrderedDict()

    def of(self, call: Call, caller: Caller, said: bytes, turn_id: str, *, now_s: float) -> Attempt:
        """The call's standing. `said` is the fingerprint of its conversation.

        A repetition is a retry if the client says so, if the reply before broke off, if it was a stream before and is
        none, or if the client asks for one sample only. The same request for any other reason is another sample of it.
        """
        key = (caller.scope, caller.session_name, call.api, call.model, said)
        if key not in self._recent and (stored := self._earlier.of(call, caller, said)) is not None:
            twins = Twins()
            if stored.trained is not None:
                twins.claim(stored.trained)
            twins.broke_off = not stored.complete
            self._keep(key, _First(stored.turn_id, True, stored.started_s, twins))
        first = self._recent.get(key)
        if first is not None and now_s - first.started_s <= TRIED_AGAIN_WITHIN_S:
            gave_up_streaming = first.streamed and not call.streamed
            asks_once = caller.session_name is not None and (caller.client or "").startswith(_ASKS_ONCE)
            if caller.retries or first.twins.broke_off or gave_up_streaming or asks_once:
                return Attempt(first.twins, first.turn_id)
        twins = Twins()
        self._keep(key, _First(turn_id, call.streamed, now_s, twins))
        return Attempt(twins, None)

    def _keep(self, key: _Key, first: _First) -> None:
        self._recent[key] = first
        self._recent.move_to_end(key)
        if len(self._recent) > _KEPT:
            self._recent.popitem(last=False)
