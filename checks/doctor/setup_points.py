"""Whether a trainer and its engine mean the same thing by a token's probability."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from checks.doctor.point import Point

LogprobMode = Literal["scaled", "raw", "truncated", "unknown"]
_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "half": "float16", "float": "float32"}


class TrainerSide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`trainer`: how it scores tokens. What is not given is not compared."""

    dtype: str | None = None
    """Of its forward pass."""
    temperature: float | None = None
    """That logits are divided by before log_softmax."""


class EngineSide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`engine`: how tokens were sampled."""

    dtype: str | None = None
    logprob_mode: LogprobMode | None = None
    """`scaled`: of softmax(logits / T); `raw`: of softmax(logits); `truncated`: after top-p, top-k and min-p."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None


class Setup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way of sampling and scoring, and how many turns used it."""

    trainer: TrainerSide = TrainerSide()
    engine: EngineSide = EngineSide()
    turns: int | None = None


def setup_points(setups: Sequence[Setup]) -> list[Point]:
    """What disagrees, in each way of sampling."""
    points: list[Point] = []
    for setup in setups:
        among = "" if setup.turns is None else f" ({setup.turns} turns)"
        found = [_dtype(setup), _temperature(setup), _mode(setup.engine), _truncation(setup.engine), _penalty(setup)]
        points += [msgspec.structs.replace(point, said=point.said + among) for point in found]
    return points


def _dtype(setup: Setup) -> Point:
    name = "trainer and engine compute alike"
    sides = [_named(setup.trainer.dtype), _named(setup.engine.dtype)]
    if None in sides:
        return Point(name=name, status="no_data", said="the dtype of one of them is not known")
    trainer, engine = sides
    if trainer == engine:
        return Point(name=name, status="ok", said=f"both in {trainer}")
    return Point(
        name=name,
        status="warn",
        said=f"the trainer computes in {trainer}, the engine in {engine}",
        advice="same precision on both sides, or float16 on both; importance-weight at lag 0 says how much it matters",
    )


def _temperature(setup: Setup) -> Point:
    name = "the trainer scores at the sampling temperature"
    scored, sampled = setup.trainer.temperature, setup.engine.temperature
    if scored is None or sampled is None:
        return Point(name=name, status="no_data", said="the temperature of one of them is not known")
    if scored == sampled:
        return Point(name=name, status="ok", said=f"both at T = {sampled:g}")
    return Point(name=name, status="fail", said=f"sampled at T = {sampled:g}, scored at T = {scored:g}", advice=name)


def _mode(engine: EngineSide) -> Point:
    name = "log-probabilities are those of the sampling distribution"
    mode, temperature = engine.logprob_mode, engine.temperature
    if mode == "raw":
        if temperature == 1.0:
            return Point(name=name, status="ok", said="raw, which at T = 1 is the same")
        said = "raw" if temperature is None else f"raw at T = {temperature:g}"
        status = "warn" if temperature is None else "fail"
        advice = "let the engine return scaled ones, or sample at T = 1"
        return Point(name=name, status=status, said=f"{said}: mu is another distribution's", advice=advice)
    if mode in (None, "unknown"):
        if temperature == 1.0:
            return Point(name=name, status="ok", said="at T = 1 scaled and raw are the same")
        advice = "record logprob_mode; `roundhouse doctor http://ENGINE` finds it out"
        return Point(name=name, status="no_data", said="nobody says whether they are scaled", advice=advice)
    if temperature is not None and temperature <= 0:
        said = "greedy: the sampling distribution has one token"
        return Point(name=name, status="warn", said=said, advice="greedy turns cannot be trained on")
    return Point(name=name, status="ok", said=mode)


def _truncation(engine: EngineSide) -> Point:
    name = "sampling is not truncated"
    on = {
        "top_p": engine.top_p is not None and engine.top_p < 1,
        "top_k": engine.top_k is not None and engine.top_k > 0,
        "min_p": engine.min_p is not None and engine.min_p > 0,
    }
    used = [f"{each} {getattr(engine, each):g}" for each, is_on in on.items() if is_on]
    if all(getattr(engine, each) is None for each in on):
        return Point(name=name, status="no_data", said=f"nobody says {', '.join(on)}")
    if not used:
        return Point(name=name, status="ok", said="no top_p, top_k or min_p in effect")
    if engine.logprob_mode == "truncated":
        said = f"{', '.join(used)}, and mu is taken after it"
        return Point(name=name, status="warn", said=said, advice="pi has to be renormalised on the same tokens")
    said = f"{', '.join(used)}: mu is not the probability that was sampled with"
    return Point(name=name, status="fail", said=said, advice="sample with top_p 1, top_k off and min_p 0")


def _penalty(setup: Setup) -> Point:
    name, engine = "no penalties", setup.engine
    on = {
        "presence_penalty": engine.presence_penalty not in (None, 0),
        "frequency_penalty": engine.frequency_penalty not in (None, 0),
        "repetition_penalty": engine.repetition_penalty not in (None, 1),
    }
    used = [f"{each} {getattr(engine, each):g}" for each, is_on in on.items() if is_on]
    if all(getattr(engine, each) is None for each in on):
        return Point(name=name, status="no_data", said=f"nobody says {', '.join(on)}")
    if not used:
        return Point(name=name, status="ok", said="none in effect")
    said = f"{', '.join(used)}: the trainer's distribution has no such thing"
    return Point(name=name, status="fail", said=said, advice="sample without penalties")


def _named(dtype: str | None) -> str | None:
    if dtype is None:
        return None
    short = dtype.lower().removeprefix("torch.")
    return _DTYPES.get(short, short)
