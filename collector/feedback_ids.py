"""Which feedback ids are taken: the store's, read once, and this process's."""

import asyncio

from collector.ports import Past
from collector.records import Feedback


class FeedbackIds:
    """Finds the feedback stored under an id of a tenant, however long ago and on whatever turn."""

    def __init__(self, past: Past) -> None:
        self._past = past
        # Hashes, since the ids of years have to fit: one that only looks taken costs a look into the store.
        self._taken: set[int] = set()
        self._is_read = False
        self._reading = asyncio.Lock()

    async def stored(self, tenant: str, feedback_id: str) -> Feedback | None:
        """The feedback stored under this id; None when the id is free."""
        async with self._reading:
            if not self._is_read:
                self._taken.update(map(hash, await asyncio.to_thread(self._past.feedback_ids)))
                self._is_read = True
        if hash((tenant, feedback_id)) not in self._taken:
            return None
        found = await asyncio.to_thread(self._past.feedback, tenant, feedback_id)
        return found[0] if found else None

    def add(self, feedback: Feedback) -> None:
        """Remembers what has become durable."""
        self._taken.add(hash((feedback.tenant, feedback.feedback_id)))
