"""What an engine's settings and a few of its tokens say about capture."""

from typing import Any

from checks.doctor.engine_points import Draws, Probe, probe_points, settings_points

# The names and defaults of SGLang 0.5.23's /server_info.
DEFAULTS: dict[str, Any] = {
    "version": "0.5.23",
    "enable_lora": None,
    "lora_strict_loading": False,
    "incremental_streaming_output": False,
    "enable_metrics": False,
    "disable_radix_cache": False,
    "kv_cache_dtype": "auto",
    "speculative_algorithm": None,
}
WANTED = DEFAULTS | dict.fromkeys(
    ("enable_lora", "lora_strict_loading", "incremental_streaming_output", "enable_metrics"), True
)
HEALTHY = Probe(16, 16, 4, 4, ("default",), (Draws(-1.5, -0.01), Draws(-2.0, None)))


def statuses(settings: dict[str, Any]) -> dict[str, str]:
    return {point.name: point.status for point in settings_points(settings)}


def test_sglang_with_its_defaults_lacks_three_flags() -> None:
    found = statuses(DEFAULTS)
    assert [name for name, status in found.items() if status == "warn"] == [
        "--enable-lora",
        "--lora-strict-loading",
        "--incremental-streaming-output",
    ]
    assert set(statuses(WANTED).values()) == {"ok"}


def test_what_the_engine_does_not_say_is_not_guessed() -> None:
    assert set(statuses({}).values()) == {"no_data"}


def test_a_quantised_cache_and_drafts_are_told() -> None:
    assert statuses(WANTED | {"kv_cache_dtype": "fp8_e4m3"})["KV cache"] == "warn"
    assert statuses(WANTED | {"speculative_algorithm": "EAGLE"})["speculative decoding"] == "info"


def test_the_embedded_engine_has_no_flags_to_set() -> None:
    assert statuses({"engine": "roundhouse", "dtype": None}) == {"engine": "ok"}


def test_a_healthy_probe_is_healthy() -> None:
    assert [point.status for point in probe_points(HEALTHY)] == ["ok"] * 4


def test_lengths_labels_and_prompt_counts_are_compared() -> None:
    bad = HEALTHY._replace(logprobs=3, counted_prompt_tokens=17, versions=())
    assert [point.status for point in probe_points(bad)] == ["fail", "fail", "warn", "ok"]


def test_raw_log_probabilities_show_as_the_same_at_two_temperatures() -> None:
    def said(*draws: Draws) -> str:
        return probe_points(HEALTHY._replace(draws=draws))[-1].status

    assert said(Draws(-1.5, -1.5), Draws(-2.0, -2.0)) == "fail"
    assert said(Draws(-1.5, -1.501), Draws(-2.0, -2.0)) == "fail"
    # One alone may be a tie of two tokens, which is as likely at any temperature; one that moved settles it.
    assert said(Draws(-0.6931, -0.6931)) == "no_data"
    assert said(Draws(-0.6931, -0.6931), Draws(-1.5, -0.2)) == "ok"
    # A token that is certain is certain at every temperature.
    assert said(Draws(0.0, 0.0), Draws(-0.001, 0.0)) == "no_data"
    assert said(Draws(-3.0, None)) == "no_data"
