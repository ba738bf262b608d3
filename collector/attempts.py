"""Several attempts at one request: which were tried again, and which one may be trained on."""

from collections import OrderedDict
from typing import NamedTuple

from collector.caller import Caller
from collector.conversation import Call

_KEPT = 4096
_TRIED_AGAIN_WITHIN_S = 900.0
"""An agent gives a silent stream up after ten minutes at most, and asks again at once."""

_Key = tuple[str, str | None, str, str | None, bytes]


class Twins:
    """The attempts at one request. At most one of them is trained, whichever is recorded as trainable first."""

    def __init__(self) -> None:
        self._trained: str | None = None

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

    def __init__(self) -> None:
        self._recent: OrderedDict[_Key, _First] = OrderedDict()

    def of(self, call: Call, caller: Caller, said: bytes, turn_id: str, *, now_s: float) -> Attempt:
        """The call's standing. A repetition is a retry if the client says so, or if it was a stream before and is none.

        The same request for any other reason is another sample of it. `said` is the fingerprint of its conversation.
        """
        key = (caller.scope, caller.session_name, call.api, call.model, said)
        first = self._recent.get(key)
        if first is not None and now_s - first.started_s <= _TRIED_AGAIN_WITHIN_S:
            gave_up_streaming = first.streamed and not call.streamed
            if caller.retries or gave_up_streaming:
                return Attempt(first.twins, first.turn_id)
        twins = Twins()
        self._recent[key] = _First(turn_id, call.streamed, now_s, twins)
        self._recent.move_to_end(key)
        if len(self._recent) > _KEPT:
            self._recent.popitem(last=False)
        return Attempt(twins, None)
