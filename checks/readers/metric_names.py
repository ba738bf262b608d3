"""What trainers call their metrics, and which column of a step each is.

Only what means the same is taken. Left out on purpose: the importance weights that TRL and verl log, which are
clipped before their maximum is taken, and verl's effective sample size, which is of truncated weights; entropy that
tinker-cookbook and NeMo-RL estimate from sampled tokens; verl's differences of probabilities, which are none of
log-probabilities; TRL's count of tokens, which is since the start.
"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from checks.readers.pickle_values import whole
from checks.rows import StepRow

STEP_NAMES = ("step", "global_step", "training/global_step", "trainer/global_step", "train/global_step", "_step")
"""Where a line says its step, most telling first."""
_TIME_NAMES = ("_timestamp", "timestamp", "wall_time", "time")
_FIRST_TIME = 1e9

NAMES: dict[str, tuple[str, ...]] = {
    "duration_s": (
        "timing_s/step",
        "step_time",
        "time/step",
        "perf/step_time",
        "timing/step",
        "time/total",
        "perf/time_per_step",
    ),
    "wait_s": (
        "time/wait_for_batch",
        "perf/train_wait_time",
        "timing/wait_for_generation_buffer",
        "timing_s/wait_for_enough_samples",
        "fully_async/total_wait_time",
    ),
    "engine_wait_s": ("time/wait_for_policy", "time/wait_for_ckpt", "perf/update_weights_time", "timing_s/param_sync"),
    "tokens": ("perf/total_num_tokens",),
    "mfu": ("perf/mfu/actor", "actor/mfu"),
    "loss": (
        "actor/pg_loss",
        "train/loss",
        "policy/final_loss",
        "policy/policy_loss",
        "loss/mean",
        "ppo_actor/update/actor_loss/avg",
        "loss",
    ),
    "grad_norm": (
        "train/grad_norm_pre_clip",
        "actor/grad_norm",
        "optim/grad_norm",
        "train/grad_norm",
        "policy/raw_grad_norm",
        "policy/grad_norm",
        "ppo_actor/update/grad_norm",
        "actor_grad_norm",
        "grad_norm:mean",
        "grad_norm",
    ),
    "entropy": (
        "actor/entropy",
        "entropy/all/mean",
        "entropy/mean",
        "policy/policy_entropy",
        "train/entropy_loss",
        "ppo_actor/update/entropy/avg",
        "entropy",
    ),
    "reward_mean": (
        "critic/score/mean",
        "rollout/raw_reward",
        "reward/avg_raw_reward",
        "reward/all/mean",
        "reward/mean",
        "env/all/reward/total",
        "ppo_actor/task_reward/avg",
        "reward",
    ),
    "reward_eval": ("eval/all/avg_score", "eval_reward", "test/env/all/reward/total"),
    "mean_w": ("train/tis",),
    "mean_abs_dlogp": (
        "sampling/sampling_logp_difference/mean",
        "train/train_rollout_logprob_abs_diff",
        "policy/rollout_train_logprobs_abs_diff_mean",
    ),
    "max_abs_dlogp": ("sampling/sampling_logp_difference/max", "policy/rollout_train_logprobs_abs_diff_max"),
    "kl_mu_old": ("rollout_corr/kl", "optim/kl_sample_train_v1", "vllm_kl"),
    "kl_k3": ("rollout_corr/k3_kl", "mismatch_kl/all/mean", "mismatch_kl/mean", "train/train_rollout_kl"),
    "kl_update": ("actor/ppo_kl", "train/ppo_kl", "ppo_kl"),
    "kl_base": ("actor/kl_loss", "train/kl_loss", "loss/avg_kl", "kl"),
    "clip_share": (
        "actor/pg_clipfrac",
        "train/pg_clipfrac",
        "policy/ppo_clip_ratio",
        "clip_ratio/region_mean",
        "ppo_actor/update/clip_ratio/avg",
    ),
    "w_truncated_share": ("train/tis_clipfrac",),
    "staleness_mean": ("off_policy/mean", "async/staleness_mean", "training/off_policy/trajectory_staleness/mean"),
    "staleness_max": ("off_policy/max", "async/staleness_max", "training/off_policy/trajectory_staleness/max"),
    "zero_variance_share": ("frac_reward_zero_std",),
    "truncated_share": (
        "completions/clipped_ratio",
        "response_length/clip_ratio",
        "rollout/truncated_ratio",
        "is_truncated/mean",
    ),
    "lr": ("actor/lr", "optim/lr", "train/lr-pg_0", "policy/policy_lr", "learning_rate", "ppo_actor/update/lr", "lr"),
}
"""Column of a step to the names it goes by; of several in one line the first counts."""
PERCENT = {"perf/mfu": "mfu"}
"""Names whose value is in percent: prime-rl's MFU."""
_HELD_OUT: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("reward_eval", re.compile(r"val-core/.+/(?:reward|acc|score)/mean@\d+")),
    ("reward_eval", re.compile(r"eval/[^/]+/avg@\d+")),
    ("pass_at_1", re.compile(r"eval/[^/]+/pass@1|val-core/.+/acc/mean@\d+")),
)
_PASS_AT = re.compile(r"(?:val-core/.+/acc/best@(\d{1,6})/mean|eval/[^/]+/pass[@_](?:at_)?(\d{1,6}))")
_KNOWN = frozenset(name for names in NAMES.values() for name in names) | PERCENT.keys()
_TELLING = frozenset(name for name in _KNOWN if "/" in name) | {
    "grad_norm",
    "frac_reward_zero_std",
    "vllm_kl",
    "eval_reward",
    "actor_grad_norm",
}
"""Names that no other log uses."""


def known_metric(names: Iterable[str]) -> str | None:
    """The first of some names that only a trainer's metrics have."""
    return next((name for name in sorted(names) if _short(name) in _TELLING or _of_held_out(name)), None)


def is_metric(name: str) -> bool:
    """Whether a name is one of those that are read."""
    return name in _KNOWN or _short(name) in _KNOWN or name == "eval/reward" or _of_held_out(name)


def _of_held_out(name: str) -> bool:
    return any(pattern.fullmatch(name) for _, pattern in _HELD_OUT) or _PASS_AT.fullmatch(name) is not None


def _short(name: str) -> str:
    """transformers puts train/ before every name where it logs for a person to look at."""
    return name if name in _KNOWN else name.removeprefix("train/")


def step_of(line: Mapping[str, Any]) -> int | None:
    """The step of a line of metrics."""
    for name in STEP_NAMES:
        value = line.get(name)
        found = None if isinstance(value, bool) else whole(value)
        if found is not None:
            return found
    return None


def step_row(step: int, metrics: Mapping[str, Any]) -> StepRow | None:
    """The metrics of one step under our names; None where none is known."""
    numbers = {name: value for name, given in metrics.items() if (value := number_in(given)) is not None}
    numbers = {_short(name): value for name, value in numbers.items()} | numbers
    if "eval/reward" in numbers:
        numbers.setdefault("eval_reward", numbers["eval/reward"])
    found: dict[str, float] = {}
    for column, names in NAMES.items():
        name = next((name for name in names if name in numbers), None)
        if name is not None:
            found[column] = numbers[name]
    for name, column in PERCENT.items():
        if name in numbers:
            found.setdefault(column, numbers[name] / 100)
    # verl logs 0.0 on hardware whose peak it does not know.
    if found.get("mfu") == 0.0:
        del found["mfu"]
    _held_out(numbers, found)
    if not found:
        return None
    # Any: the columns of a step have different types.
    columns: dict[str, Any] = found | {name: whole(found[name]) for name in ("tokens", "pass_k") if name in found}
    return StepRow(step=step, at=_time_of(metrics), **columns)


def _held_out(numbers: Mapping[str, float], found: dict[str, float]) -> None:
    """Means over the held-out suites, each with its own name; of pass@k the largest k."""
    for column, pattern in _HELD_OUT:
        values = [value for name, value in numbers.items() if pattern.fullmatch(name)]
        if values and column not in found:
            found[column] = math.fsum(values) / len(values)
    by_k: dict[int, list[float]] = {}
    matches = {name: match for name in numbers if (match := _PASS_AT.fullmatch(name)) is not None}
    over_all = [name for name in matches if name.startswith("eval/all/")]
    for name in over_all or matches:
        by_k.setdefault(int(matches[name][1] or matches[name][2]), []).append(numbers[name])
    largest = max((k for k in by_k if k > 1), default=None)
    if largest is not None:
        found["pass_at_k"], found["pass_k"] = math.fsum(by_k[largest]) / len(by_k[largest]), largest


def number_in(value: object) -> float | None:
    """A number, also one that is written as text because JSON has no NaN."""
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _time_of(metrics: Mapping[str, Any]) -> datetime | None:
    times = (time_in(metrics.get(name)) for name in _TIME_NAMES)
    return next((time for time in times if time is not None), None)


def time_in(value: object) -> datetime | None:
    """Seconds since 1970 as a time, where they are of a time since 2001; others count from the start of a run."""
    seconds = number_in(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds and _FIRST_TIME < seconds < 10 * _FIRST_TIME else None
