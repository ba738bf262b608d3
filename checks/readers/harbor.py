"""Harbor: agent trajectories (ATIF) and the results of trials with their rewards."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from checks.readers.fields import (
    Json,
    JsonObject,
    finish,
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
from checks.readers.file_order import by_number, short
from checks.readers.format import Format, Unit
from checks.readers.json_document import document
from checks.readers.json_outline import is_cut, outline
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow

_TRIAL = frozenset({"trial_name", "task_name"})
_DETAIL = {
    "prompt_ids": "prompt_token_ids",
    "completion_ids": "completion_token_ids",
    "sampled_logprobs": "logprobs",
}


def recognise(head: FileHead) -> str | None:
    """By ATIF's schema version and steps, or by a trial's name and task."""
    keys = outline(head)
    if b'"ATIF-v' in head.start and (keys & {"steps", "[].steps"} or is_cut(head)):
        return "schema_version ATIF and steps"
    if keys >= _TRIAL and keys & {"agent_result", "verifier_result", "trial_uri"}:
        return "a trial's result: trial_name, task_name and what agent and verifier said"
    return None


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """A trial's result with the trajectories in its folder; trajectories without a result alone."""
    results = {head.path.parent: head.path for head in heads if outline(head) >= _TRIAL}
    made: dict[Path, list[Path]] = {result: [result] for result in sorted(results.values(), key=by_number)}
    for path in sorted((head.path for head in heads if not outline(head) >= _TRIAL), key=by_number):
        above = next((results[folder] for folder in path.parents if folder in results), path)
        made.setdefault(above, []).append(path)
    return [tuple(paths) for paths in made.values()]


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The turns of a trial: from the result where it has their tokens, else from its trajectories."""
    trial: dict[str, Json] = {}
    exact = False
    for path in unit:
        value = document(path, unreadable)
        for each in listed(value) or [value]:
            found = mapping(each)
            try:
                if found.keys() >= _TRIAL:
                    trial = _trial(found)
                    details = objects(mapping(found.get("agent_result")).get("rollout_details"), "rollout_details")
                    exact = any(detail.get("completion_token_ids") for detail in details)
                    yield from list(_details(details, found, trial, path.name)) if exact else []
                    if len(unit) == 1 and not exact:
                        yield _reward_only(found, trial, path.name)
                elif found and not exact:
                    yield from list(_trajectory(found, "", trial, path))
            except ValueError as error:
                unreadable.add(short(path), str(error))


def _trial(result: JsonObject) -> dict[str, Json]:
    """What a trial says of all its turns."""
    agent = mapping(result.get("agent_info"))
    reward = _reward(mapping(result.get("verifier_result")).get("rewards"))
    names = [text(result.get("task_name")), text(agent.get("name")), text(mapping(agent.get("model_info")).get("name"))]
    return {
        "task_id": text(result.get("task_name")),
        "group_id": "/".join(name for name in names if name) if reward is not None else None,
        "base_model": names[2],
        "reward": reward,
    }


def _reward(rewards: Json) -> float | None:
    """The one called `reward`, or the only one; several others are not added up here."""
    given = mapping(rewards)
    name = "reward" if "reward" in given else next(iter(given), "") if len(given) == 1 else ""
    return number(given.get(name), f"rewards.{name}")


def _reward_only(result: JsonObject, trial: JsonObject, place: str) -> TurnRow:
    """A trial of which nothing but its outcome was kept."""
    return TurnRow(
        session_id=str(result["trial_name"]),
        finish_reason="error" if result.get("exception_info") else None,
        started_at=when(result.get("started_at")),
        finished_at=when(result.get("finished_at")),
        place=place,
        api="import:harbor",
        **trial,
    )


def _details(details: Sequence[JsonObject], result: JsonObject, trial: JsonObject, place: str) -> Iterator[TurnRow]:
    """Exact tokens: each detail is one linear chat, each of its lists has one list per model call."""
    for chat, detail in enumerate(details):
        columns = {ours: listed(detail.get(theirs)) for ours, theirs in _DETAIL.items()}
        name = str(result["trial_name"]) + (f"/chat{chat}" if len(details) > 1 else "")
        for call in range(len(columns["completion_ids"])):
            held = {ours: values[call] if call < len(values) else None for ours, values in columns.items()}
            yield TurnRow(
                session_id=name,
                turn=call + 1,
                prompt_ids=token_ids(held["prompt_ids"], "prompt_token_ids"),
                completion_ids=token_ids(held["completion_ids"], "completion_token_ids"),
                sampled_logprobs=floats(held["sampled_logprobs"], "logprobs"),
                place=place,
                api="import:harbor",
                **trial,
            )


def _trajectory(found: JsonObject, above: str, trial: JsonObject, path: Path) -> Iterator[TurnRow]:
    """A trajectory and those of its sub-agents, each a session: one turn per step of the agent."""
    names = [text(found.get("session_id")), text(found.get("trajectory_id"))]
    own = "/".join(name for name in (above, *names) if name)
    session = own if names[1] else f"{own}/{path.stem}" if own else short(path)
    agent = mapping(found.get("agent"))
    common = {**trial, "base_model": trial.get("base_model") or text(agent.get("model_name"))}
    if above:
        common |= {"reward": None, "group_id": None}
    turn = 0
    for step in objects(found.get("steps"), "steps"):
        # A copied step is another session's, and one with no model call was decided by rule.
        if step.get("source") == "agent" and not step.get("is_copied_context") and step.get("llm_call_count") != 0:
            turn += 1
            row: dict[str, Json] = {**common, **_step(step), "session_id": session, "turn": turn, "place": short(path)}
            yield TurnRow(**row)
    for index, sub in enumerate(objects(found.get("subagent_trajectories"), "subagent_trajectories")):
        named = sub if sub.get("trajectory_id") else {**sub, "trajectory_id": f"subagent{index}"}
        yield from _trajectory(named, session, trial, path)


def _step(step: JsonObject) -> dict[str, Json]:
    """A step of the agent: its reply, its own counts, and its tokens where they were kept."""
    metrics = mapping(step.get("metrics"))
    reply: dict[str, Json] = {"role": "assistant", "content": step.get("message")}
    for name in ("reasoning_content", "tool_calls"):
        if step.get(name):
            reply[name] = step[name]
    return {
        "api": "import:harbor",
        "finished_at": when(step.get("timestamp")),
        "response": reply,
        "prompt_ids": token_ids(metrics.get("prompt_token_ids"), "prompt_token_ids"),
        "completion_ids": token_ids(metrics.get("completion_token_ids"), "completion_token_ids"),
        "sampled_logprobs": floats(metrics.get("logprobs"), "logprobs"),
        "stated_prompt_tokens": whole(metrics.get("prompt_tokens"), "prompt_tokens"),
        "stated_completion_tokens": whole(metrics.get("completion_tokens"), "completion_tokens"),
        "cached_tokens": whole(metrics.get("cached_tokens"), "cached_tokens"),
        "finish_reason": finish(mapping(metrics.get("extra")).get("finish_reason")),
    }


HARBOR = Format(
    name="harbor",
    about="Harbor trials: ATIF trajectories and result.json with rollout details and rewards",
    recognise=recognise,
    read=read,
    units=units,
    advice={
        "turns.prompt_ids": "Harbor: collect_rollout_details=true (terminus-2, computer-1) records every call's tokens",
        "turns.completion_ids": "Harbor: collect_rollout_details=true (terminus-2, computer-1)",
        "turns.sampled_logprobs": "Harbor: collect_rollout_details=true (terminus-2, computer-1)",
        "turns.reward": "Harbor: check the trial's folder, whose result.json has the verifier's rewards",
        "turns.group_id": "Harbor: check the job's folder, whose result.json files name their task",
        "turns.finish_reason": "Harbor's trajectories have no stop reason",
        "turns.weight_versions": "Harbor records the model's name, not the version of its weights",
    },
)
