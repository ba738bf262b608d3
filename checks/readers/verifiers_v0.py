"""verifiers v0: evaluation results, one rollout per line, or all outputs in one document."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from checks.readers.fields import (
    Json,
    JsonObject,
    flags,
    floats,
    listed,
    mapping,
    number,
    objects,
    text,
    token_ids,
    when,
    whole,
)
from checks.readers.file_head import FileHead
from checks.readers.file_order import by_number, short, step_of
from checks.readers.format import Format, Unit
from checks.readers.json_document import document, documents
from checks.readers.json_outline import outline, tells
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, TurnRow

_METADATA = frozenset({"env_id", "model", "num_examples", "rollouts_per_example"})
_ROLLOUT = frozenset({"example_id", "prompt", "completion", "reward"})
_LATE = frozenset({"completion", "reward"})


def recognise(head: FileHead) -> str | None:
    """By the fields of a rollout, of all outputs together, or of the metadata beside them."""
    keys = outline(head)
    many = {f"[].{name}" for name in _ROLLOUT}
    if tells(head, _ROLLOUT, early=_ROLLOUT - _LATE) or tells(head, many, early={f"[].{n}" for n in _ROLLOUT - _LATE}):
        return "rollouts with example_id, prompt, completion and reward"
    if {"outputs", "metadata"} <= keys and ("outputs.[].example_id" in keys or "metadata.env_id" in keys):
        return "outputs with their metadata"
    return "metadata of an evaluation: env_id, num_examples, rollouts_per_example" if keys >= _METADATA else None


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """Each file of rollouts, after the metadata of its folder; metadata without rollouts alone."""
    about = {head.path.parent: head.path for head in heads if _is_metadata(head)}
    rollouts = sorted((head.path for head in heads if not _is_metadata(head)), key=by_number)
    alone = [path for folder, path in about.items() if all(each.parent != folder for each in rollouts)]
    return [(about[path.parent], path) if path.parent in about else (path,) for path in rollouts] + [
        (path,) for path in alone
    ]


def _is_metadata(head: FileHead) -> bool:
    keys = outline(head)
    return keys >= _METADATA and "outputs" not in keys and "example_id" not in keys


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The rollouts of one file, with what the metadata beside it says."""
    *beside, path = unit
    about = mapping(document(beside[0], unreadable)) if beside else {}
    samples: Counter[str | None] = Counter()
    for place, each in documents(path, unreadable):
        if "outputs" not in each and each.keys() >= _METADATA:
            unreadable.add(place, "metadata of an evaluation without its rollouts; expected results.jsonl beside it")
            continue
        rollouts = listed(each.get("outputs")) if "outputs" in each else [each]
        said = mapping(each.get("metadata")) or about
        for index, rollout in enumerate(rollouts):
            where = f"{place} output {index}" if "outputs" in each else place
            try:
                yield from list(_turns(mapping(rollout), said, path, where))
                if (scored := _evaluated(mapping(rollout), said, path, samples)) is not None:
                    yield scored
            except ValueError as error:
                unreadable.add(where, str(error))


def _turns(rollout: JsonObject, about: JsonObject, path: Path, place: str) -> Iterator[TurnRow]:
    """One turn per step of the trajectory; without a trajectory, one per reply in the completion."""
    where = f"{path.parent.name}/{place}" if path.parent.name else place
    if "reward" not in rollout and "completion" not in rollout:
        raise ValueError(f"an output with {', '.join(sorted(rollout)) or 'nothing'}, expected completion and reward")
    sampling = mapping(about.get("sampling_args"))
    training = "train" in path.name
    common: dict[str, Json] = {
        "session_id": where,
        "group_id": f"{short(path)}#{text(rollout.get('example_id'))}" if "example_id" in rollout else None,
        "task_id": text(rollout.get("example_id")),
        "purpose": None if training else "eval",
        "trainer_step": step_of(path) if training else None,
        "base_model": text(about.get("model")),
        "reward": number(rollout.get("reward"), "reward"),
        "temperature": number(sampling.get("temperature"), "temperature"),
        "max_tokens": whole(sampling.get("max_tokens"), "max_tokens"),
        "place": where,
        "api": "import:verifiers-v0",
    }
    steps = objects(rollout.get("trajectory"), "trajectory")
    turns: list[dict[str, Json]] = [_step(step) for step in steps] if steps else _replies(rollout)
    if not turns:
        turns = [{}]
    ends = _ends(rollout, len(turns), stated=all("finish_reason" in each for each in turns))
    turns[0] = turns[0] | {"started_at": when(mapping(rollout.get("timing")).get("start_time"))}
    for number_, (turn, end) in enumerate(zip(turns, ends, strict=True), start=1):
        row: dict[str, Json] = {**common, **end, **turn, "turn": number_}
        yield TurnRow(**row)


def _evaluated(rollout: JsonObject, about: JsonObject, path: Path, samples: Counter[str | None]) -> EvalRow | None:
    """The rollout as a sample of its task; None where it was made for training or has no reward."""
    score = number(rollout.get("reward"), "reward")
    if "train" in path.name or score is None:
        return None
    task = text(rollout.get("example_id"))
    samples[task] += 1
    suite = "/".join(name for name in (text(about.get("env_id")), short(path)) if name)
    return EvalRow(suite=suite, task_id=task, sample=samples[task] - 1, score=score)


def _step(step: JsonObject) -> dict[str, Json]:
    """A step of a trajectory, with its tokens where they were kept."""
    tokens = mapping(step.get("tokens"))
    completion = token_ids(tokens.get("completion_ids"), "completion_ids")
    advantage = number(step.get("advantage"), "advantage")
    replies = objects(step.get("completion"), "completion")
    turn: dict[str, Json] = {
        "prompt_ids": token_ids(tokens.get("prompt_ids"), "prompt_ids"),
        "completion_ids": completion,
        "sampled_logprobs": floats(tokens.get("completion_logprobs"), "completion_logprobs"),
        "loss_mask": flags(tokens.get("completion_mask"), "completion_mask"),
        "advantages": [advantage] * len(completion) if advantage is not None and completion is not None else None,
        "response": replies[0] if replies else None,
    }
    if completion is None and isinstance(step.get("prompt"), list):
        turn["request"] = {"messages": step["prompt"]}
    if isinstance(step.get("is_truncated"), bool):
        turn["finish_reason"] = "length" if step["is_truncated"] else "stop"
    return turn


def _replies(rollout: JsonObject) -> list[dict[str, Json]]:
    """Replies of a completion that is kept as messages, or as text; only the first prompt is there on its own."""
    prompt, completion = rollout.get("prompt"), rollout.get("completion")
    if isinstance(completion, str):
        asked = {"prompt_text": prompt} if isinstance(prompt, str) else {"request": {"messages": prompt}}
        return [{"completion_text": completion, **asked}]
    replies = [each for each in objects(completion, "completion") if each.get("role") == "assistant"]
    turns: list[dict[str, Json]] = [{"response": reply} for reply in replies]
    if turns and isinstance(prompt, list):
        turns[0]["request"] = {"messages": prompt}
    return turns


def _ends(rollout: JsonObject, turns: int, *, stated: bool) -> list[dict[str, Json]]:
    """How each turn ended, from what is said of the whole rollout: it is cut if its last reply was."""
    unsaid: dict[str, Json] = {}
    if stated:
        return [unsaid] * turns
    if rollout.get("error"):
        return [unsaid] * (turns - 1) + [{"finish_reason": "error"}]
    if rollout.get("is_truncated") is True:
        return [unsaid] * (turns - 1) + [{"finish_reason": "length"}]
    return [{"finish_reason": "stop"} if rollout.get("is_truncated") is False else unsaid] * turns


VERIFIERS_V0 = Format(
    name="verifiers-v0",
    about="verifiers v0 results.jsonl with metadata.json, and outputs in one document",
    recognise=recognise,
    read=read,
    units=units,
    advice={
        "turns.prompt_ids": "verifiers v0: -C trajectory keeps the steps with their tokens (state columns to save)",
        "turns.completion_ids": "verifiers v0: -C trajectory keeps the steps with their tokens (state columns to save)",
        "turns.sampled_logprobs": "verifiers v0: -C trajectory, and logprobs in the sampling arguments",
        "turns.trainer_logprobs": "verifiers v0 are evaluations; the trainer keeps its own log-probabilities",
        "scores.trainer_logprobs": "verifiers v0 are evaluations; the trainer keeps its own log-probabilities",
        "turns.weight_versions": "verifiers v0 records no weight version; v1 traces of prime-rl do",
    },
)
