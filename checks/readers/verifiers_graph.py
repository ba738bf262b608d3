"""A trace of verifiers v1 as turns: each message once, with the tokens it adds and a link to the one before."""

from collections.abc import Iterator, Mapping, Sequence

from checks.readers.fields import (
    Json,
    JsonObject,
    finish,
    flags,
    floats,
    mapping,
    number,
    objects,
    text,
    token_ids,
    when,
    whole,
)
from checks.readers.merged_row import sampled_runs
from checks.rows import EventRow, TurnRow, VersionSpan

_COMPACT = {
    "sampled_logprobs": "logprobs",
    "trainer_logprobs": "trainer_logprobs",
    "entropies": "entropies",
    "reference_logprobs": "reference_logprobs",
    "advantages": "advantages",
}
"""Field of a turn to the node's list, which has a value for each sampled token and none for the others."""
_DECLARED = {"compaction": "compaction", "subagent_call": "subagent"}
"""Link that a harness declares to the kind of event that it is."""


def turns_of_trace(
    trace: JsonObject, *, session_id: str, policy: int | None, fields: Mapping[str, Json]
) -> Iterator[TurnRow | EventRow]:
    """One turn for each sampled node, its prompt the tokens on the path from the root, in the order of the nodes.

    `policy` is the version of the weights, `fields` what else all turns of the trace have.
    """
    nodes = objects(trace.get("nodes"), "nodes")
    ids = [token_ids(node.get("token_ids"), "token_ids") or [] for node in nodes]
    calls = {whole(call.get("node"), "calls.node"): call for call in objects(trace.get("calls"), "calls")}
    turn = 0
    for index, node in enumerate(nodes):
        path = _path(nodes, index)
        runs = list(_runs(node, ids[index], [ids[each] for each in path[:-1]]))
        if not runs and node.get("sampled") is True and not ids[index]:
            runs = [_text_only([nodes[each] for each in path], trace)]
        for run in runs:
            turn += 1
            row: dict[str, Json] = {**fields, **_said_of_call(mapping(calls.get(index)), counted=len(runs) == 1), **run}
            if policy is not None and "completion_ids" in run:
                row["weight_versions"] = [VersionSpan(policy, 0, len(run["completion_ids"]))]
            yield TurnRow(session_id=session_id, turn=turn, **row)
        for link in objects(node.get("semantic_parents"), "semantic_parents") if runs else []:
            if (kind := _DECLARED.get(str(link.get("type")))) is not None:
                yield EventRow(kind=kind, session_id=session_id, turn=turn, at=when(node.get("timestamp")))


def _path(nodes: Sequence[JsonObject], index: int) -> list[int]:
    """The nodes from the root to one, which every parent comes before."""
    path: list[int] = []
    current: int | None = index
    while current is not None:
        path.append(current)
        parent = whole(nodes[current].get("parent"), "parent")
        if parent is not None and not 0 <= parent < current:
            raise ValueError(f"node {current} has parent {parent}, expected one before it")
        current = parent
    return path[::-1]


def _runs(node: JsonObject, ids: list[int], before: Sequence[list[int]]) -> Iterator[dict[str, Json]]:
    """Each sampled run of a node's tokens; more than one only where something was put into the reply."""
    mask = flags(node.get("mask"), "mask") or [0] * len(ids)
    if len(mask) != len(ids):
        raise ValueError(f"{len(mask)} mask flags for {len(ids)} tokens of a node, expected as many")
    if not any(mask):
        return
    prompt = [each for earlier in before for each in earlier]
    sampled = sum(mask)
    compact = {ours: floats(node.get(theirs), theirs) for ours, theirs in _COMPACT.items()}
    held = {name: values for name, values in compact.items() if values}
    runs = sampled_runs(mask)
    if len(runs) > 1 and (odd := next((name for name, each in held.items() if len(each) != sampled), None)):
        raise ValueError(f"{len(held[odd])} {odd} for {sampled} sampled tokens in {len(runs)} runs, expected as many")
    done = 0
    for start, end in runs:
        # One run takes its lists whole, so that a wrong length is still there for the checks to find.
        last = done + end - start if len(runs) > 1 else None
        yield {
            "prompt_ids": prompt + ids[:start],
            "completion_ids": ids[start:end],
            **{name: values[done:last] for name, values in held.items()},
        }
        done += end - start


def _text_only(path: Sequence[JsonObject], trace: JsonObject) -> dict[str, Json]:
    """A reply without token ids, with the messages that it answers."""
    *before, node = path
    tools = objects((before[0] if before else node).get("tools"), "tools") or objects(trace.get("tools"), "tools")
    return {
        "request": {"messages": [each.get("message") for each in before], **({"tools": tools} if tools else {})},
        "response": mapping(node.get("message")),
    }


def _said_of_call(call: JsonObject, *, counted: bool) -> dict[str, Json]:
    """What the record of the model call adds; verifiers counts cached prompt tokens apart from the others."""
    if not call:
        return {}
    usage = mapping(call.get("usage"))
    time = mapping(call.get("time"))
    sampling = mapping(call.get("sampling"))
    prompt = whole(usage.get("prompt_tokens"), "prompt_tokens")
    cached = whole(usage.get("cached_input_tokens"), "cached_input_tokens")
    return {
        "base_model": text(call.get("model")),
        "finish_reason": "error" if call.get("error") else finish(call.get("finish_reason")),
        "started_at": when(time.get("start")),
        "finished_at": when(time.get("end")),
        "cached_tokens": cached,
        "stated_prompt_tokens": None if prompt is None or not counted else prompt + (cached or 0),
        "stated_completion_tokens": whole(usage.get("completion_tokens"), "completion_tokens") if counted else None,
        "temperature": number(sampling.get("temperature"), "temperature"),
        "top_p": number(sampling.get("top_p"), "top_p"),
        "max_tokens": whole(sampling.get("max_tokens"), "max_tokens"),
    }
