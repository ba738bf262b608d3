"""Traffic with one thing wrong in how it was sampled, recorded or judged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from tests.drill.faulty_engine import Asked, Fault, Json, Said, sampled_triples
from tests.drill.plant import TEMPERATURE, Judge, ascii_share, collecting, disliked, speak


class UnscaledLogprobs(Fault):
    """Samples at the temperature asked for, and reports what the logits say without it."""

    async def said(self, order: Json, reply: list[Json], url: str) -> None:
        """Puts the engine's own scores at T = 1 in place."""
        triples, prompt = sampled_triples(reply), order["input_ids"]
        scoring = {
            "input_ids": [*prompt, *(token for _, token, _ in triples)],
            "sampling_params": {"max_new_tokens": 1, "temperature": 1.0},
            "return_logprob": True,
            "logprob_start_len": 0,
        }
        async with aiohttp.ClientSession() as client, client.post(f"{url}/generate", json=scoring) as answer:
            scored = (await answer.json())["meta_info"]["input_token_logprobs"]
        for triple, score in zip(triples, scored[len(prompt) :], strict=True):
            assert triple[1] == score[1]
            triple[0] = score[0]


def at_one(order: Json) -> None:
    """The engine ignores the temperature."""
    order["sampling_params"]["temperature"] = 1.0


def padded(order: Json, triples: list[list[Any]]) -> None:
    """The last half of every reply has zeros for log-probabilities."""
    for triple in triples[len(triples) // 2 :]:
        triple[0] = 0.0


UNLIKELY = -2.0
"""Nats: a token that was about as likely as said is nothing to find."""


class PaddedOnce(Fault):
    """One token of all, and no likely one, has a zero for its log-probability."""

    def __init__(self) -> None:
        self._done = False

    async def said(self, order: Json, reply: list[Json], url: str) -> None:
        """Pads the first reply that ends with such a token."""
        last = sampled_triples(reply)[-1]
        if not self._done and last[0] < UNLIKELY:
            self._done, last[0] = True, 0.0


class Capture(NamedTuple):
    """How a store's traffic came about."""

    sessions: int = 64
    judge: Judge = ascii_share
    fault: Callable[[], Fault] = Fault
    group: str | None = None


CAPTURES = {
    "healthy": Capture(),
    "temperature ignored": Capture(fault=lambda: Asked(at_one)),
    "unscaled log-probabilities": Capture(fault=UnscaledLogprobs),
    "zero-padded": Capture(fault=lambda: Said(padded)),
    "zero-padded once": Capture(fault=PaddedOnce),
    "inverted": Capture(judge=disliked),
    "one session": Capture(sessions=1),
    "all alike": Capture(sessions=8, judge=lambda _: 1.0, group="g"),
}
"""All are of the same prompts and seeds."""
assert TEMPERATURE != 1.0


def capture(kind: Capture, store: Path, *, model: Path, engine: str) -> None:
    """Lets the users speak and judge."""
    with collecting(store, model=model, engine=engine) as url:
        speak(url, kind.sessions, seed=1, judge=kind.judge, group=kind.group)
