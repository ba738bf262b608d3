"""NeMo Gym: rollouts as Responses objects with a reward, and the token capture of each model call."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from checks.readers.fields import (
    Json,
    JsonObject,
    finish,
    floats,
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
from checks.readers.json_outline import is_cut, outline
from checks.readers.lines import json_objects
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow

_CAPTURE = frozenset({"rollout_id", "model_call_id", "prompt_token_ids"})
_CAPTURE_SCHEMA = 1
_MODEL_ITEMS = ("reasoning", "message", "function_call", "custom_tool_call", "web_search_call", "mcp_call")


def recognise(head: FileHead) -> str | None:
    """By the request and response of a rollout, by a captured model call, or by the request alone of a companion."""
    keys = outline(head)
    if keys >= _CAPTURE:
        return "lines with a rollout's model call and its prompt_token_ids"
    if "responses_create_params" in keys:
        rollout = "response" in keys or is_cut(head)
        return f"lines with responses_create_params {'and response' if rollout else '(and no response)'}"
    return None


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """Each file alone; inputs and failures without a response are left out where there are rollouts."""
    told = [head for head in heads if {"response"} <= outline(head) or outline(head) >= _CAPTURE or is_cut(head)]
    return [(path,) for path in sorted((head.path for head in told or heads), key=by_number)]


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The model calls of one file, rollout after rollout."""
    for path in unit:
        for line_number, line in json_objects(path, unreadable):
            place = f"{path.name}:{line_number}"
            try:
                if "model_call_id" in line:
                    yield _captured(line, place)
                elif "response" not in line:
                    unreadable.add(place, "responses_create_params without a response, expected a rollout")
                else:
                    yield from list(_turns(line, path, place))
            except ValueError as error:
                unreadable.add(place, str(error))


def _captured(line: JsonObject, place: str) -> TurnRow:
    """One captured model call."""
    schema = whole(line.get("schema_version"), "schema_version")
    if schema is not None and schema > _CAPTURE_SCHEMA:
        raise ValueError(f"schema_version {schema}, expected at most {_CAPTURE_SCHEMA}")
    experts = line.get("routed_experts")
    return TurnRow(
        session_id=text(line.get("rollout_id")) or place,
        turn_id=text(line.get("model_call_id")),
        base_model=text(line.get("model")),
        prompt_ids=token_ids(line.get("prompt_token_ids"), "prompt_token_ids"),
        completion_ids=token_ids(line.get("generation_token_ids"), "generation_token_ids"),
        sampled_logprobs=floats(line.get("generation_log_probs"), "generation_log_probs"),
        routed_experts_tokens=len(experts) if isinstance(experts, list) else None,  # pyright: ignore[reportUnknownArgumentType]
        finished_at=when(line.get("created_at")),
        place=place,
        api="import:nemo-gym",
    )


def _turns(line: JsonObject, path: Path, place: str) -> Iterator[TurnRow]:
    """A rollout: one turn per model call of its response."""
    asked = mapping(line.get("responses_create_params"))
    response = mapping(line.get("response"))
    task, rollout = text(line.get("_ng_task_index")), text(line.get("_ng_rollout_index"))
    folder = short(path)
    common: dict[str, Json] = {
        "session_id": f"{folder}:{place.rsplit(':', 1)[1]}"
        if rollout is None
        else f"{folder}/task{task}-roll{rollout}",
        "group_id": text(line.get("_ng_group_id")) or (None if task is None else f"{folder}/task{task}"),
        "task_id": task,
        "base_model": text(response.get("model")),
        "reward": number(line.get("reward"), "reward"),
        "temperature": number(response.get("temperature"), "temperature"),
        "top_p": number(response.get("top_p"), "top_p"),
        "max_tokens": whole(response.get("max_output_tokens"), "max_output_tokens"),
        "place": place,
        "api": "import:nemo-gym",
    }
    calls = list(_calls(objects(response.get("output"), "output")))
    last = _end(response) | (_usage(response) if len(calls) == 1 else {})
    for turn, call in enumerate(calls, start=1):
        row: dict[str, Json] = {**common, **_reply(call), **(last if turn == len(calls) else {}), "turn": turn}
        if turn == 1 and row["prompt_ids"] is None:
            row["request"] = _request(asked)
        yield TurnRow(**row)


def _calls(output: Sequence[JsonObject]) -> Iterator[list[JsonObject]]:
    """The items of each model call: up to the one with the token ids, or up to what is not the model's."""
    call: list[JsonObject] = []
    for item in output:
        if item.get("type", "message") in _MODEL_ITEMS and item.get("role", "assistant") == "assistant":
            call.append(item)
            if item.get("generation_token_ids") is None:
                continue
        if call:
            yield call
        call = []
    if call:
        yield call


def _reply(call: Sequence[JsonObject]) -> dict[str, Json]:
    *_, last = call
    return {
        "prompt_ids": token_ids(last.get("prompt_token_ids"), "prompt_token_ids"),
        "completion_ids": token_ids(last.get("generation_token_ids"), "generation_token_ids"),
        "sampled_logprobs": floats(last.get("generation_log_probs"), "generation_log_probs"),
        "response": _message(call),
    }


def _message(call: Sequence[JsonObject]) -> dict[str, Json]:
    """The items of a call as one chat message."""
    said = [part.get("text") for item in call for part in _parts(item, "content")]
    thought = [part.get("text") for item in call for part in _parts(item, "summary")]
    tools = [
        {"type": "function", "id": item.get("call_id"), "function": {n: item.get(n) for n in ("name", "arguments")}}
        for item in call
        if item.get("type") == "function_call"
    ]
    message: dict[str, Json] = {"role": "assistant", "content": "".join(each for each in said if isinstance(each, str))}
    if thought:
        message["reasoning_content"] = "".join(each for each in thought if isinstance(each, str))
    return message | ({"tool_calls": tools} if tools else {})


def _parts(item: JsonObject, name: str) -> list[dict[str, Json]]:
    value = item.get(name)
    return objects(value, name) if isinstance(value, list) else [{"text": value}] if isinstance(value, str) else []


def _request(asked: JsonObject) -> dict[str, Json]:
    """The first request as messages, where it is made of plain ones."""
    given = asked.get("input")
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given, "input")
    return {"messages": messages, **({"tools": asked["tools"]} if asked.get("tools") else {})}


def _end(response: JsonObject) -> dict[str, Json]:
    reason = mapping(response.get("incomplete_details")).get("reason")
    found = finish(reason) or finish(response.get("status"))
    return {} if found is None else {"finish_reason": found}


def _usage(response: JsonObject) -> dict[str, Json]:
    """The source's own count, which is of all calls together and so says something of one call alone."""
    usage = mapping(response.get("usage"))
    return {
        "stated_prompt_tokens": whole(usage.get("input_tokens"), "input_tokens"),
        "stated_completion_tokens": whole(usage.get("output_tokens"), "output_tokens"),
    }


NEMO_GYM = Format(
    name="nemo-gym",
    about="NeMo Gym rollouts (ng_collect_rollouts) and token capture (*.tokens.jsonl)",
    recognise=recognise,
    read=read,
    units=units,
    alone=(TurnRow,),
    advice={
        "turns.prompt_ids": "NeMo Gym: a model server that returns token ids (vllm_model), or token capture",
        "turns.completion_ids": "NeMo Gym: a model server that returns token ids (vllm_model), or token capture",
        "turns.sampled_logprobs": "NeMo Gym: a model server that returns token ids (vllm_model), or token capture",
        "turns.trainer_logprobs": "NeMo Gym collects rollouts; NeMo-RL's train_data_step<N>.jsonl has both sides",
        "scores.trainer_logprobs": "NeMo Gym collects rollouts; NeMo-RL's train_data_step<N>.jsonl has both sides",
        "turns.group_id": "NeMo Gym: collect with num_repeats in a version that writes _ng_task_index",
        "turns.weight_versions": "NeMo Gym writes no weight version into its rollouts",
        "turns.finish_reason": "NeMo Gym: a model server that fills status and incomplete_details of the response",
    },
)
