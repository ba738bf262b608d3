"""Samples of slime and Miles as turns: one for each run of tokens that the policy sampled."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np

from checks.readers.merged_row import turns_of
from checks.readers.pickle_values import RefusedPickle, as_json, floats, ids, items, number, table, whole
from checks.readers.slime_samples import Entry, Trained, same_tokens, scores_of
from checks.readers.unreadable import UnreadableParts
from checks.rows import TurnRow, VersionSpan

FINISH = {"completed": "stop", "truncated": "length", "aborted": "abort", "failed": "error"}
"""Status of a sample to how its last turn ended."""
_DIGITS = 18
_REWARD_NAMES = ("reward", "score", "acc", "raw_reward")


class Step(NamedTuple):
    """What is the same for all samples of a rollout."""

    name: str
    rollout_id: int
    """-1 where it is not known."""
    trainer_version: int | None


def sample_turns(
    sample: Entry, trained: Trained | None, step: Step, place: str, position: int, unreadable: UnreadableParts
) -> Iterator[TurnRow]:
    """The turns of a sample, with training's scores where it is of the same tokens; RefusedPickle where it has none."""
    tokens, length = ids(sample.get("tokens")), whole(sample.get("response_length"))
    if tokens is None or length is None or not 0 <= length <= len(tokens):
        held = "no token ids" if tokens is None else f"{len(tokens)} tokens"
        raise RefusedPickle(f"a response of {length} tokens in {held}")
    start = len(tokens) - length
    scores: dict[str, list[float]] = {}
    if trained is not None and same_tokens(trained, tokens):
        scores, refused = scores_of(trained, tokens[start:])
        if refused is not None:
            unreadable.add(f"{place} in training", refused)
    elif trained is not None:
        unreadable.add(f"{place} in training", "other tokens than the sample of that place in the rollout")
    index = whole(sample.get("index"))
    session = whole(sample.get("rollout_id"))
    session = session if session is not None else index if index is not None else position
    group = whole(sample.get("group_index"))
    mask = None if sample.get("loss_mask") is None else floats(sample.get("loss_mask"))
    logprobs = None if sample.get("rollout_log_probs") is None else floats(sample.get("rollout_log_probs"))
    fields: dict[str, Any] = {
        "session_id": f"{step.name}/{session}",
        "group_id": None if group is None else f"{step.name}/{group}",
        "reward": reward(sample.get("reward")),
        "place": place,
        "trainer_step": step.rollout_id if step.rollout_id >= 0 else None,
        "trainer_version": step.trainer_version,
    }
    if sample.get("remove_sample") is True or (mask and not any(mask)):
        reason = "remove_sample" if sample.get("remove_sample") is True else "the loss mask is 0 everywhere"
        fields |= {"trainable": False, "untrainable_reason": reason}
    turns = _split(tokens, start, mask, logprobs, scores, fields)
    yield from _told(turns, sample)


def _split(
    tokens: list[int],
    start: int,
    mask: list[float] | None,
    logprobs: list[float] | None,
    scores: dict[str, list[float]],
    fields: dict[str, Any],
) -> list[TurnRow]:
    """A turn per sampled run; one turn, uncut, where the lengths disagree."""
    length = len(tokens) - start
    flags = None if mask is None else [int(value != 0) for value in mask]
    if any(values is not None and len(values) != length for values in (flags, logprobs)):
        return [
            TurnRow(
                turn=1,
                prompt_ids=tokens[:start],
                completion_ids=tokens[start:],
                sampled_logprobs=logprobs,
                loss_mask=flags,
                **scores,
                **fields,
            )
        ]
    # A mask that is 0 everywhere says nothing of what was sampled.
    told = flags is not None and any(flags)
    sampled = np.array(flags, dtype=bool) if told else np.ones(length, dtype=bool)
    if told and logprobs is not None:
        # Observations stand between the turns with mask 0 and a placeholder of exactly 0.0.
        sampled |= np.array(logprobs) != 0.0
    per_token = {"sampled_logprobs": logprobs, "loss_mask": flags} | scores
    lead = [0] * start
    padded = {name: None if values is None else [*lead, *values] for name, values in per_token.items()}
    return list(turns_of(tokens, [*lead, *sampled.tolist()], per_token=padded, **fields))


def _told(turns: list[TurnRow], sample: Entry) -> Iterator[TurnRow]:
    """The turns with what the sample says of the first, of the last, or of each."""
    engine = versions(sample)
    status = sample.get("status")
    cache = table(sample.get("prefix_cache_info"))
    for position, turn in enumerate(turns):
        told: dict[str, Any] = {}
        version = _version_of(engine, position, len(turns))
        if version is not None and turn.completion_ids:
            told["weight_versions"] = [VersionSpan(version, 0, len(turn.completion_ids))]
            told["adapter_version"] = version
        if position == 0:
            told |= _prompt(sample.get("prompt"))
        if position == len(turns) - 1:
            told["finish_reason"] = FINISH.get(str(status))
        if len(turns) == 1:
            told["cached_tokens"] = whole(cache.get("cached_tokens"))
        yield msgspec.structs.replace(turn, **told)


def _version_of(versions: list[int | None], position: int, turns: int) -> int | None:
    """One version is recorded for each call: with as many calls as turns, or one version only, it is known."""
    if len(versions) == turns:
        return versions[position]
    return versions[0] if versions and len(set(versions)) == 1 else None


def versions(sample: Entry) -> list[int | None]:
    """The weights of each call, where they are named by a number."""
    found = items(sample.get("weight_versions")) or []
    return [_numbered(str(version)) for version in found]


def _numbered(version: str) -> int | None:
    return int(version) if version.isdecimal() and len(version) <= _DIGITS else None


def _prompt(prompt: object) -> dict[str, Any]:
    if isinstance(prompt, str):
        return {"prompt_text": prompt}
    messages = as_json(cast(list[object], prompt)) if isinstance(prompt, list) else None
    return {"request": {"messages": messages}} if messages else {}


def reward(value: object) -> float | None:
    """A number, or of a dict the part that is named as one."""
    if parts := table(value):
        named = [parts[name] for name in _REWARD_NAMES if name in parts] or (
            list(parts.values()) if len(parts) == 1 else []
        )
        value = named[0] if named else None
    return number(value)
