"""verifiers v1: an episode per line, its traces as graphs of messages that hold only the tokens they add."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from checks.readers.fields import Json, JsonObject, mapping, number, objects, text, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import by_number, short, step_of
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline, tells
from checks.readers.lines import json_objects
from checks.readers.unreadable import UnreadableParts
from checks.readers.verifiers_graph import turns_of_trace
from checks.rows import EvalRow, EventRow, Row, TurnRow


class Episode(NamedTuple):
    """What an episode says of all its traces."""

    group: str | None
    suite: str | None
    task: str | None
    purpose: str | None
    step: int | None
    policy: int | None
    """The oldest version that sampled: from which token on a later one did is not recorded, and prime-rl counts so."""
    traces: int


def recognise(head: FileHead) -> str | None:
    """By an episode's task and traces, or by one trace's nodes and calls."""
    keys = outline(head)
    if "task.type" in keys and tells(head, ("env", "traces"), early=("env",)):
        return "lines with an episode's env, task and traces"
    if "nodes.[].message" in keys and tells(head, ("calls", "rewards"), early=("agent", "task")):
        return "lines with a trace's nodes, calls and rewards"
    return None


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """Each file alone; what `effective/` holds is in `all/` beside it too and read there."""
    paths = {head.path for head in heads}
    doubled = {
        path for path in paths if path.parent.name == "effective" and path.parent.with_name("all") / path.name in paths
    }
    return [(path,) for path in sorted(paths - doubled, key=by_number)]


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The rows of one file, in its order."""
    samples: dict[str | None, int] = {}
    for path in unit:
        for line_number, line in json_objects(path, unreadable):
            place = f"{short(path)}:{line_number}"
            try:
                traces = objects(line.get("traces"), "traces") if "traces" in line else [line]
                episode = _episode(line, path, len(traces))
            except ValueError as error:
                unreadable.add(place, str(error))
                continue
            for index, trace in enumerate(traces):
                try:
                    session = text(trace.get("id")) or f"{place}/{index}"
                    fields = _fields(trace, episode, place)
                    yield from turns_of_trace(trace, session_id=session, policy=episode.policy, fields=fields)
                    if episode.purpose == "eval" and _is_trained(trace):
                        yield _evaluated(trace, episode, samples)
                except ValueError as error:
                    unreadable.add(f"{place} trace {index}", str(error))


def _episode(line: JsonObject, path: Path, traces: int) -> Episode:
    run = mapping(line.get("run"))
    work = mapping(run.get("work"))
    task = mapping(line.get("task"))
    env = mapping(line.get("env"))
    group = line.get("group")
    # A folder step_N holds what step N trained on; work.step is when the episode was sent out.
    shipped = step_of(path.parent)
    return Episode(
        group=text(mapping(group).get("id")) if isinstance(group, dict) else text(group),
        suite=text(env.get("name")) or text(env.get("id")),
        task=text(task.get("key")) or text(task.get("hash")),
        purpose="eval" if "eval" in (run.get("type"), work.get("type")) else None,
        step=shipped if shipped is not None else whole(work.get("step"), "run.work.step"),
        policy=whole(mapping(work.get("policy")).get("start"), "run.work.policy.start"),
        traces=traces,
    )


def _fields(trace: JsonObject, episode: Episode, place: str) -> dict[str, Json]:
    """What every turn of a trace has."""
    trained = _is_trained(trace)
    group = episode.group if trained else None
    if group is not None and episode.traces > 1:
        group = f"{group}/{text(mapping(trace.get('agent')).get('name'))}"
    fields: dict[str, Json] = {
        "group_id": group,
        "task_id": episode.task,
        "purpose": episode.purpose,
        "reward": _reward(trace),
        "place": place,
        "api": "import:verifiers",
    }
    if not trained:
        fields |= {"trainable": False, "untrainable_reason": "the source says that this agent is not trained"}
    if episode.purpose is None and episode.step is not None:
        # Steps count from 1: step n updates the weights that n - 1 steps have made.
        fields |= {"trainer_step": episode.step, "trainer_version": episode.step - 1}
    return fields


def _is_trained(trace: JsonObject) -> bool:
    return mapping(trace.get("agent")).get("trainable") is not False


def _reward(trace: JsonObject) -> float | None:
    """The weighted sum, as verifiers itself has it; None when nothing was scored."""
    parts = [each for each in mapping(trace.get("rewards")).values() if each is not None]
    if not parts:
        return None
    total = 0.0
    for each in parts:
        part = mapping(each) if isinstance(each, dict) else {"score": each}
        weight = number(part.get("weight"), "weight")
        score = number(part.get("score"), "score")
        if score is None:
            return None
        total += score * (1.0 if weight is None else weight)
    return total


def _evaluated(trace: JsonObject, episode: Episode, samples: dict[str | None, int]) -> EvalRow:
    sample = samples.get(episode.task, 0)
    samples[episode.task] = sample + 1
    return EvalRow(
        step=episode.step,
        version=episode.policy,
        suite=episode.suite,
        task_id=episode.task,
        sample=sample,
        score=_reward(trace),
    )


VERIFIERS = Format(
    name="verifiers",
    about="verifiers v1 and prime-rl traces.jsonl: an episode with its traces on each line",
    recognise=recognise,
    read=read,
    units=units,
    alone=(TurnRow, EventRow),
    advice={
        "turns.prompt_ids": "verifiers: the train client records token ids; the eval client does not",
        "turns.completion_ids": "verifiers: the train client records token ids; the eval client does not",
        "turns.sampled_logprobs": "verifiers: the train client records log-probabilities; the eval client does not",
        "scores.trainer_logprobs": "prime-rl: trainer.enable_token_export = true, and check token_exports/",
        "turns.trainer_logprobs": "prime-rl: trainer.enable_token_export = true, and check token_exports/",
        "turns.weight_versions": "prime-rl stamps run.work.policy on train episodes; a standalone eval has none",
        "turns.group_id": "verifiers: the consumer sets episode.group; prime-rl does",
        "steps.grad_norm": "prime-rl: metrics.jsonl of the output folder",
        "steps.mfu": "prime-rl: metrics.jsonl of the output folder (perf/mfu)",
        "steps.wait_s": "prime-rl: metrics.jsonl of the output folder (time/wait_for_batch)",
        "spans.role": "prime-rl: metrics.jsonl of the output folder (time/wait_for_batch)",
    },
)
