"""The requests of a proof to one worker, and the judgement of its answers."""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple

import numpy as np

from collector.engine.client import EngineClient
from collector.engine.process_identity import process_of
from collector.engine.wire import Delta, GenerateRequest, SamplingParams
from trainer.publish.judgement import Floats, Hypothesis, judge, noise_of
from trainer.publish.probe import Given, Passage, Predictions, Probe
from trainer.publish.proof import WorkerProof
from trainer.publish.workers import Answer, all_of
from trainer.publish_config import PublishConfig


class Continued(NamedTuple):
    """What was sampled after the beginning of a passage."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    cached_tokens: int


class Observed(NamedTuple):
    """What one worker said of the passages, in their order."""

    scores: list[Floats]
    continued: list[Continued]
    process: str | None
    """Which start of the engine said it; None where the engine does not let it be told."""


def probe_rid() -> str:
    """A name for a request of a proof: as long as every rid of the collector, since SGLang aborts by prefix."""
    return "probe000-" + str(uuid.uuid4())[9:]


async def scores(client: EngineClient, probe: Probe, name: str | None) -> list[Floats]:
    """The engine's log-probabilities of every passage, computed anew: an engine caches nothing of what it scores from
    the start on, but remembers it for what comes later."""
    found = await all_of(client.score(list(passage.ids), rid=probe_rid(), lora_path=name) for passage in probe.passages)
    return [np.array(each.logprobs) for each in found]


async def observe(client: EngineClient, probe: Probe, name: str, config: PublishConfig) -> Observed:
    """Scores the passages, then samples on their prefixes, which are cached by then."""
    # First: a process that is gone since cannot be taken for the one that is asked.
    process = await process_of(client)
    scored = await scores(client, probe, name)
    continued = await _continue_all(client, probe, name, config)
    if config.needs_cache and min(each.cached_tokens for each in continued) == 0:
        continued = await _continue_all(client, probe, name, config)
    return Observed(scored, continued, process)


def worker_proof(
    probe: Probe,
    control: Answer[list[Floats]] | None,
    answer: Answer[Observed],
    config: PublishConfig,
    known: Hypothesis,
) -> WorkerProof:
    """Judges what a worker said. `control` is what it said under a name known to be served, that of version `known`."""
    spread = None
    if control is not None and control.value is not None:
        spread = _spread(probe, control.value, known)
    if answer.value is None:
        return WorkerProof(answer.worker, None, None, None, spread, answer.fault, None)
    noise = noise_of(config.engine_dtype or "float32", spread)
    observed, predicted = _compared(probe.passages, answer.value.scores)
    scored = judge(observed, predicted, noise)
    decoded = judge(*_resampled(probe, answer.value.continued, config.decode_temperature), noise)
    cached = min(each.cached_tokens for each in answer.value.continued)
    obstacle = None
    if cached == 0 and config.needs_cache:
        obstacle = (
            "no cached prefix was used, so a stale one would not have been seen; expected cached_tokens above 0 "
            "(engines without a prefix cache: [trainer.publish] needs_cache = false)"
        )
    return WorkerProof(answer.worker, scored, decoded, cached, spread, obstacle, answer.value.process)


async def _continue_all(client: EngineClient, probe: Probe, name: str, config: PublishConfig) -> list[Continued]:
    return await all_of(_continue(client, passage, name, config) for passage in probe.passages)


async def _continue(client: EngineClient, passage: Passage, name: str, config: PublishConfig) -> Continued:
    sampling = SamplingParams(
        max_new_tokens=config.decode_tokens, temperature=config.decode_temperature, ignore_eos=True
    )
    request = GenerateRequest(
        input_ids=list(passage.ids[: passage.cut]),
        sampling_params=sampling,
        rid=probe_rid(),
        lora_path=name,
        stream=False,
    )
    deltas: list[Delta] = []
    async with aclosing(client.generate(request)) as reply:
        async for delta in reply:
            deltas.append(delta)
    ids = tuple(token for delta in deltas for token in delta.token_ids)
    logprobs = tuple(number for delta in deltas for number in delta.logprobs)
    return Continued(ids, logprobs, max((delta.cached_tokens or 0 for delta in deltas), default=0))


def _spread(probe: Probe, found: Sequence[Floats], known: Hypothesis) -> float:
    """Root mean square over all tokens of the passages or over the compared ones, whichever is larger."""
    whole = np.concatenate(
        [numbers - passage.predicted[known] for passage, numbers in zip(probe.passages, found, strict=True)]
    )
    observed, predicted = _compared(probe.passages, found)
    compared = observed - predicted[known]
    return max(float(np.sqrt((part**2).mean())) for part in (whole, compared) if len(part))


def _compared(passages: Sequence[Passage], found: Sequence[Floats]) -> tuple[Floats, Predictions]:
    """The chosen tokens: what the engine said and what each version would say."""
    places = [list(passage.chosen) for passage in passages]
    observed = np.concatenate([numbers[chosen] for numbers, chosen in zip(found, places, strict=True)])
    predicted: Mapping[Hypothesis, Floats] = {
        name: np.concatenate([each.predicted[name][chosen] for each, chosen in zip(passages, places, strict=True)])
        for name in passages[0].predicted
    }
    return observed, predicted


def _resampled(probe: Probe, continued: Sequence[Continued], temperature: float) -> tuple[Floats, Predictions]:
    """The sampled tokens: log mu, and the trainer's own scores of them at the same temperature."""
    given = [
        Given(passage.ids[: passage.cut] + each.ids, passage.cut, temperature)
        for passage, each in zip(probe.passages, continued, strict=True)
    ]
    predictions = probe.predictor.predict(given)
    observed = np.array([number for each in continued for number in each.logprobs])
    return observed, {name: np.concatenate([each[name] for each in predictions]) for name in predictions[0]}
