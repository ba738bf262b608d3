"""One model call as its API's request and response had it: chat completions, completions and Anthropic messages."""

import re
from collections.abc import Iterator
from typing import cast

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
    whole,
)

_TOKEN_NAME = re.compile(r"token_id:(\d{1,9})")
"""How vLLM names tokens with return_tokens_as_token_ids."""
_SAMPLING = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")


def request_fields(request: JsonObject) -> dict[str, Json]:
    """What a request says of its turn: messages and tools, model, sampling."""
    asked = {name: request[name] for name in ("messages", "tools", "chat_template_kwargs") if request.get(name)}
    limit = request.get("max_completion_tokens")
    prompt = request.get("prompt")
    return {
        "request": asked or None,
        "prompt_text": prompt if isinstance(prompt, str) else None,
        "base_model": text(request.get("model")),
        "top_k": whole(request.get("top_k"), "top_k"),
        "max_tokens": whole(request.get("max_tokens") if limit is None else limit, "max_tokens"),
        "constraint": text(mapping(request.get("response_format")).get("type")),
        **{name: number(request.get(name), name) for name in _SAMPLING},
    }


def reply_fields(response: JsonObject) -> Iterator[dict[str, Json]]:
    """What a response says of its turn, once for each choice."""
    choices = objects(response.get("choices"), "choices")
    usage = usage_fields(mapping(response.get("usage")))
    if len(choices) > 1:
        # The source counts the tokens of all choices together.
        usage["stated_completion_tokens"] = None
    for choice in choices:
        yield choice_fields(choice, response) | usage


def choice_fields(choice: JsonObject, response: JsonObject) -> dict[str, Json]:
    """The reply of one choice: its message, ids and log-probabilities where the engine gave them."""
    message = choice.get("message")
    held = objects(mapping(choice.get("logprobs")).get("content"), "logprobs.content")
    ids = token_ids(_first(choice, "token_ids") or _token_names(held), "token_ids")
    prompt = _first(choice, "prompt_token_ids") or response.get("prompt_token_ids")
    # A prompt is never empty: an empty list is how the ids of a server that gives none are stored.
    return {
        "prompt_ids": token_ids(prompt, "prompt_token_ids") or None,
        "completion_ids": ids or None,
        "sampled_logprobs": _logprobs(choice, held),
        "finish_reason": finish(choice.get("finish_reason")),
        "response": cast(dict[str, Json], message) if isinstance(message, dict) else None,
        "completion_text": text(choice.get("text")),
    }


def usage_fields(usage: JsonObject) -> dict[str, Json]:
    """What the source counted, by the names of chat completions, of responses or of Anthropic messages."""
    details = mapping(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    cached = whole(details.get("cached_tokens"), "cached_tokens")
    prompt = whole(usage.get("prompt_tokens"), "prompt_tokens")
    if prompt is None:
        prompt = whole(usage.get("input_tokens"), "input_tokens")
    read = whole(usage.get("cache_read_input_tokens"), "cache_read_input_tokens")
    written = whole(usage.get("cache_creation_input_tokens"), "cache_creation_input_tokens")
    if prompt is not None and (read is not None or written is not None):
        # Anthropic's input_tokens are only those that were neither read from the cache nor written to it.
        prompt += (read or 0) + (written or 0)
    completion = usage.get("completion_tokens")
    return {
        "stated_prompt_tokens": prompt,
        "stated_completion_tokens": whole(
            usage.get("output_tokens") if completion is None else completion, "completion_tokens"
        ),
        "cached_tokens": read if cached is None else cached,
    }


def _first(choice: JsonObject, name: str) -> Json:
    """A list of ids from where vLLM puts it, or from where its client does."""
    return choice.get(name) or mapping(choice.get("provider_specific_fields")).get(name)


def _token_names(held: list[dict[str, Json]]) -> list[int] | None:
    named = [_TOKEN_NAME.fullmatch(each["token"]) if isinstance(each.get("token"), str) else None for each in held]
    found = [int(each[1]) for each in named if each is not None]
    return found if found and len(found) == len(named) else None


def _logprobs(choice: JsonObject, held: list[dict[str, Json]]) -> list[float] | None:
    """Sampled log-probabilities from whichever of its places has them."""
    for name in ("compact_logprobs", "art_completion_logprobs"):
        if choice.get(name) is not None:
            return floats(choice[name], name)
    if held:
        return floats([each.get("logprob") for each in held], "logprobs.content")
    listing = mapping(choice.get("logprobs")).get("token_logprobs")
    return floats(listing, "token_logprobs") if listed(listing) else None
