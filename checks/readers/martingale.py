"""martingale: tokens.db, with both log-probabilities of every token at every step that trained on it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from checks.log import Unreadable
from checks.readers.fields import Json, mapping, number, text, when, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import decode_json
from checks.readers.martingale_record import SequenceRecord, floats_of_bits, score_bits, sequence_record
from checks.readers.sqlite_tables import Tables, read_only
from checks.readers.trainer_metrics import read as read_metrics
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, RunRow, ScoreRow, TurnRow, VersionSpan

_COMPANIONS = (
    frozenset({"by_lag", "n_scored_tokens"}),
    frozenset({"alarms", "per_step_metrics"}),
    frozenset({"[].behavior_logprob", "[].trainer_logprob", "[].log_ratio"}),
)
"""Keys of what martingale writes about a database: its report, its alarms, its worst tokens."""


class _Revision(NamedTuple):
    """One version of the weights, as engine or as trainer had it."""

    step: int
    sampler: Mapping[str, Json]


class _Sequence(NamedTuple):
    """A sequence that could be read, without its scores."""

    digest: str
    row: TurnRow


class _Held(NamedTuple):
    """The scores of one sequence by one revision, as they are stored."""

    # Any: SQLite holds any type in any column.
    positions: list[Any]
    records: list[Any]


_Scored = dict[Any, _Held]
"""By the digest of the revision that scored."""
_TOKENS_AT_ONCE = 2048
_SEQUENCES_AT_ONCE = 256
"""SQLite takes at least 999 values."""


def recognise(head: FileHead) -> str | None:
    """By the tables of tokens.db, or by martingale's metrics in a trainer's log."""
    if head.is_sqlite and b"llm_revisions" in head.start and b"sequence_digest" in head.start:
        return "SQLite with the tables llm_revisions, sequences and scores"
    if not head.is_sqlite and any(key.startswith("[].martingale/") for key in outline(head)):
        return "a trainer's log with metrics of martingale"
    return "what martingale says about a tokens.db" if _is_companion(head) else None


def _is_companion(head: FileHead) -> bool:
    return any(keys <= outline(head) for keys in _COMPANIONS)


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """Each file alone; what is only about a database is left out where there is anything else."""
    logs = [head for head in heads if head.is_sqlite or not _is_companion(head)]
    return in_order(logs or heads)


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The sequences of a database as turns, each with all its scores; or the steps of a trainer's log."""
    for path in unit:
        head = FileHead.of(path)
        if not head.is_sqlite and _is_companion(head):
            unreadable.add(path.name, "a report about a tokens.db, expected tokens.db itself or trainer_log.json")
            continue
        if not head.is_sqlite:
            yield from read_metrics((path,), unreadable)
            continue
        with read_only(path, unreadable) as tables:
            if tables is not None:
                yield from _database(path, tables, unreadable)


def _database(path: Path, tables: Tables, unreadable: UnreadableParts) -> Iterator[Row]:
    revisions: dict[str, _Revision] = {}
    for digest, step, manifest in tables.rows("llm_revisions", ("digest", "step", "manifest_json"), order="step"):
        try:
            sampler = mapping(mapping(_decoded(manifest)).get("sampler"))
            revisions[_text(digest)] = _Revision(_whole(step), sampler)
        except ValueError as error:
            unreadable.add(f"{path.name} revision {_text(digest)}", str(error))
            continue
        if len(revisions) == 1:
            yield RunRow(precision=text(sampler.get("dtype")))
    for held in _batches(_sequences(path, tables, revisions)):
        scored = _records_of_scores(tables, [each for each in held if isinstance(each, _Sequence)])
        for each in held:
            if isinstance(each, Unreadable):
                unreadable.add(each.place, each.reason)
                continue
            row = each.row
            scores = [
                msgspec.structs.replace(score, advantages=row.advantages)
                for score in _scores(each, scored.get(each.digest, {}), revisions, unreadable)
            ]
            first = msgspec.structs.asdict(scores[0]) if scores else {}
            yield msgspec.structs.replace(row, more_scores=scores[1:] or None, **first)


def _sequences(path: Path, tables: Tables, revisions: Mapping[str, _Revision]) -> Iterator[_Sequence | Unreadable]:
    for digest, record, created in tables.rows(
        "sequences", ("digest", "record_json", "created_at"), order="actor_id, sequence_index"
    ):
        place = f"{path.name} sequence {_text(digest)}"
        try:
            row = _turn(sequence_record(record), revisions, place, when(created))
        except ValueError as error:
            yield Unreadable(place=place, reason=str(error))
        else:
            yield _Sequence(_text(digest), row)


def _batches(sequences: Iterator[_Sequence | Unreadable]) -> Iterator[list[_Sequence | Unreadable]]:
    """Sequences whose scores are asked for at once: several short ones, or a long one."""
    held: list[_Sequence | Unreadable] = []
    tokens = 0
    for each in sequences:
        held.append(each)
        tokens += len(each.row.completion_ids or ()) if isinstance(each, _Sequence) else 0
        if tokens >= _TOKENS_AT_ONCE or len(held) >= _SEQUENCES_AT_ONCE:
            yield held
            held, tokens = [], 0
    if held:
        yield held


def _turn(
    record: SequenceRecord, revisions: Mapping[str, _Revision], place: str, finished_at: datetime | None
) -> TurnRow:
    """A sequence, its log-probabilities read from their bits.

    What the record calls its reward is the advantage: that is what martingale's hooks in TRL and verl give it.
    """
    tokens = record.tokens
    if [token.position for token in tokens] != list(range(len(tokens))):
        raise ValueError("the tokens' positions are not 0, 1, 2 and so on")
    sampled_by = _sampled_by([token.revision_digest for token in tokens], revisions)
    sampler: Mapping[str, Json] = sampled_by[0][0].sampler if sampled_by else {}
    return TurnRow(
        session_id=text(record.sequence_id) or place,
        finished_at=finished_at,
        prompt_ids=record.prompt_ids,
        completion_ids=[token.token_id for token in tokens],
        sampled_logprobs=floats_of_bits([token.logprob_bits for token in tokens]),
        weight_versions=[VersionSpan(revision.step, start, end) for revision, start, end in sampled_by],
        stated_prompt_tokens=whole(record.prompt_len, "prompt_len"),
        advantages=None if record.reward_bits is None else floats_of_bits([record.reward_bits]) * len(tokens),
        temperature=number(sampler.get("temperature"), "temperature"),
        top_p=number(sampler.get("top_p"), "top_p"),
        top_k=whole(sampler.get("top_k"), "top_k"),
        min_p=number(sampler.get("min_p"), "min_p"),
        repetition_penalty=number(sampler.get("repetition_penalty"), "repetition_penalty"),
        max_tokens=whole(sampler.get("max_tokens"), "max_tokens"),
        place=place,
        api="import:martingale",
    )


def _records_of_scores(tables: Tables, sequences: Sequence[_Sequence]) -> dict[str, _Scored]:
    """By sequence and by the revision that scored: position and record of each score, in the order of positions."""
    found: dict[str, _Scored] = {each.digest: {} for each in sequences}
    rows = tables.rows(
        "scores",
        ("sequence_digest", "train_revision_digest", "position", "record_json"),
        where=f"sequence_digest IN ({', '.join('?' * len(sequences))})",
        order="sequence_digest, position",
        values=[each.digest for each in sequences],
    )
    for digest, of_sequence in groupby(rows, key=itemgetter(0)):
        scored = found[_text(digest)]
        for _, revision, position, record in of_sequence:
            held = scored.get(revision)
            if held is None:
                held = scored[revision] = _Held([], [])
            held.positions.append(position)
            held.records.append(record)
    return found


def _scores(
    sequence: _Sequence,
    scored: _Scored,
    revisions: Mapping[str, _Revision],
    unreadable: UnreadableParts,
) -> Iterator[ScoreRow]:
    """What each revision of the trainer made of a sequence, in the order of its steps."""
    tokens = len(sequence.row.completion_ids or ())
    made: list[tuple[int, ScoreRow]] = []
    for revision, held in sorted(scored.items(), key=lambda item: _text(item[0])):
        try:
            step = _revision(_text(revision), revisions).step
            if held.positions != list(range(tokens)):
                raise ValueError(f"{len(held.positions)} scores for {tokens} tokens, expected one for each")
            values = floats_of_bits(score_bits(held.records))
            made.append((step, ScoreRow(trainer_step=step, trainer_version=step, trainer_logprobs=values)))
        except ValueError as error:
            unreadable.add(f"{sequence.row.place} scored by {_text(revision)}", str(error))
    yield from (score for _, score in sorted(made, key=lambda each: each[0]))


def _revision(digest: str | None, revisions: Mapping[str, _Revision]) -> _Revision:
    found = revisions.get(digest or "")
    if found is None:
        raise ValueError(f"revision {digest} is not in llm_revisions")
    return found


def _sampled_by(digests: Sequence[str], revisions: Mapping[str, _Revision]) -> list[tuple[_Revision, int, int]]:
    """Runs of tokens of one version; martingale counts steps from 0, so a step is the number of updates before it."""
    if len(set(digests)) == 1:
        return [(_revision(digests[0], revisions), 0, len(digests))]
    runs: list[tuple[_Revision, int, int]] = []
    for index, digest in enumerate(digests):
        revision = _revision(digest, revisions)
        if runs and runs[-1][0].step == revision.step:
            runs[-1] = (*runs[-1][:2], index + 1)
        else:
            runs.append((revision, index, index + 1))
    return runs


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _whole(step: Any) -> int:
    if not isinstance(step, int):
        raise ValueError(f"step {step!r}, expected a whole number")
    return step


def _decoded(value: Any) -> Json:
    return decode_json(value) if isinstance(value, bytes) else None


MARTINGALE = Format(
    name="martingale",
    about="martingale tokens.db, and a trainer's log with its metrics",
    recognise=recognise,
    read=read,
    units=units,
    advice={
        "turns.prompt_ids": "martingale: tokens are in tokens.db; a trainer_log.json alone has the metrics of steps",
        "turns.trainer_logprobs": "martingale: its hook in the trainer writes the scores",
        "scores.trainer_logprobs": "martingale: its hook in the trainer writes the scores",
        "turns.reward": "martingale records advantages, not rewards",
        "turns.group_id": "martingale records sequences without their groups",
        "turns.finish_reason": "martingale records no stop reason",
    },
)
