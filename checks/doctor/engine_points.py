"""What an engine has to do for its replies to be trained on: its settings, and what a few tokens show."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from checks.doctor.point import Point
from checks.finding import Status

SAME_NATS = 0.005
"""Log-probabilities of one token closer than this are the same: bfloat16 engines repeat themselves to about 1e-3."""
SCALED_NATS = 0.05
"""Log-probabilities of one token at two temperatures further apart than this are scaled."""


class Setting(NamedTuple):
    """One flag of SGLang that capture needs."""

    flag: str
    wanted: bool
    severity: Status
    why: str


SETTINGS: Mapping[str, Setting] = {
    "enable_lora": Setting(
        "--enable-lora", True, "warn", "adapters cannot be loaded, so nothing trained can be served"
    ),
    "lora_strict_loading": Setting(
        "--lora-strict-loading", True, "warn", "weights of an adapter that do not fit are dropped in silence"
    ),
    "incremental_streaming_output": Setting(
        "--incremental-streaming-output", True, "warn", "every event of a stream repeats all tokens so far"
    ),
    "enable_metrics": Setting("--enable-metrics", True, "info", "there is no /metrics to watch"),
    "disable_radix_cache": Setting("--disable-radix-cache", False, "info", "every turn computes its whole prompt anew"),
}
"""By their names in /server_info. Source: SGLang 0.5.23, whose defaults for the first three are off."""


class Draws(NamedTuple):
    """One prompt's likeliest token, as the engine scored it greedily (at T = 1) and at a low temperature."""

    greedy: float
    sharp: float | None
    """None where it was not drawn again."""


class Probe(NamedTuple):
    """What a few generated tokens showed."""

    prompt_tokens: int
    counted_prompt_tokens: int | None
    completion_tokens: int
    logprobs: int
    versions: Sequence[str]
    """Labels of the spans of weight versions."""
    draws: Sequence[Draws]
    refused: str | None = None
    """Why it could not be carried out; everything else is then empty."""


# Any: an engine's own settings, as it has them.
def settings_points(settings: Mapping[str, Any]) -> list[Point]:
    """The version and the flags. The embedded engine has no flags for these: it can do nothing else."""
    if settings.get("engine") == "roundhouse":
        said = f"the embedded engine, dtype {settings.get('dtype') or 'float32'}"
        return [Point(name="engine", status="ok", said=said)]
    version = settings.get("version")
    points = [
        Point(
            name="engine",
            status="no_data" if version is None else "ok",
            said="it does not say its version" if version is None else f"version {version}",
        )
    ]
    for name, setting in SETTINGS.items():
        # SGLang writes null for some that are off.
        value = (settings[name] or False) if name in settings else None
        points.append(_setting_point(name, setting, value))
    cache = str(settings.get("kv_cache_dtype") or "auto")
    if "fp8" in cache or "fp4" in cache:
        said = f"the KV cache is {cache}: prefill and decode give different log-probabilities"
        points.append(Point(name="KV cache", status="warn", said=said, advice="--kv-cache-dtype auto"))
    if settings.get("speculative_algorithm"):
        said = f"speculative decoding ({settings['speculative_algorithm']}) is on"
        advice = "compare importance-weight with and without: engines have lost log-probabilities of drafts before"
        points.append(Point(name="speculative decoding", status="info", said=said, advice=advice))
    return points


def slots_point(total: int | None, loaded: Sequence[str]) -> Point:
    """The slots for adapters beside the base model's: live, candidate and draining versions need one each."""
    names = f" ({', '.join(sorted(loaded))})" if loaded else ""
    if total is None:
        return Point(
            name="adapter slots", status="no_data", said=f"it does not say how many; {len(loaded)} taken{names}"
        )
    said = f"{len(loaded)} of {total} taken{names}"
    if len(loaded) < total:
        return Point(name="adapter slots", status="ok", said=said)
    advice = "a publication needs one free slot beside what is live: unload what is retired, or start it with more"
    return Point(name="adapter slots", status="warn", said=f"{said}: a new version finds no room", advice=advice)


# Any: one setting's value.
def _setting_point(name: str, setting: Setting, value: Any) -> Point:
    if not isinstance(value, bool):
        return Point(name=setting.flag, status="no_data", said=f"the engine does not say {name}")
    if value is setting.wanted:
        return Point(name=setting.flag, status="ok", said="on" if value else "off")
    advice = f"start it with {setting.flag}" if setting.wanted else f"start it without {setting.flag}"
    return Point(
        name=setting.flag, status=setting.severity, said=f"{'on' if value else 'off'}: {setting.why}", advice=advice
    )


def probe_points(probe: Probe) -> list[Point]:
    """What the generated tokens show."""
    if probe.refused is not None:
        advice = "no token of this engine can be captured until it answers with ids and log-probabilities"
        return [Point(name="a few tokens", status="fail", said=probe.refused, advice=advice)]
    counted = probe.counted_prompt_tokens
    equal = probe.completion_tokens == probe.logprobs
    return [
        Point(
            name="as many log-probabilities as tokens",
            status="ok" if equal and probe.completion_tokens else "fail",
            said=f"{probe.logprobs} log-probabilities for {probe.completion_tokens} tokens",
        ),
        Point(
            name="the prompt is taken as it is",
            status="no_data" if counted is None else "ok" if counted == probe.prompt_tokens else "fail",
            said=f"{probe.prompt_tokens} ids sent, {'not' if counted is None else counted} counted",
            advice=None if counted in (None, probe.prompt_tokens) else "the engine adds or drops ids: see BOS",
        ),
        Point(
            name="weights are labelled",
            status="ok" if probe.versions else "warn",
            said=f"spans say {', '.join(map(repr, probe.versions))}" if probe.versions else "no weight_versions came",
            advice=None if probe.versions else "staleness of full-weight updates cannot be told; use SGLang 0.5.23",
        ),
        _temperature_point(probe.draws),
    ]


def _temperature_point(draws: Sequence[Draws]) -> Point:
    name = "log-probabilities are at the sampling temperature"
    both = [(draw.greedy, draw.sharp) for draw in draws if draw.sharp is not None]
    apart = [abs(sharp - greedy) for greedy, sharp in both]
    telling = [gap for gap, (greedy, _) in zip(apart, both, strict=True) if greedy < -SCALED_NATS]
    detail: dict[str, int | float | str | bool | None] = {"tokens": len(both), "largest_gap": max(apart, default=None)}
    if any(gap > SCALED_NATS for gap in telling):
        return Point(name=name, status="ok", said="scaled: a token's differ between temperatures", detail=detail)
    if len(telling) > 1 and all(gap <= SAME_NATS for gap in telling):
        return Point(
            name=name,
            status="fail",
            said=f"raw: {len(telling)} tokens have the same at T = 0.1 as at T = 1",
            advice="unset SGLANG_RETURN_ORIGINAL_LOGPROB, or sample at T = 1 only",
            detail=detail,
        )
    return Point(name=name, status="no_data", said="the tokens drawn do not tell", detail=detail)
