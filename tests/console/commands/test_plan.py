"""Tests of `roundhouse plan`: the lecture's numbers on the sheet, no idle option, clear refusals."""

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collector.records import Turn, VersionSpan
from collector.store.writer import Writer
from console.cli import main

LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "vocab_size": 151936,
}
Captured = pytest.CaptureFixture[str]


def folder(tmp_path: Path, config: dict[str, Any], name: str = "model") -> str:
    path = tmp_path / name
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return folder(tmp_path, LLAMA_8B, "Llama-3.1-8B")


@pytest.fixture
def store(tmp_path: Path) -> str:
    """One session of two turns, 5 seconds apart."""
    writer = Writer(tmp_path / "store", "collector")
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    for number, (prompt, completion) in enumerate([([1, 2, 3], [4, 5]), ([1, 2, 3, 4, 5, 6], [7])], 1):
        started = noon + timedelta(seconds=6 * number)
        record = Turn(
            turn_id=f"t{number}",
            session_id="s",
            turn=number,
            tenant="acme",
            api="chat",
            started_at=started,
            finished_at=started + timedelta(seconds=1),
            prompt_ids=prompt,
            completion_ids=completion,
            sampled_logprobs=[-0.5] * len(completion),
            weight_versions=[VersionSpan(version=0, start=0, end=len(completion))],
        )
        writer.append(record).result(timeout=30)
    writer.close()
    return str(tmp_path / "store")


def sheet(capsys: Captured, *words: str) -> dict[str, Any]:
    assert main(["plan", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def quantities(made: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["value"] for section in made["sections"] for each in section["quantities"]}


def table(made: dict[str, Any], title: str) -> list[dict[str, Any]]:
    (found,) = [section["table"] for section in made["sections"] if section["title"].startswith(title)]
    names = [column["name"] for column in found["columns"]]
    return [dict(zip(names, row, strict=True)) for row in found["rows"]]


def test_the_sheet_holds_the_lecture_s_repair_run(model: str, capsys: Captured) -> None:
    values = quantities(sheet(capsys, "--model", model, "--tasks", "1", "--length-spread", "0", "--memory-share", "1"))
    assert values["kv_bytes_per_token"] == 131_072
    assert values["kv_bytes_cap"] == 4 * 2**30
    assert values["prefill_uncached_tokens"] == 145_600
    assert values["prefill_cached_tokens"] == 38_000
    assert values["prefill_edit_tokens"] == 8 * (5_100 - 1_500)
    assert (values["all_tokens"], values["tree_tokens"]) == (70_400, 56_400)
    assert values["parameters"] == 8_030_261_248
    assert values["full_training_bytes"] == 16 * 8_030_261_248
    assert round(values["ridge"]) == 295
    assert values["steps_until_copy_changes"] == 21


def test_the_step_s_microbatches_are_the_lecture_s(model: str, capsys: Captured) -> None:
    values = quantities(sheet(capsys, "--model", model, "--length-spread", "0", "--pipeline-stages", "4"))
    assert values["microbatches"] == 16
    assert values["bubble_busy"] == 3 / 8
    assert values["kv_bytes_step_cap"] == 256 * 2**30


def test_sections_are_the_ones_promised(model: str, capsys: Captured) -> None:
    titles = [section["title"] for section in sheet(capsys, "--model", model)["sections"]]
    assert [title.partition(" ")[0] for title in titles] == [
        "Workload",
        "Memory,",
        "KV",
        "Prefill",
        "Decode",
        "Makespan",
        "Prefix",
        "Update",
        "Weight",
        "Synchronous",
        "Split",
    ]


def test_weight_sync_compares_full_lora_and_delta(model: str, capsys: Captured) -> None:
    rows = {row["form"]: row for row in table(sheet(capsys, "--model", model, "--lora-rank", "16"), "Weight sync")}
    assert list(rows) == ["full", "lora", "delta", "bound"]
    assert rows["full"]["bytes"] == 2 * 8_030_261_248
    assert rows["lora"]["bytes"] == 2 * 41_943_040
    assert rows["delta"]["bytes"] == pytest.approx(8_030_261_248 * 0.01 * 3.279, rel=1e-3)
    assert rows["full"]["seconds"] == pytest.approx(16.06e9 / 12.5e9, rel=1e-3)
    full = table(sheet(capsys, "--model", model, "--full"), "Weight sync")
    assert [row["form"] for row in full] == ["full", "delta", "bound"]


def test_running_ahead_zero_is_synchronous(model: str, capsys: Captured) -> None:
    rows = table(sheet(capsys, "--model", model), "Synchronous")
    assert (rows[0]["run_ahead_steps"], rows[0]["mean_lag_steps"], rows[0]["max_lag_steps"]) == (0, 0, 0)
    assert rows[-1]["mean_lag_steps"] > 0
    assert rows[-1]["step_s"] < rows[0]["step_s"]


def test_the_recommended_split_is_the_fastest_listed(model: str, capsys: Captured) -> None:
    made = sheet(capsys, "--model", model)
    rows = table(made, "Split")
    best = min(rows, key=lambda row: row["step_s"])
    assert [row["choice"] for row in rows].count("<- fastest") == 1
    assert best["choice"] == "<- fastest"
    said = f"sample on {best['inference_devices']} and train on {best['training_devices']} of 8 devices"
    assert made["verdict"].startswith(said)


OPTIONS = [
    ["--device", "h200"],
    ["--devices", "16"],
    ["--seed", "5"],
    ["--tasks", "16"],
    ["--group-size", "4"],
    ["--prompt-tokens", "3000"],
    ["--turns", "5"],
    ["--action-tokens", "300"],
    ["--observation-tokens", "900"],
    ["--length-spread", "1.5"],
    ["--compact-every", "2"],
    ["--compact-every", "2", "--summary-tokens", "700"],
    ["--tool-s", "9"],
    ["--max-tokens", "16384"],
    ["--lora-rank", "8"],
    ["--full"],
    ["--microbatch-tokens", "20000"],
    ["--pipeline-stages", "2"],
    ["--learning-rate", "1e-5"],
    ["--changed-share", "0.05"],
    ["--link-gb-s", "50"],
    ["--draft-tokens", "4", "--acceptance", "0.8"],
    ["--draft-tokens", "4", "--acceptance", "0.5"],
    ["--mfu", "0.5"],
    ["--bandwidth-share", "0.8"],
    ["--memory-share", "0.8"],
]


def numbers(made: dict[str, Any]) -> str:
    """Every value of the sheet, without the prose that quotes the flags."""
    tables = [section["table"]["rows"] for section in made["sections"] if section["table"]]
    return json.dumps([quantities(made), tables])


def test_every_option_changes_a_number(model: str, capsys: Captured) -> None:
    made = {"": numbers(sheet(capsys, "--model", model))}
    for option in OPTIONS:
        made[" ".join(option)] = numbers(sheet(capsys, "--model", model, *option))
    seen: dict[str, str] = {}
    for option, text in made.items():
        assert text not in seen, f"{option or 'no option'} and {seen.get(text)} give the same numbers"
        seen[text] = option


def test_every_option_is_in_the_list_above(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    offered = {word.strip(",[]") for word in capsys.readouterr().out.split() if word.strip(",[]").startswith("--")}
    covered = {word for option in OPTIONS for word in option if word.startswith("--")}
    assert offered - covered == {"--help", "--model", "--json", "--store"}


@pytest.mark.parametrize("columns", [60, 70, 80, 120])
@pytest.mark.parametrize("config", [LLAMA_8B, QWEN3_MOE], ids=["dense", "moe"])
@pytest.mark.parametrize(
    "extra", [[], ["--compact-every", "2", "--full", "--pipeline-stages", "2"]], ids=["lora", "full"]
)
def test_no_line_is_wider_than_the_terminal(
    config: dict[str, Any],
    columns: int,
    extra: list[str],
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["plan", "--model", folder(tmp_path, config), *extra]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if line != line.rstrip()]


def test_what_does_not_fit_says_so_and_prints_the_rest(model: str, capsys: Captured) -> None:
    made = sheet(capsys, "--model", model, "--devices", "1", "--device", "l40s", "--full")
    assert made["verdict"].startswith("does not fit on 1 x 48 GB, together or split; 5 would do")
    values = quantities(made)
    assert values["rollouts_that_fit"] == 0
    assert values["left_bytes"] < 0
    assert values["sync_step_s"] is None
    assert main(["plan", "--model", model, "--devices", "1", "--device", "l40s", "--full"]) == 0
    assert "n/a" in capsys.readouterr().out


def test_one_device_trains_synchronously(model: str, capsys: Captured) -> None:
    made = sheet(capsys, "--model", model, "--devices", "1")
    assert made["verdict"].startswith("train synchronously, all devices in each phase")
    assert "no split fits" in made["verdict"]


def test_a_store_gives_the_lengths_and_the_wait(model: str, store: str, capsys: Captured) -> None:
    made = sheet(capsys, "--model", model, "--store", store, "--tasks", "1", "--group-size", "1")
    values = quantities(made)
    assert values["prefill_uncached_tokens"] == 3 + 6
    assert values["prefill_cached_tokens"] == 3 + 1
    assert values["sampled_tokens"] == 3
    assert values["tree_tokens"] == 7
    assert values["tool_wait_s"] == 5
    assert any("from the 1 sessions and 2 turns" in line for line in made["assumptions"])
    assert quantities(sheet(capsys, "--model", model, "--store", store, "--tool-s", "1"))["tool_wait_s"] == 1


def test_the_json_is_finite_and_names_units(model: str, capsys: Captured) -> None:
    made = sheet(capsys, "--model", model)
    for section in made["sections"]:
        for each in section["quantities"]:
            assert each["unit"], each
            assert isinstance(each["value"], int) or math.isfinite(each["value"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--device", "tpu"], "--device is 'tpu', expected one of a100, l40s, h100"),
        (["--devices", "0"], "devices is 0, expected a whole number of at least 1"),
        (["--draft-tokens", "4"], "--draft-tokens and --acceptance go together"),
        (["--acceptance", "0.5"], "--draft-tokens and --acceptance go together"),
        (["--draft-tokens", "4", "--acceptance", "1.5"], "acceptance_rate is 1.5, expected a share from 0 to 1"),
        (["--summary-tokens", "9"], "give --compact-every too"),
        (["--prompt-tokens", "40000"], "take 41"),
        (["--microbatch-tokens", "100"], "a row has"),
        (["--changed-share", "0"], "changed_share is 0.0"),
        (["--mfu", "0"], "mfu is 0.0"),
        (["--mfu", "2"], "mfu is 2.0"),
        (["--memory-share", "1.5"], "memory_share is 1.5"),
        (["--bandwidth-share", "7"], "bandwidth_share is 7.0"),
        (["--link-gb-s", "0"], "link_bytes_per_s is 0.0"),
        (["--tool-s", "-1"], "tool_wait_s is -1.0"),
        (["--tasks", "0"], "tasks is 0"),
        (["--lora-rank", "0"], "rank is 0"),
        (["--pipeline-stages", "0"], "pipeline_stages is 0"),
        (["--learning-rate", "0"], "step is 0.0"),
        (["--max-tokens", "0"], "max_tokens is 0"),
    ],
)
def test_a_value_that_cannot_be_is_one_line_and_exit_2(
    words: list[str], message: str, model: str, capsys: Captured
) -> None:
    assert main(["plan", "--model", model, *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_lengths_are_not_taken_from_two_places(model: str, store: str, capsys: Captured) -> None:
    assert main(["plan", "--model", model, "--store", store, "--turns", "3", "--compact-every", "2"]) == 2
    assert "--turns, --compact-every and --store both say what rollouts look like" in capsys.readouterr().err


def test_a_missing_store_and_a_missing_model_are_named(model: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["plan", "--model", model, "--store", str(tmp_path / "none")]) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert main(["plan", "--model", str(tmp_path / "none.json")]) == 2
    assert "none.json: cannot be read" in capsys.readouterr().err


def test_an_architecture_it_cannot_count_is_refused(tmp_path: Path, capsys: Captured) -> None:
    path = folder(tmp_path, LLAMA_8B | {"model_type": "deepseek_v3", "kv_lora_rank": 512})
    assert main(["plan", "--model", path]) == 2
    assert "MLA" in capsys.readouterr().err


def test_a_file_that_is_no_config_is_one_clear_line(tmp_path: Path, capsys: Captured) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# A model\n")
    assert main(["plan", "--model", str(readme)]) == 2
    said = f"{readme}: not JSON, expected a model's config.json or the folder that holds one"
    assert capsys.readouterr().err == f"roundhouse plan: {said}\n"
