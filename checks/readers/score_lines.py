"""Scores among lines of JSON: set aside in a temporary file before the turns are read, found again by turn_id."""

import tempfile
from array import array
from collections.abc import Iterator

import msgspec
import numpy as np

from checks.ragged import Array
from checks.readers.format import Unit
from checks.readers.lines import decode_json, lines
from checks.readers.respelled import respelled
from checks.readers.unreadable import UnreadableParts
from checks.rows import ScoreRow
from collector.errors import UserError


class RecordName(msgspec.Struct, frozen=True):
    """What a line says it is."""

    record: str = "turn"


class ScoreKey(msgspec.Struct, frozen=True):
    """Which turn a score is of."""

    turn_id: str
    record: str = "turn"


_KEY = msgspec.json.Decoder(ScoreKey)
_SCORE = msgspec.json.Decoder(ScoreRow, strict=False)


class ScoreLines:
    """The lines with `"record": "score"` of some files; memory grows by a few numbers for each."""

    def __init__(self, unit: Unit) -> None:
        self._file = tempfile.TemporaryFile(prefix="roundhouse-scores-")  # noqa: SIM115 (closed in __exit__)
        self._names = [path.name for path in unit]
        self._keys, self._ends = array("q"), array("q")
        self._files, self._numbers = array("i"), array("q")
        try:
            for at, path in enumerate(unit):
                for number, line in lines(path, UnreadableParts()):
                    if b'"score"' in line:
                        self._take(line, at, number)
        except OSError as error:
            self._file.close()
            raise UserError(
                f"{tempfile.gettempdir()}: {error}; expected room for the log's scores; set TMPDIR to a larger disk"
            ) from error
        keys = np.array(self._keys, np.int64)
        self._order: Array = np.argsort(keys, kind="stable")
        self._sorted: Array = keys[self._order]
        self._used = np.zeros(len(keys), np.bool_)

    def __enter__(self) -> "ScoreLines":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def of(self, turn_id: str, unreadable: UnreadableParts) -> Iterator[ScoreRow]:
        """The scores of a turn, in the order of their lines."""
        if not len(self._sorted):
            return
        key = hash(turn_id)
        first = int(np.searchsorted(self._sorted, key, "left"))
        last = int(np.searchsorted(self._sorted, key, "right"))
        for at in self._order[first:last].tolist():
            line = self._line(at)
            if _turn_id(line) != turn_id:
                continue
            self._used[at] = True
            try:
                yield _score(line)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                unreadable.add(self._place(at), str(error))

    def count_unmatched(self, unreadable: UnreadableParts) -> None:
        """Counts the scores that no turn has asked for."""
        for at in np.flatnonzero(~self._used).tolist():
            unreadable.add(
                self._place(at), f"a score of turn {_turn_id(self._line(at))!r}, which the log does not hold"
            )

    def _take(self, line: bytes, at: int, number: int) -> None:
        turn_id = _turn_id(line)
        if turn_id is not None:
            self._file.write(line)
            self._keys.append(hash(turn_id))
            self._ends.append(self._file.tell())
            self._files.append(at)
            self._numbers.append(number)

    def _line(self, at: int) -> bytes:
        start = self._ends[at - 1] if at else 0
        self._file.seek(start)
        return self._file.read(self._ends[at] - start)

    def _place(self, at: int) -> str:
        return f"{self._names[self._files[at]]}:{self._numbers[at]}"


def _turn_id(line: bytes) -> str | None:
    """The turn that a line scores; None when it is no score, or says of no turn."""
    try:
        key = _KEY.decode(line)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return None
    except msgspec.DecodeError:
        try:
            key = msgspec.convert(decode_json(line), ScoreKey)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
    return key.turn_id if key.record == "score" else None


def _score(line: bytes) -> ScoreRow:
    try:
        return _SCORE.decode(line)
    except msgspec.DecodeError:
        fields = decode_json(line)
    try:
        return msgspec.convert(fields, ScoreRow, strict=False)
    except msgspec.ValidationError:
        return msgspec.convert(respelled(fields, ScoreRow), ScoreRow, strict=False)
