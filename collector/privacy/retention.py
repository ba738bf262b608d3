"""The loop that lets sessions expire while the collector serves."""

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.privacy.config import RetentionConfig
from collector.privacy.expiry import Expired, expired_sessions
from collector.records import Event
from collector.session_index import SessionIndex
from collector.store.erase import Erasure
from collector.store.forget import unlink_inside
from collector.store.layout import existing_store
from collector.store.writer import Writer

_log = logging.getLogger(__name__)


class Retention:
    """Erases expired sessions from this collector's journal, and from those that no other process holds."""

    def __init__(self, config: RetentionConfig, store: Path, writer: Writer, sessions: SessionIndex) -> None:
        self._config = config
        self._store = store
        self._writer = writer
        self._sessions = sessions
        self.failure: str | None = None
        """Why the last look failed."""

    @property
    def is_on(self) -> bool:
        """Whether anything ever expires."""
        return self._config.max_age_days is not None or self._config.max_bytes is not None

    async def run(self) -> None:
        """Looks now and at every interval."""
        while self.is_on:
            try:
                await self.expire(datetime.now(UTC))
            except (StoreError, OSError) as error:
                self.failure = str(error)
                _log.error("expired sessions could not be erased: %s", error)
            else:
                self.failure = None
            await asyncio.sleep(self._config.interval_s)

    async def expire(self, now: datetime) -> list[Expired]:
        """Erases what has expired by a time; the sessions that went."""
        found = await asyncio.to_thread(expired_sessions, self._store, self._writer.name, self._config, now)
        # A session that is being continued stays, and one that is not is no longer known from here on: what a client
        # sends under its name begins a new one, later in the journal than all that goes.
        gone = [each for each in found if self._sessions.drop(each.tenant, each.session_id)]
        if gone:
            upto = self._writer.durable_seq
            await asyncio.to_thread(self._erase, gone, upto)
            text = f"{len(gone)} sessions of {sum(len(each.turn_ids) for each in gone)} turns expired"
            event = Event(at=now, kind="expired", actor=self._writer.name, text=text)
            await asyncio.wrap_future(self._writer.append(event))
        return gone

    def _erase(self, gone: list[Expired], upto: int) -> None:
        sessions = frozenset(each.session_id for each in gone)
        turn_ids = frozenset(turn_id for each in gone for turn_id in each.turn_ids)
        # Effects first: afterwards nobody knows any more which scores were of the turns.
        for name in existing_store(self._store).writers():
            if name != self._writer.name:
                self._erase_elsewhere(name, Erasure(sessions, turn_ids))
        self._writer.expire(Erasure(sessions, turn_ids, upto=upto))
        for path in (path for each in gone for path in each.routes):
            unlink_inside(self._store, path)

    def _erase_elsewhere(self, name: str, erasure: Erasure) -> None:
        try:
            other = Writer(self._store, name, StoreConfig(seal_interval_s=1e9))
        except StoreError as error:
            # Another process writes it. Scores and rewards of turns that are gone hold no text; `forget` takes them.
            _log.warning("what %s holds of expired sessions stays for now: %s", name, error)
            return
        with other:
            other.expire(erasure)
