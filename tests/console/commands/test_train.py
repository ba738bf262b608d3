"""`roundhouse train` as it is called: what it refuses in one line before anything is loaded, one owner, dry runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.writer import Writer
from console.cli import main
from trainer.tiny_model import write_byte_tokenizer

ROOT = Path(__file__).parents[3]
BOT = '[trainer.adapters.bot]\ntenant = "acme"\nrank = 4\n'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Writer(tmp_path / "store", "collector"):
        pass
    return tmp_path / "store"


def settings(store: Path, text: str = BOT) -> list[str]:
    path = store.parent / "r.toml"
    path.write_text(text)
    return ["train", "--store", str(store), "--config", str(path)]


def files(store: Path) -> list[str]:
    """All but what SQLite keeps beside an open database."""
    return sorted(path.name for path in store.rglob("*") if not path.name.endswith(("-shm", "-wal")))


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    return line


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("", [], 'add three lines to roundhouse.toml: [trainer.adapters.my-bot]  /  tenant = "dev"  /  rank = 16'),
        (BOT, ["--adapter", "bat"], "--adapter is 'bat', expected one of bot"),
        (BOT, ["--once", "--every", "5h"], "--once and a schedule are both given"),
        (BOT, ["--every", "often"], "--every is 'often', expected a number and s, m, h or d"),
        (BOT, ["--min-feedback", "0"], "--min-feedback is 0, expected 1 or more"),
        (BOT + '[trainer.schedule]\nevery = "5"\n', [], "[trainer.schedule] every is '5'"),
        (BOT + '[trainer.schedule]\nidle_windows = ["1-6"]\n', [], "idle_windows holds '1-6'"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    store: Path, text: str, words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
):
    assert expected in refusal([*settings(store, text), *words], capsys)


def test_a_store_that_is_none_and_a_model_that_is_none_are_refused(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = settings(store)
    assert "no such folder, expected a store" in refusal([*words, "--store", str(tmp_path / "no")], capsys)
    assert "no config.json found" in refusal([*words, "--once", "--model", str(tmp_path)], capsys)


def test_a_second_trainer_is_refused_with_the_pid_of_the_first(store: Path, capsys: pytest.CaptureFixture[str]):
    with Writer(store, "trainer"):
        line = refusal([*settings(store), "--once"], capsys)
    assert "another trainer owns this store" in line
    assert f"pid {os.getpid()}" in line


def test_an_engine_that_is_not_there_is_one_line(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_byte_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    words = [*settings(store), "--once", "--json", "--model", str(tmp_path), "--engine", "http://127.0.0.1:9"]
    line = refusal(words, capsys)
    assert "http://127.0.0.1:9 cannot be reached" in line
    assert "nothing was trained" in line


def test_a_tenant_that_the_registry_contradicts_is_refused(store: Path, capsys: pytest.CaptureFixture[str]):
    with Registry(store) as registry:
        registry.register_adapter("bot", tenant="other", base_model="m", actor="ana", reason="test")
    for words in (["--dry-run"], ["--once"]):
        line = refusal([*settings(store), *words], capsys)
        assert "tenant is 'acme', but it is registered as 'other'" in line


def test_a_dry_run_says_what_is_missing_and_writes_nothing(store: Path, capfd: pytest.CaptureFixture[str]):
    before = files(store)
    assert main([*settings(store), "--dry-run", "--every", "5h"]) == 0
    said = capfd.readouterr().out
    assert "bot of acme: 0 update batches" in said
    assert "nothing would be trained" in said
    assert "a cycle is due now: no cycle has run yet" in said
    assert main([*settings(store), "--dry-run", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["adapters"][0]["work"]["funnel"]["captured"] == {"turns": 0, "tokens": 0}
    assert files(store) == before


def test_the_help_explains_and_loads_no_torch():
    code = "import sys, console.cli as c\ntry:\n c.main(['train', '--help'])\nfinally:\n print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
    for word in ("--every", "--min-feedback", "--dry-run", "exit codes", "130 it was told to stop"):
        assert word in done.stdout


def test_a_scheduled_trainer_waits_for_its_engine_and_ends_on_a_signal(store: Path, tmp_path: Path):
    write_byte_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    words = [*settings(store), "--every", "5h", "--plain", "--model", str(tmp_path), "--engine", "http://127.0.0.1:9"]
    command = [sys.executable, "-m", "console", *words, "--stop-with-stdin"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        line = child.stdout.readline()
        # The owner goes: that is a SIGTERM, and it ends between two steps.
        child.stdin.close()
        assert child.wait(60) == 130, child.stderr
    assert "a cycle is due (no cycle has run yet) and waits: listing the loaded adapters: 0 of 1 workers did" in line
    assert "http://127.0.0.1:9" in line
    assert "is it running?" in line
    with Reader(store).snapshot(["spans"]) as snapshot:
        assert [row["kind"] for row in snapshot.arrow("spans").to_pylist()] == ["wait"]
