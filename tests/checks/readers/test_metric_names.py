"""What trainers call their metrics: one line of each framework, and what must not be taken for something else."""

import math
from datetime import UTC, datetime

import pytest

from checks.readers.metric_names import NAMES, is_metric, known_metric, step_of, step_row
from checks.rows import StepRow

LINES: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "trl": (
        {
            "loss": 0.5,
            "grad_norm": 2.0,
            "learning_rate": 1e-6,
            "num_tokens": 784.0,
            "completions/clipped_ratio": 0.25,
            "reward": 0.9,
            "frac_reward_zero_std": 0.5,
            "entropy": 0.3,
            "clip_ratio/region_mean": 0.01,
            "sampling/sampling_logp_difference/mean": 0.02,
            "sampling/sampling_logp_difference/max": 0.7,
            "sampling/importance_sampling_ratio/max": 3.0,
            "sampling/importance_sampling_ratio/min": 0.1,
            "sampling/importance_sampling_ratio/mean": 1.0,
            "kl": 0.001,
            "step_time": 7.5,
        },
        {
            "loss": 0.5,
            "grad_norm": 2.0,
            "lr": 1e-6,
            "truncated_share": 0.25,
            "reward_mean": 0.9,
            "zero_variance_share": 0.5,
            "entropy": 0.3,
            "clip_share": 0.01,
            "mean_abs_dlogp": 0.02,
            "max_abs_dlogp": 0.7,
            "kl_base": 0.001,
            "duration_s": 7.5,
        },
    ),
    "verl": (
        {
            "actor/entropy": 0.25,
            "actor/grad_norm": 1.5,
            "actor/pg_loss": 0.125,
            "actor/ppo_kl": 1e-4,
            "actor/pg_clipfrac": 0.02,
            "actor/lr": 1e-6,
            "perf/mfu/actor": 0.4,
            "perf/mfu/actor_infer": 0.2,
            "perf/total_num_tokens": 3112,
            "timing_s/step": 20.0,
            "critic/score/mean": 0.75,
            "critic/rewards/mean": 0.7,
            "response_length/clip_ratio": 0.1,
            "rollout_corr/kl": 0.001,
            "rollout_corr/k3_kl": 0.002,
            "rollout_corr/rollout_is_max": 2.0,
            "rollout_corr/rollout_is_mean": 1.0,
            "rollout_corr/rollout_is_eff_sample_size": 0.99,
            "training/rollout_probs_diff_mean": 0.001,
            "val-core/gsm8k/acc/mean@4": 0.5,
            "val-core/math/reward/mean@4": 0.25,
            "val-core/gsm8k/acc/best@4/mean": 0.8,
            "val-core/gsm8k/acc/best@2/mean": 0.6,
            "val-core/math/reward/best@8/mean": 0.99,
        },
        {
            "entropy": 0.25,
            "grad_norm": 1.5,
            "loss": 0.125,
            "kl_update": 1e-4,
            "clip_share": 0.02,
            "lr": 1e-6,
            "mfu": 0.4,
            "tokens": 3112,
            "duration_s": 20.0,
            "reward_mean": 0.75,
            "truncated_share": 0.1,
            "kl_mu_old": 0.001,
            "kl_k3": 0.002,
            "reward_eval": 0.375,
            "pass_at_1": 0.5,
            "pass_at_k": 0.8,
            "pass_k": 4,
        },
    ),
    "slime and Miles": (
        {
            "train/loss": 0.1,
            "train/grad_norm": 0.6,
            "train/ppo_kl": 1e-9,
            "train/entropy_loss": 0.4,
            "train/pg_clipfrac": 0.0,
            "train/tis": 1.01,
            "train/tis_clipfrac": 0.02,
            "train/train_rollout_logprob_abs_diff": 0.01,
            "train/train_rollout_kl": 1e-3,
            "train/step": 4,
            "rollout/raw_reward": 0.3,
            "rollout/truncated_ratio": 0.05,
            "perf/train_wait_time": 100.0,
            "perf/step_time": 140.0,
            "perf/update_weights_time": 4.0,
        },
        {
            "loss": 0.1,
            "grad_norm": 0.6,
            "kl_update": 1e-9,
            "entropy": 0.4,
            "clip_share": 0.0,
            "mean_w": 1.01,
            "w_truncated_share": 0.02,
            "mean_abs_dlogp": 0.01,
            "kl_k3": 1e-3,
            "reward_mean": 0.3,
            "truncated_share": 0.05,
            "wait_s": 100.0,
            "duration_s": 140.0,
            "engine_wait_s": 4.0,
        },
    ),
    "prime-rl": (
        {
            "optim/grad_norm": 0.5,
            "optim/lr": 1e-6,
            "perf/mfu": 35.5,
            "time/step": 170.0,
            "time/wait_for_batch": 18.0,
            "time/wait_for_policy": 2.0,
            "mismatch_kl/all/mean": 1e-4,
            "entropy/all/mean": 0.4,
            "loss/mean": 0.2,
            "reward/all/mean": 0.6,
            "off_policy/mean": 1.5,
            "off_policy/max": 4.0,
        },
        {
            "grad_norm": 0.5,
            "lr": 1e-6,
            "mfu": 0.355,
            "duration_s": 170.0,
            "wait_s": 18.0,
            "engine_wait_s": 2.0,
            "kl_k3": 1e-4,
            "entropy": 0.4,
            "loss": 0.2,
            "reward_mean": 0.6,
            "staleness_mean": 1.5,
            "staleness_max": 4.0,
        },
    ),
    "SkyRL": (
        {
            "policy/raw_grad_norm": 0.7,
            "policy/final_loss": 0.3,
            "policy/policy_entropy": 0.2,
            "policy/policy_lr": 1e-6,
            "policy/rollout_train_logprobs_abs_diff_mean": 0.01,
            "policy/rollout_train_logprobs_abs_diff_max": 0.4,
            "reward/avg_raw_reward": 0.5,
            "reward/avg_pass_at_8": 0.9,
            "loss/avg_kl": 0.01,
            "async/staleness_mean": 1.0,
            "async/staleness_max": 2.0,
            "timing/step": 30.0,
            "timing/wait_for_generation_buffer": 5.0,
            "eval/all/avg_score": 0.45,
            "eval/all/pass_at_4": 0.65,
        },
        {
            "grad_norm": 0.7,
            "loss": 0.3,
            "entropy": 0.2,
            "lr": 1e-6,
            "mean_abs_dlogp": 0.01,
            "max_abs_dlogp": 0.4,
            "reward_mean": 0.5,
            "kl_base": 0.01,
            "staleness_mean": 1.0,
            "staleness_max": 2.0,
            "duration_s": 30.0,
            "wait_s": 5.0,
            "reward_eval": 0.45,
            "pass_at_k": 0.65,
            "pass_k": 4,
        },
    ),
    "tinker-cookbook": (
        {
            "optim/kl_sample_train_v1": 0.001,
            "optim/entropy": 0.3,
            "env/all/reward/total": 0.5,
            "time/total": 12.0,
            "test/env/all/reward/total": 0.4,
            "optim/lr": 1e-4,
        },
        {"kl_mu_old": 0.001, "reward_mean": 0.5, "duration_s": 12.0, "reward_eval": 0.4, "lr": 1e-4},
    ),
    "OpenRLHF in TensorBoard": (
        {"train/vllm_kl": 0.002, "train/ppo_kl": 0.003, "train/actor_grad_norm": 0.5, "train/reward": 0.25},
        {"kl_mu_old": 0.002, "kl_update": 0.003, "grad_norm": 0.5, "reward_mean": 0.25},
    ),
    "AReaL": (
        {
            "ppo_actor/task_reward/avg": 0.5,
            "ppo_actor/update/entropy/avg": 0.2,
            "ppo_actor/update/grad_norm": 0.4,
            "ppo_actor/update/clip_ratio/avg": 0.1,
        },
        {"reward_mean": 0.5, "entropy": 0.2, "grad_norm": 0.4, "clip_share": 0.1},
    ),
}


@pytest.mark.parametrize("framework", LINES)
def test_each_framework_under_our_names(framework: str) -> None:
    given, expected = LINES[framework]
    found = step_row(3, given)
    assert found is not None
    told = {name: getattr(found, name) for name in found.__struct_fields__ if getattr(found, name) is not None}
    assert told == pytest.approx({"step": 3} | expected)
    assert known_metric(given) is not None


def test_no_weight_is_taken_from_what_was_clipped_first() -> None:
    clipped = {"sampling/importance_sampling_ratio/max": 3.0, "rollout_corr/rollout_is_max": 2.0}
    assert step_row(1, clipped) is None
    assert not any(is_metric(name) for name in clipped)


def test_the_mfu_of_unknown_hardware_is_not_observed() -> None:
    found = step_row(1, {"perf/mfu/actor": 0.0, "actor/grad_norm": 0.0})
    assert found is not None
    assert (found.mfu, found.grad_norm) == (None, 0.0)


def test_what_is_not_a_number_is_kept_and_text_is_not_read() -> None:
    found = step_row(1, {"grad_norm": "NaN", "loss": math.inf, "entropy": "high", "reward": True})
    assert found is not None
    assert math.isnan(found.grad_norm or 0)
    assert found.loss == math.inf
    assert (found.entropy, found.reward_mean) == (None, None)


def test_steps_and_times() -> None:
    assert step_of({"step": 3.0, "_step": 9}) == 3
    assert step_of({"train/global_step": 4}) == 4
    assert step_of({"step": 0.5}) is None
    assert step_of({"step": True}) is None
    found = step_row(1, {"grad_norm": 1.0, "_timestamp": 1_700_000_000.5})
    assert found is not None
    assert found.at == datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC)
    seconds = step_row(1, {"grad_norm": 1.0, "time": 12.5})
    assert seconds is not None
    assert seconds.at is None


def test_numbers_beyond_64_bits_and_times_beyond_reason_are_no_obstacle() -> None:
    assert step_of({"step": 1e300, "global_step": 2**63, "_step": 7}) == 7
    assert step_of({"step": math.nan}) is None
    assert step_of({"step": math.inf}) is None
    found = step_row(1, {"perf/total_num_tokens": math.inf, "grad_norm": 1.0, "time": math.nan, "timestamp": 1e300})
    assert found is not None
    assert (found.tokens, found.at) == (None, None)


def test_pass_at_k_over_all_suites_stands_for_them() -> None:
    found = step_row(1, {"eval/all/pass_at_4": 0.5, "eval/gsm8k/pass_at_4": 0.9, "eval/math/pass_at_4": 0.3})
    assert found is not None
    assert (found.pass_at_k, found.pass_k) == (0.5, 4)


def test_names_are_columns_of_a_step() -> None:
    assert NAMES.keys() <= set(StepRow.__struct_fields__)
    every = [name for names in NAMES.values() for name in names]
    assert len(every) == len(set(every)), "a name means one thing"
