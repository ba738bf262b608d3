"""The checks beside `martingale doctor` on one record of its kind, in one run."""

import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from checks.log import Log
from checks.readers.formats import FORMATS
from checks.readers.open_log import open_log
from checks.suite import CHECKS, Check, run
from collector.errors import UserError

PACKAGE = "martingale==0.2.0"
PARQUET_TOKENS = 5_000_000
# Run by its own interpreter: the record's sequences and scores again and again, chained as its ledger wants them.
_REPEAT = """
import sys
from pathlib import Path
from martingale.record.store import TokenLedger
from martingale.record.tokens import ScoreRecord, build_sequence

source, target = (TokenLedger(Path(name), readonly=n == 0) for n, name in enumerate(sys.argv[1:3]))
for revision in source.all_revisions():
    target.publish_revision(revision)
sequences = list(source.all_sequences())
for repeat in range(int(sys.argv[3])):
    for one in sequences:
        actor = one.actor_id + 1_000_000 * repeat
        steps = [(t.revision_digest, t.token_id, t.logprob_bits, t.topk) for t in one.tokens]
        again = build_sequence(
            actor, one.sequence_index, f"{one.sequence_id}-{repeat}", one.prompt_ids, steps,
            prev_sequence_digest=target.last_sequence_digest(actor), reward_bits=one.reward_bits,
        )
        target.append_sequence(again)
        scores, before = [], target.last_score_digest(again.digest)
        for score in source.scores_for(one.digest):
            made = ScoreRecord(again.digest, score.position, score.train_revision_digest, score.logprob_bits, before)
            scores.append(made)
            before = made.digest
        target.append_scores(scores)
target.close()
"""


def compare(record: Path | None, folder: Path, *, repeats: int) -> dict[str, Any]:
    """Rates and their ratio; a reason where there is nothing to compare with."""
    if record is None or not (record / "tokens.db").is_file():
        return {"skipped": "no --record with a tokens.db"}
    python = folder / "venv" / "bin" / "python"
    venv.create(folder / "venv", with_pip=True)
    installed = subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE], capture_output=True, check=False)
    if installed.returncode != 0:
        return {"skipped": f"{PACKAGE} cannot be installed: {installed.stderr.decode().strip().splitlines()[-1]}"}
    repeated = folder / "record"
    repeated.mkdir()
    copied = folder / "tokens.db"
    copied.write_bytes((record / "tokens.db").read_bytes())
    subprocess.run([python, "-c", _REPEAT, copied, repeated / "tokens.db", str(repeats)], check=True)
    doctor = python.with_name("martingale")
    theirs = _seconds([str(doctor), "doctor", "--dir", str(repeated)]) - _seconds([str(doctor), "--help"])
    try:
        log = open_log(repeated / "tokens.db")
    except UserError as error:
        known = ", ".join(form.name for form in FORMATS)
        return {"skipped": f"no reader of martingale's record among {known}: {error}"}
    return _compared(log, theirs, repeated, folder, repeats)


def _compared(log: Log, theirs: float, repeated: Path, folder: Path, repeats: int) -> dict[str, Any]:
    batches = list(log.batches(_COLUMNS, _SCORES))
    scored = sum(int(batch.scores["trainer_logprobs"].list.len().sum()) for batch in batches)
    same_file = _ours(repeated / "tokens.db", CHECKS)
    times = PARQUET_TOKENS // scored + 1
    parquet = folder / "repeated"
    _write_repeated(batches, parquet, times)
    result: dict[str, Any] = {
        "repeats": repeats,
        "scored_tokens": scored,
        "doctor_scored_tokens_s": round(scored / theirs),
        "checks_scored_tokens_s_same_file": round(scored / same_file),
        "ratio_same_file": round(theirs / same_file, 1),
    }
    same_question = [check for check in CHECKS if check.name == "importance-weight"]
    for name, checks in (("all_checks", CHECKS), ("importance_weight", same_question)):
        if checks:
            took = _ours(parquet, checks)
            result[f"{name}_scored_tokens_s_parquet"] = round(scored * times / took)
            result[f"{name}_ratio_parquet"] = round(theirs * times / took)
    return result


_COLUMNS = ("group_id", "adapter_version", "prompt_ids", "completion_ids", "sampled_logprobs", "reward")
_SCORES = ("adapter", "trainer_step", "trainer_version", "trainer_logprobs")


def _ours(path: Path, checks: Sequence[Check]) -> float:
    """Seconds of some checks, less those that need a tokenizer, in this process, where all is imported already."""
    chosen = [check for check in checks if not any(measure.needs_tokenizer for measure in check.measures)]
    took: list[float] = []
    for _ in range(2):
        started = time.perf_counter()
        run(open_log(path), checks=chosen)
        took.append(time.perf_counter() - started)
    return min(took)


def _write_repeated(batches: list[Any], folder: Path, times: int) -> None:
    """The turns as native Parquet, so many times over, each time as sessions of their own."""
    import pyarrow.parquet as pq

    folder.mkdir()
    turns = pl.concat([batch.turns for batch in batches], how="vertical_relaxed")
    scores = pl.concat([batch.scores for batch in batches], how="vertical_relaxed")
    assert len(batches) == 1, "one batch holds the record"
    together = max(1, 500_000 // max(1, scores["trainer_logprobs"].list.len().sum()))
    writers: dict[str, pq.ParquetWriter] = {}
    for start in range(0, times, together):
        copies = range(start, min(times, start + together))
        for table, parts in (
            ("turns", [_copy(turns, copy) for copy in copies]),
            ("scores", [_copy_scores(scores, copy) for copy in copies]),
        ):
            rows = pl.concat(parts).to_arrow()
            if table not in writers:
                writers[table] = pq.ParquetWriter(folder / f"{table}.parquet", rows.schema, compression="zstd")
            writers[table].write_table(rows)
    for writer in writers.values():
        writer.close()


def _copy(turns: pl.DataFrame, copy: int) -> pl.DataFrame:
    named = pl.format("{}-{}", pl.int_range(pl.len()), pl.lit(copy)).alias("turn_id")
    return turns.with_columns(named, session_id=pl.format("{}-{}", "session_id", pl.lit(copy)))


def _copy_scores(scores: pl.DataFrame, copy: int) -> pl.DataFrame:
    return scores.with_columns(turn_id=pl.format("{}-{}", "row", pl.lit(copy))).drop("row")


def _seconds(command: list[str]) -> float:
    """The shortest of three runs."""
    took: list[float] = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=sys.stderr, check=True)
        took.append(time.perf_counter() - started)
    return min(took)
