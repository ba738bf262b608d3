"""What a person does about an alert, written into the store as events: the record is the audit."""

import getpass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from checks.alerts import acknowledge, comment, silence
from checks.readers.native_store import is_store
from collector.errors import StoreError, UserError
from collector.records import Event
from collector.store.writer import Writer
from collector.store.writer_lock import LockHeld
from console.watch.views.alert_lines import AlertLine

WRITER = "console"
"""The journal that consoles write to, one at a time; it is held only while something is written."""
READ_ONLY = "this console is read-only; start it with --rw"


class ActRefused(UserError):
    """Why nothing was done."""


class Acts(NamedTuple):
    """Acts on the alerts of one store."""

    store: Path | None
    """None where there is none to write to: a log."""
    rw: bool
    actor: str

    def refusal(self, kind: str, line: AlertLine | None) -> str | None:
        """Why the act is off; None when it is on."""
        if not self.rw:
            return READ_ONLY
        if self.store is None:
            return "this is a saved log, not a store: there is nothing to write to"
        if line is None:
            return "no alert is selected"
        if kind == "acknowledge" and not line.alarming:
            return f"{line.rule} is {line.shown.lower()}: only an alert that has fired can be acknowledged"
        if kind == "acknowledge" and line.state == "acked":
            return f"{line.rule} was acknowledged by {line.who}"
        return None

    def acknowledge(self, line: AlertLine, text: str = "") -> Event:
        """Acknowledges an alert as it is now."""
        return self._write("acknowledge", line, acknowledge(line.rule, actor=self.actor, at=_now(), text=text or None))

    def silence(self, line: AlertLine, until: datetime, text: str) -> Event:
        """Keeps an alert from being delivered until a time, for a reason."""
        at = _now()
        if not text.strip():
            raise ActRefused("a silence needs a reason; nothing is written")
        if until <= at:
            raise ActRefused(f"{until:%Y-%m-%d %H:%MZ} is past; nothing is written")
        return self._write("silence", line, silence(line.rule, until=until, actor=self.actor, at=at, text=text))

    def comment(self, line: AlertLine, text: str) -> Event:
        """Says something about an alert."""
        if not text.strip():
            raise ActRefused("a comment needs words; nothing is written")
        return self._write("comment", line, comment(line.rule, actor=self.actor, at=_now(), text=text))

    def _write(self, kind: str, line: AlertLine, event: Event) -> Event:
        reason = self.refusal(kind, line)
        if reason is not None or self.store is None:
            raise ActRefused(reason or READ_ONLY)
        # Opened for writing, one that is gone would be made anew.
        if not is_store(self.store):
            raise ActRefused(f"{self.store} is no store any more; nothing is written")
        try:
            with Writer(self.store, WRITER) as writer:
                writer.append(event).result()
        except LockHeld as error:
            raise ActRefused(f"another console is writing: {error}") from error
        except StoreError as error:
            raise ActRefused(f"the store does not take it: {error}") from error
        return event


def acts_of(store: Path | None, *, rw: bool) -> Acts:
    """The acts of the person who is logged in."""
    try:
        actor = getpass.getuser()
    except (OSError, KeyError, ImportError) as error:
        if rw:
            raise UserError("your login name is not known; set LOGNAME, so that the records can say who") from error
        actor = "unknown"
    return Acts(store, rw, actor)


def silence_end(text: str, now: datetime) -> datetime:
    """When a silence ends: `1h`, `4h`, `30m`, `2d`, or a time such as `13:00` or `2026-11-30 08:00`, in UTC."""
    said = text.strip().lower().removeprefix("until ").strip()
    units = {"m": "minutes", "h": "hours", "d": "days"}
    try:
        if said[:-1].isdecimal() and said[-1:] in units and int(said[:-1]) > 0:
            return now + timedelta(**{units[said[-1]]: int(said[:-1])})
        if ":" in said and len(said) <= 5:
            hour, minute = (int(part) for part in said.split(":"))
            end = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return end if end > now else end + timedelta(days=1)
        end = datetime.fromisoformat(said.upper())
    except (ValueError, OverflowError) as error:
        raise ActRefused(
            f"{text!r} is no end of a silence, expected 1h, 4h, 30m, 2d, 13:00 or 2026-11-30T08:00"
        ) from error
    return end if end.tzinfo is not None else end.replace(tzinfo=UTC)


def _now() -> datetime:
    return datetime.now(UTC)
