"""rLLM's episode files: one JSON document for each episode, its trajectories as text."""

from collections.abc import Iterator
from pathlib import Path

from checks.readers.fields import Json, JsonObject, mapping, number, objects, text, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short
from checks.readers.format import Format, Unit
from checks.readers.json_document import document
from checks.readers.json_outline import outline
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, TurnRow

_ENDS = {"max_response_length_exceeded": "length", "error": "error"}
"""Termination reasons that say how the last reply ended."""


def recognise(head: FileHead) -> str | None:
    """By an episode's id, step and trajectories."""
    if {"episode_id", "training_step", "task_hash"} <= outline(head):
        return "an episode with episode_id, training_step and task_hash"
    return None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The steps of each trajectory as turns; an episode of validation is a sample of an evaluation too."""
    for path in unit:
        episode = mapping(document(path, unreadable))
        if not episode:
            continue
        try:
            yield from list(_rows(episode, path))
        except ValueError as error:
            unreadable.add(short(path), str(error))


def _rows(episode: JsonObject, path: Path) -> Iterator[Row]:
    step = whole(episode.get("training_step"), "training_step")
    validation = path.parent.name.startswith("val")
    episode_id = text(episode.get("episode_id")) or path.stem
    task = text(episode.get("task_hash")) or episode_id.rsplit(":", 1)[0]
    when_run = f"{path.parent.name}/" if path.parent.name else ""
    trajectories = objects(episode.get("trajectories"), "trajectories")
    common: dict[str, Json] = {
        "task_id": task,
        "trainer_step": None if validation else step,
        "purpose": "eval" if validation else "traffic",
        "place": short(path),
        "api": "import:rllm",
    }
    if validation:
        yield _sample(episode, task, step, trajectories)
    for index, trajectory in enumerate(trajectories):
        name = text(trajectory.get("name")) or str(index)
        several = f"/{name}.{index}" if len(trajectories) > 1 else ""
        yield from _turns(
            trajectory,
            episode,
            # Trajectories of one name within a step are what rLLM compares with each other.
            {**common, "session_id": f"{when_run}{episode_id}{several}", "group_id": f"{when_run}{task}/{name}"},
        )


def _sample(episode: JsonObject, task: str, step: int | None, trajectories: list[dict[str, Json]]) -> EvalRow:
    passed = episode.get("is_correct")
    alone = trajectories[0].get("reward") if len(trajectories) == 1 else None
    return EvalRow(
        step=step,
        suite="val",
        task_id=task,
        score=number(alone, "reward"),
        passed=passed if isinstance(passed, bool) else None,
    )


def _turns(trajectory: JsonObject, episode: JsonObject, common: dict[str, Json]) -> Iterator[TurnRow]:
    steps = objects(trajectory.get("steps"), "steps")
    reward = number(trajectory.get("reward"), "reward")
    end = _ENDS.get(text(episode.get("termination_reason")) or "")
    for turn, step in enumerate(steps, start=1):
        said = text(step.get("model_response"))
        messages = objects(step.get("chat_completions"), "chat_completions")
        reply = messages.pop() if messages and messages[-1].get("role") == "assistant" else None
        yield TurnRow(
            turn=turn,
            reward=reward,
            finish_reason=end if turn == len(steps) else None,
            request={"messages": messages} if messages else None,
            response=reply,
            completion_text=said or None,
            **common,
        )


_GATEWAY = "rLLM's episode files drop tokens; check the gateway's traces too (rllm-model-gateway with its SQLite store)"

RLLM = Format(
    name="rllm",
    about="rLLM episode files (log_episodes=true): text, rewards and outcomes",
    recognise=recognise,
    read=read,
    units=in_order,
    advice={
        **dict.fromkeys(
            ("turns.prompt_ids", "turns.completion_ids", "turns.sampled_logprobs", "turns.weight_versions"), _GATEWAY
        ),
        "turns.finish_reason": "rLLM's episode files say only how an episode ended; the gateway says it each time",
        "turns.trainer_logprobs": "rLLM writes no trainer's log-probabilities; its backend (verl, tinker) can",
        "scores.trainer_logprobs": "rLLM writes no trainer's log-probabilities; its backend (verl, tinker) can",
    },
)
