"""martingale: tokens.db, with both log-probabilities of every token at every step that trained on it."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from checks.readers.fields import Json, JsonObject, mapping, number, objects, text, token_ids, when, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import decode_json
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
    for digest, record, created in tables.rows(
        "sequences", ("digest", "record_json", "created_at"), order="actor_id, sequence_index"
    ):
        place = f"{path.name} sequence {_text(digest)}"
        try:
            row = _turn(mapping(_decoded(record)), revisions, place)
        except ValueError as error:
            unreadable.add(place, str(error))
            continue
        scores = [
            msgspec.structs.replace(each, advantages=row.advantages)
            for each in _scores(tables, _text(digest), len(row.completion_ids or ()), revisions, place, unreadable)
        ]
        first = msgspec.structs.asdict(scores[0]) if scores else {}
        yield msgspec.structs.replace(row, finished_at=when(created), more_scores=scores[1:] or None, **first)


def _turn(record: JsonObject, revisions: Mapping[str, _Revision], place: str) -> TurnRow:
    """A sequence, its log-probabilities read from their bits.

    What the record calls its reward is the advantage: that is what martingale's hooks in TRL and verl give it.
    """
    tokens = objects(record.get("tokens"), "tokens")
    if [token.get("position") for token in tokens] != list(range(len(tokens))):
        raise ValueError("the tokens' positions are not 0, 1, 2 and so on")
    sampled_by = [_revision(text(token.get("revision_digest")), revisions) for token in tokens]
    sampler: Mapping[str, Json] = sampled_by[0].sampler if sampled_by else {}
    return TurnRow(
        session_id=text(record.get("sequence_id")) or place,
        prompt_ids=token_ids(record.get("prompt_ids"), "prompt_ids"),
        completion_ids=token_ids([token.get("token_id") for token in tokens], "tokens.token_id"),
        sampled_logprobs=[_float(token.get("logprob_bits")) for token in tokens],
        weight_versions=_spans([each.step for each in sampled_by]),
        stated_prompt_tokens=whole(record.get("prompt_len"), "prompt_len"),
        advantages=None if record.get("reward_bits") is None else [_float(record["reward_bits"])] * len(tokens),
        temperature=number(sampler.get("temperature"), "temperature"),
        top_p=number(sampler.get("top_p"), "top_p"),
        top_k=whole(sampler.get("top_k"), "top_k"),
        min_p=number(sampler.get("min_p"), "min_p"),
        repetition_penalty=number(sampler.get("repetition_penalty"), "repetition_penalty"),
        max_tokens=whole(sampler.get("max_tokens"), "max_tokens"),
        place=place,
        api="import:martingale",
    )


def _scores(
    tables: Tables,
    digest: str,
    tokens: int,
    revisions: Mapping[str, _Revision],
    place: str,
    unreadable: UnreadableParts,
) -> Iterator[ScoreRow]:
    """What each revision of the trainer made of a sequence, in the order of its steps."""
    found = tables.rows(
        "scores",
        ("train_revision_digest", "position", "record_json"),
        where="sequence_digest = ?",
        order="train_revision_digest, position",
        values=(digest,),
    )
    made: list[tuple[int, ScoreRow]] = []
    for revision, rows in groupby(found, key=lambda row: row[0]):
        held = list(rows)
        try:
            step = _revision(_text(revision), revisions).step
            if [position for _, position, _ in held] != list(range(tokens)):
                raise ValueError(f"{len(held)} scores for {tokens} tokens, expected one for each")
            values = [_float(mapping(_decoded(record)).get("logprob_bits")) for _, _, record in held]
            made.append((step, ScoreRow(trainer_step=step, trainer_version=step, trainer_logprobs=values)))
        except ValueError as error:
            unreadable.add(f"{place} scored by {_text(revision)}", str(error))
    yield from (score for _, score in sorted(made, key=lambda each: each[0]))


def _revision(digest: str | None, revisions: Mapping[str, _Revision]) -> _Revision:
    found = revisions.get(digest or "")
    if found is None:
        raise ValueError(f"revision {digest} is not in llm_revisions")
    return found


def _spans(steps: Sequence[int]) -> list[VersionSpan]:
    """Runs of tokens of one version; martingale counts steps from 0, so a step is the number of updates before it."""
    spans: list[VersionSpan] = []
    for step, run in groupby(range(len(steps)), key=lambda index: steps[index]):
        held = list(run)
        spans.append(VersionSpan(step, held[0], held[-1] + 1))
    return spans


def _float(bits: Json) -> float:
    """The float32 whose bits are written as `f32:` and eight hex digits."""
    if not isinstance(bits, str) or not bits.startswith("f32:") or len(bits) != 12:
        raise ValueError(f"{bits!r} instead of the bits of a float, expected f32:<8 hex digits>")
    return struct.unpack(">f", bytes.fromhex(bits[4:]))[0]


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
        "turns.prompt_ids": "martingale: check the folder's tokens.db",
        "turns.trainer_logprobs": "martingale: its hook in the trainer writes the scores",
        "scores.trainer_logprobs": "martingale: its hook in the trainer writes the scores",
        "turns.reward": "martingale records advantages, not rewards; a trainer_log.json beside it has their mean",
        "turns.group_id": "martingale records sequences without their groups",
        "turns.finish_reason": "martingale records no stop reason",
    },
)
