"""prime-rl: the trainer's token exports, its metrics, and the packed batches that cannot be read safely."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from checks.readers import verifiers
from checks.readers.fields import Json, JsonObject, even, flags, floats, objects, token_ids, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import by_number, short
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import json_objects
from checks.readers.merged_row import turns_or_whole
from checks.readers.prime_rl_metrics import MetricSteps, is_metrics
from checks.readers.scored_runs import ScoredRuns
from checks.readers.unreadable import UnreadableParts
from checks.rows import EventRow, Row, TurnRow

_EXPORT = frozenset({"schema_version", "step", "micro_sequence_idx", "export_sequence_idx"})
_PER_TOKEN = {
    "token_ids": "id",
    "loss_mask": "loss_mask",
    "inference_logprobs": "inference_logprob",
    "trainer_logprobs": "trainer_logprob",
    "entropy": "entropy",
    "advantages": "advantage",
}
"""Column to its name in the older layout of one object per token."""


def recognise(head: FileHead) -> str | None:
    """By a token export's numbering, metric names, episodes of a training run, or the name of a packed batch."""
    if head.path.name.startswith("rank_") and head.path.suffix == ".bin" and head.start[:1] >= b"\x90":
        return "rank_*.bin in MessagePack"
    keys = outline(head)
    if keys >= _EXPORT:
        return "lines with step, micro_sequence_idx and export_sequence_idx"
    if "run.work" in keys and verifiers.recognise(head) is not None:
        return "episodes with the work that a training run gave them"
    return "lines with step, time and the trainer's metric names" if is_metrics(keys) else None


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """The exports of a step with its training traces, where there are both; every other file alone."""
    traces = [path for (path,) in verifiers.units([head for head in heads if _is_traces(head)])]
    of_step = {
        step: path
        for path in traces
        if path.parent.parent.name == "train" and (step := _step_folder(path, "rollouts")) is not None
    }
    joined: dict[Path, list[Path]] = {path: [] for path in traces}
    alone: list[Unit] = []
    for path in sorted((head.path for head in heads if not _is_traces(head)), key=by_number):
        step = _step_folder(path, "token_exports")
        if step in of_step:
            joined[of_step[step]].append(path)
        else:
            alone.append((path,))
    return [(*exports, path) for path, exports in joined.items()] + alone


def _is_traces(head: FileHead) -> bool:
    return "run.work" in outline(head)


def _step_folder(path: Path, above: str) -> tuple[str, str] | None:
    """The run's folder and the step, of a file somewhere below `above`/step_N."""
    parts = path.parts
    if above not in parts[:-2]:
        return None
    place = len(parts) - 1 - parts[::-1].index(above)
    return "/".join(parts[:place]), parts[place + 1]


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The rows of one file; or a step's traces with the scores of its exports, then the exports that fit no trace."""
    *exports, last = unit
    if not exports:
        if _is_traces(FileHead.of(last)):
            yield from verifiers.read(unit, unreadable)
        else:
            yield from _file(last, unreadable)
        return
    scored = ScoredRuns()
    for path in exports:
        for row in _file(path, unreadable):
            scored.add(row)
    for row in verifiers.read((last,), unreadable):
        yield scored.joined(row)
    for path in exports:
        yield from filter(scored.is_left, _file(path, UnreadableParts()))


def _file(path: Path, unreadable: UnreadableParts) -> Iterator[Row]:
    """The rows of one file: sequences as turns, or metric lines as steps."""
    if path.suffix == ".bin":
        unreadable.add(
            short(path),
            "a packed batch whose fields have no names and another order in each release of prime-rl; "
            "expected token_exports/: set trainer.enable_token_export = true",
        )
        return
    metrics = MetricSteps()
    for number, line in json_objects(path, unreadable):
        if "token_ids" not in line and "tokens" not in line:
            metrics.add(line, f"{short(path)}:{number}", unreadable)
            continue
        place = f"{short(path)}:{number}"
        try:
            yield from _turns(line, place)
        except ValueError as error:
            unreadable.add(place, str(error))
    yield from metrics.rows()


def _turns(line: JsonObject, place: str) -> Iterator[TurnRow]:
    """A packed sequence: one turn per sampled run.

    What carries only a cross-entropy weight was not sampled by the policy, though it is in the loss.
    """
    columns = _columns(line)
    ids = token_ids(columns["token_ids"], "token_ids") or []
    mask = flags(columns["loss_mask"], "loss_mask") or []
    step = whole(line.get("step"), "step")
    name = f"step_{step}/rank_{line.get('rank')}/{line.get('export_sequence_idx')}"
    yield from turns_or_whole(
        ids,
        _sampled(mask, line),
        session_id=name if "export_sequence_idx" in line else place,
        per_token={
            "sampled_logprobs": floats(columns["inference_logprobs"], "inference_logprobs"),
            "trainer_logprobs": floats(columns["trainer_logprobs"], "trainer_logprobs"),
            "entropies": floats(columns["entropy"], "entropy"),
            "advantages": floats(columns["advantages"], "advantages"),
            "loss_mask": mask,
        },
        trainer_step=step,
        # prime-rl counts steps from 1: step n updates the weights that n - 1 steps have made.
        trainer_version=None if step is None else step - 1,
        place=place,
        api="import:prime-rl",
    )


def _columns(line: JsonObject) -> dict[str, Json]:
    """The columns, whichever layout the line has."""
    if "token_ids" in line:
        return {name: line.get(name) for name in _PER_TOKEN}
    tokens = objects(line.get("tokens"), "tokens")
    return {name: [token.get(each) for token in tokens] for name, each in _PER_TOKEN.items()}


def _sampled(mask: list[int], line: JsonObject) -> list[int]:
    policy = [floats(line.get(name), name) for name in ("rl_weights", "ref_kl_weights", "sdpo_weights")]
    given: list[list[float]] = [each for each in policy if each is not None]
    if policy[0] is None or not even({str(index): each for index, each in enumerate([mask, *given])}):
        return mask
    return [int(bool(flag) and any(weights)) for flag, *weights in zip(mask, *given, strict=True)]


_ADVICE = {
    "turns.prompt_ids": "prime-rl: trainer.enable_token_export = true writes every token with both log-probabilities",
    "scores.trainer_logprobs": "prime-rl: trainer.enable_token_export = true",
    "turns.trainer_logprobs": "prime-rl: trainer.enable_token_export = true",
    "turns.weight_versions": "prime-rl: read rollouts/step_N/train/all/traces.jsonl too; the file monitor writes it",
    "turns.reward": "prime-rl: read rollouts/step_N/train/all/traces.jsonl too; the file monitor writes it",
    "turns.group_id": "prime-rl: read rollouts/step_N/train/all/traces.jsonl too; the file monitor writes it",
    "turns.finish_reason": "prime-rl: read rollouts/step_N/train/all/traces.jsonl too; the file monitor writes it",
    "steps.mfu": "prime-rl: read metrics.jsonl of the output folder too",
    "steps.grad_norm": "prime-rl: read metrics.jsonl of the output folder too",
    "steps.wait_s": "prime-rl: read metrics.jsonl of the output folder too",
    "spans.role": "prime-rl: read metrics.jsonl of the output folder too (time/wait_for_batch)",
}

PRIME_RL = Format(
    name="prime-rl",
    about="prime-rl token exports and traces, joined, and metrics.jsonl",
    recognise=recognise,
    read=read,
    units=units,
    alone=(TurnRow, EventRow),
    advice={**verifiers.VERIFIERS.advice, **_ADVICE},
)
