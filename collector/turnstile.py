"""Lets turns begin and end one at a time, so that what streams meanwhile is not held up by all of them at once."""

import asyncio


class Turnstile:
    """One passes in each round of the event loop, in the order they came.

    To prepare a turn, or to record it, takes about as long as to pass on a hundred tokens. A round in which thirty
    begin would hold the tokens of all others for the time of thirty.
    """

    def __init__(self) -> None:
        self._gate = asyncio.Lock()

    async def enter(self) -> None:
        """Returns at once where nobody else has come in this round."""
        await self._gate.acquire()
        # Held by nobody who waits, and so by nobody who can be cancelled: until the next round begins.
        asyncio.get_running_loop().call_soon(self._gate.release)
