"""`roundhouse doctor` on a model folder, on a running engine, on settings and on a log."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.doctor.point import Point
from collector.engine.wire import GenerateRequest
from collector.errors import EngineError
from collector.fakes import ScriptedEngine, Step, deltas
from console.cli import main
from console.doctor.engine_probe import engine_points
from tests.collector.published import template_source
from trainer.tiny_model import write_byte_tokenizer, write_tiny_model


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_byte_tokenizer(tmp_path)
    return tmp_path


def test_a_plain_template_is_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = doctor(capsys, str(folder))
    assert (code, found["wrong"], found["examined"], found["target"]) == (0, [], ["model"], str(folder))
    stable = {each["dialogue"]: each["prefix_stable"] for each in found["dialogues"]}
    assert stable["plain"] is True
    assert stable["thinking"] is None
    assert main(["doctor", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing is wrong"


def test_qwen3s_template_is_not_prefix_stable_and_the_text_says_where(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "chat_template.jinja").write_text(template_source("Qwen-Qwen3-0.6B.jinja"), encoding="utf-8")
    code, found = doctor(capsys, str(folder))
    assert (code, found["wrong"]) == (1, ["thinking", "thinking then plain", "thinking off"])
    (thinking,) = [each for each in found["dialogues"] if each["dialogue"] == "thinking"]
    assert [each["kind"] for each in thinking["breaks"]] == ["reasoning_stripped"] * 2
    assert main(["doctor", str(folder)]) == 1
    text = capsys.readouterr().out
    assert "WARN  thinking " in text
    assert "turn 2, token 22, reasoning_stripped" in text
    assert text.splitlines()[-1].startswith("3 of ")


def test_text_of_a_template_cannot_write_on_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "{{ raise_exception('\x1b[2J\x07gone') }}"
    (folder / "chat_template.jinja").write_text(source, encoding="utf-8")
    assert main(["doctor", str(folder)]) == 1
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\\x1b[2J\\x07gone" in text


def test_a_folder_without_a_template_or_a_tokenizer_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    code, found = doctor(capsys, str(folder))
    assert (code, found["wrong"], found["dialogues"]) == (1, ["chat template"], [])
    (folder / "tokenizer.json").unlink()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    assert main(["doctor", str(folder)]) == 2
    assert "holds no tokenizer.json" in capsys.readouterr().err


def test_a_run_folder_with_a_configuration_of_its_own_is_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"learning_rate": 1e-5}')
    (tmp_path / "log.jsonl").write_text('{"session_id": "s", "prompt_ids": [1], "completion_ids": [2], "top_p": 0.9}\n')
    code, found = doctor(capsys, str(tmp_path))
    assert (code, found["examined"], found["wrong"]) == (1, ["log"], ["sampling is not truncated"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to examine"),
        (["no/such/place"], "no/such/place does not exist"),
        (["http://127.0.0.1:9/x"], "expected http://HOST:PORT"),
        (["http://127.0.0.1:9"], "cannot be reached"),
        (["--run", "no/such/file.toml"], "no/such/file.toml: No such file or directory; expected JSON or TOML"),
    ],
)
def test_what_cannot_be_examined_is_one_line_and_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_settings_of_a_trainer_and_its_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        '[trainer]\ndtype = "float32"\ntemperature = 0.6\n[engine]\ndtype = "bfloat16"\nlogprob_mode = "raw"\n'
        "temperature = 0.6\ntop_p = 0.95\n"
    )
    code, found = doctor(capsys, "--run", str(file))
    assert (code, found["examined"]) == (1, ["run"])
    assert {each["name"]: each["status"] for each in found["points"]} == {
        "trainer and engine compute alike": "warn",
        "the trainer scores at the sampling temperature": "ok",
        "log-probabilities are those of the sampling distribution": "fail",
        "sampling is not truncated": "fail",
        "no penalties": "no_data",
    }
    file.write_text("[engine]\ntop_q = 1.0\n")
    assert main(["doctor", "--run", str(file)]) == 2
    assert "top_q" in capsys.readouterr().err


def test_settings_that_nobody_gives_are_not_said_to_be_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[trainer]\n")
    assert main(["doctor", "--run", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "nothing is wrong; 5 of 5 could not be told (n/a)"
    assert not any(line.startswith("ok") for line in out.splitlines())


def test_the_ways_of_sampling_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turn = {"session_id": "s", "prompt_ids": [1], "completion_ids": [2], "logprob_mode": "raw"}
    rows = [
        turn | {"temperature": 1.0},
        turn | {"temperature": 1.0},
        turn | {"temperature": 0.5},
        {"record": "run", "precision": "bfloat16", "logprob_mode": "raw"},
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, found = doctor(capsys, str(log))
    assert (code, found["examined"]) == (1, ["log"])
    assert [each["said"] for each in found["points"] if each["status"] == "fail"] == [
        "raw at T = 0.5: mu is another distribution's (1 turns)"
    ]
    assert ("precision of the runs", "bfloat16") in [(each["name"], each["said"]) for each in found["points"]]


@pytest.fixture(scope="module")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from tests.trainer.engine.loopback import serving
    from trainer.engine_config import EngineConfig

    with serving(EngineConfig(model=str(write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")))) as served:
        yield served.url


def test_the_embedded_engine_gives_what_capture_needs(engine_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = doctor(capsys, engine_url)
    assert (code, found["wrong"]) == (0, [])
    points = {each["name"]: each for each in found["points"]}
    assert points["engine"]["said"] == "the embedded engine, dtype float32"
    assert points["as many log-probabilities as tokens"]["said"] == "4 log-probabilities for 4 tokens"
    assert points["the prompt is taken as it is"]["said"] == "16 ids sent, 16 counted"
    assert points["weights are labelled"]["said"] == "spans say 'default'"
    assert points["log-probabilities are at the sampling temperature"]["status"] == "ok"


class ProbedFake(ScriptedEngine):
    """A scripted engine that says its settings."""

    refuses: EngineError | None = None

    async def server_info(self) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        return {"version": "0.5.23", "max_loras_per_batch": 2}


def raw_at_every_temperature(request: GenerateRequest) -> list[Step]:
    count = request.sampling_params.max_new_tokens
    ids = [request.input_ids[0] + number for number in range(count)]
    return deltas(ids, prompt_tokens=len(request.input_ids), logprob=-1.25)


def by_name(points: list[Point]) -> dict[str, Point]:
    return {point.name: point for point in points}


async def test_an_engine_whose_log_probabilities_ignore_the_temperature_is_found_out() -> None:
    points = by_name(await engine_points(ProbedFake(raw_at_every_temperature)))
    found = points["log-probabilities are at the sampling temperature"]
    assert (found.status, found.said) == ("fail", "raw: 4 tokens have the same at T = 0.1 as at T = 1")
    assert points["as many log-probabilities as tokens"].status == "ok"
    assert points["--enable-lora"].status == "no_data"


async def test_an_engine_that_refuses_or_breaks_its_contract_is_told_in_its_words() -> None:
    fake = ProbedFake(lambda request: [EngineError("sent 3 log-probabilities for 4 tokens")])
    fake.refuses = EngineError("answered /server_info with 404", status=404)
    points = by_name(await engine_points(fake))
    assert (points["a few tokens"].status, points["a few tokens"].said) == (
        "fail",
        "sent 3 log-probabilities for 4 tokens",
    )
    assert points["settings"].status == "no_data"


async def test_an_engine_without_a_free_slot_has_no_room_for_a_publication() -> None:
    fake = ProbedFake(raw_at_every_temperature)
    fake.loaded = {"bot@1": "/bot-1"}
    slots = by_name(await engine_points(fake))["adapter slots"]
    assert (slots.status, slots.said) == ("warn", "1 of 1 taken (bot@1): a new version finds no room")
    fake.loaded = {}
    assert by_name(await engine_points(fake))["adapter slots"].said == "0 of 1 taken"


async def test_a_paused_engine_is_not_waited_for() -> None:
    fake = ProbedFake(raw_at_every_temperature)
    fake.is_ready = False
    points = by_name(await engine_points(fake))
    assert points["a few tokens"].status == "warn"
    assert fake.requests == []
