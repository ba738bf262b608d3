"""The newest part of a long log, by the console's own source: of every kind of lines whose end is shown first."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from checks.readers.open_log import open_log
from console.watch.held import TABLES, Held, Tokens
from console.watch.holding import fitted
from console.watch.source.log_rows import END_BYTES, LogRows, is_short, rows_of
from console.watch.source.log_source import LogSource
from tests.checks.readers.seeds import SEEDS
from tests.checks.readers.test_log_end import READ, objects_of, renamed

LINE_BYTES = 8_192
LINES = 3 * END_BYTES // LINE_BYTES


class Endless:
    """A reading that never comes to anything."""

    tokens = Tokens()
    signal: int | None = None

    def poll(self) -> bool:
        """There is nothing new."""
        return False

    def nudge(self) -> None:
        """Nothing to do."""

    def take_rows(self) -> LogRows | None:
        """They never come."""
        return None

    def close(self) -> None:
        """Nothing to do."""


def wide(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """A line of `LINE_BYTES` of each record, or longer where it is: what fills it is room between two words."""
    with path.open("w") as file:
        for record in records:
            line = json.dumps(record)
            file.write("{" + " " * (LINE_BYTES - 1 - len(line)) + line[1:] + "\n")
    return path


def first_look(path: Path) -> Held:
    """What is shown of a long log before all of it was read."""
    assert not is_short(path)
    held = LogSource(path, short=False, reading=Endless).poll()
    assert held is not None
    return held


def rows_held_against_the_whole(held: Held, path: Path) -> dict[str, int]:
    """Holds every table against the last rows of the whole log; how many rows it has."""
    whole = rows_of(open_log(path))
    for name in TABLES:
        frame = getattr(held, name)
        wanted = fitted(whole.frames[name], name).tail(frame.height)
        assert frame.equals(wanted), name
    return {name: getattr(held, name).height for name in TABLES}


@pytest.mark.parametrize(("form", "kind"), sorted(READ), ids=str)
def test_the_end_of_every_such_log_is_held(tmp_path: Path, form: str, kind: int):
    seed = SEEDS[form][kind](tmp_path / "seed")
    held = objects_of(seed)
    assert held is not None
    copies = -(-LINES // len(held))
    path = wide(tmp_path / seed.name, (renamed(each, copy) for copy in range(copies) for each in held))
    found = first_look(path)
    rows = rows_held_against_the_whole(found, path)
    part = found.source.part
    assert part is not None
    assert part.turns == rows["turns"]
    assert found.damage == ()
    if rows["turns"]:
        # Each line of the end gives the rows that it gives in the seed.
        lines = END_BYTES // LINE_BYTES
        of_seed = rows_of(open_log(seed)).frames["turns"].height / len(held)
        assert rows["turns"] == pytest.approx(of_seed * lines, abs=len(held) * of_seed + 1)
    else:
        # Files of metrics or of votes alone have no turn to show.
        assert rows_of(open_log(path)).frames["turns"].is_empty()


def native_records(turns: int, later: int) -> Iterator[dict[str, Any]]:
    """So many turns; then whatever can be said of each of them; then some more, each with its own score."""
    yield {"record": "run", "at": "2026-01-01T00:00:00Z", "batch": {"rows": 8}}
    for number in range(turns):
        yield native_turn(number)
    for number in range(turns):
        turn_id, session_id = f"turn-{number:05d}", f"session-{number // 8:04d}"
        yield {"record": "score", "turn_id": turn_id, "trainer_step": 7, "trainer_logprobs": [-0.25]}
        yield {"record": "reward", "session_id": session_id, "turn_id": turn_id, "value": 1.0}
        yield {"record": "feedback", "feedback_id": f"f{number}", "turn_id": turn_id, "kind": "thumb", "value": 1.0}
        yield {"record": "event", "kind": "note", "session_id": session_id, "turn": number % 8 + 1}
        yield {"record": "eval", "adapter": "bot", "version": number, "task_id": "t", "sample": 0, "score": 1.0}
        yield {"record": "step", "adapter": "bot", "step": number, "grad_norm": 0.5}
        span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:01Z"}
        yield {"record": "span", "role": "trainer", "kind": "step", **span}
        yield {"record": "version", "adapter": "bot", "version": number, "step": number}
    for number in range(turns, turns + later):
        yield native_turn(number)
        score = {"trainer_step": 9, "trainer_logprobs": [-0.25]}
        yield {"record": "score", "turn_id": f"turn-{number:05d}", **score}


def native_turn(number: int) -> dict[str, Any]:
    """A turn of eight a session."""
    return {
        "session_id": f"session-{number // 8:04d}",
        "turn": number % 8 + 1,
        "turn_id": f"turn-{number:05d}",
        "adapter": "bot",
        "prompt_ids": [1],
        "completion_ids": [number],
        "sampled_logprobs": [-0.5],
    }


def test_what_is_said_in_the_end_of_turns_before_it_is_held(tmp_path: Path):
    path = wide(tmp_path / "log.jsonl", native_records(200, 20))
    held = first_look(path)
    rows = rows_held_against_the_whole(held, path)
    # The file's last line ends the 512 lines of the end: 20 turns with as many scores, and 59 times the 8 records that
    # can be said of a turn.
    assert END_BYTES // LINE_BYTES == 512
    assert rows["turns"] == 20
    assert {name: rows[name] for name in ("rewards", "feedback", "events", "evals", "steps", "spans", "versions")} == {
        **dict.fromkeys(("rewards", "feedback", "events", "evals", "steps", "spans", "versions"), 59),
    }
    assert rows["runs"] == 0
    assert held.turns["trainer_step"].to_list() == [9] * 20
    assert held.rewards["turn_id"][0] == "turn-00141"
    assert held.damage == ()


def test_a_part_of_effects_alone_has_no_turn_to_show(tmp_path: Path):
    held = first_look(wide(tmp_path / "log.jsonl", native_records(200, 0)))
    assert held.is_empty
    assert held.source.part is not None
    assert held.source.part.turns == 0
