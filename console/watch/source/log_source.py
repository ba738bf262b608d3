"""A saved log under watch: any that `roundhouse check` reads; of a long one the newest part comes first."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from checks.log import Log
from checks.readers.file_log import FileLog
from checks.readers.open_log import open_log
from checks.token_signals import token_signals
from collector.errors import UserError
from console.watch.held import Held, Origin
from console.watch.holding import hold
from console.watch.log_part import LogPart
from console.watch.source.log_rows import LogRows, rows_of, rows_of_end
from console.watch.source.token_reading import LogReading


class LogSource:
    """A short log at once; of a long one its end, where that can be read alone, and all of it from the reading."""

    def __init__(
        self, path: Path, *, short: bool, reads: str | None = None, reading: Callable[[], LogReading] | None = None
    ) -> None:
        """`reading` begins what gives the rows of a log that is not short, and tokens: once there is something to show,
        for it takes its part of the processor."""
        assert short or reading is not None
        self._path = path
        self._short = short
        self._reads = reads
        self._begin = reading
        self._reading: LogReading | None = None
        self._log: Log | None = None
        self._held: Held | None = None

    def poll(self) -> Held | None:
        """The log, or its newest part; and once more whenever more of it was read.

        UserError when a file was written over since: then it is to be opened anew.
        """
        if self._path.is_file() and isinstance(log := self.log(), FileLog):
            log.refuse_replaced()
        if self._held is None:
            self._held = self._first()
            self._reading = None if self._begin is None else self._begin()
        elif self._reading is None or not self._reading.poll():
            return None
        else:
            self._held = self._further(self._held, self._reading)._replace(revision=self._held.revision + 1)
        return self._held

    def signals(self) -> Sequence[int]:
        """Where what is read comes from."""
        signal = None if self._reading is None else self._reading.signal
        return () if signal is None else (signal,)

    def log(self) -> Log:
        """The same log; it may be read as often as is asked."""
        if self._log is None:
            self._log = open_log(self._path, reads=self._reads)
        return self._log

    def close(self) -> None:
        """Ends the reading."""
        if self._reading is not None:
            self._reading.close()

    def _first(self) -> Held:
        """All of a short log; of another its end, or nothing yet."""
        if self._short:
            # The same log gives single turns later, and then knows the file that these rows are of.
            return self._holding(rows_of(self.log()))
        end = rows_of_end(self._path, self._reads)
        if end is None:
            return self._holding(LogRows({}, "", ()), LogPart(turns=0))
        return self._holding(end, LogPart(turns=end.frames["turns"].height))

    def _further(self, held: Held, reading: LogReading) -> Held:
        """All of it with its tokens, once that was read; until then how far it has come."""
        rows, tokens = reading.take_rows(), reading.tokens
        if rows is not None:
            held = self._holding(rows)
        if (part := held.source.part) is None:
            signals = token_signals(tokens.weights, tokens.lags, tokens.entropies, held.versions)
            return held._replace(tokens=tokens._replace(signals=signals))
        if tokens.error is not None:
            raise UserError(tokens.error)
        part = msgspec.structs.replace(part, share=tokens.share or None)
        return held._replace(source=msgspec.structs.replace(held.source, part=part))

    def _holding(self, rows: LogRows, part: LogPart | None = None) -> Held:
        source = Origin(path=str(self._path), format=rows.format, part=part)
        return hold(rows.frames, source=source, damage=rows.damage, revision=0)
