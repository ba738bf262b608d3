"""`roundhouse collect` as a process: it says where it listens, drains, and leaves a whole store."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collector.errors import StoreError
from collector.fakes import Pause, ScriptedEngine, deltas
from collector.keys import sha256_of
from collector.ready_file import read_ready_file
from collector.rendering.renderer import Renderer
from collector.store.reader import Reader
from collector.user_hash import user_key
from tests.collector.loopback import serve, until
from tests.collector.published import small_backend, template_source

ROOT = Path(__file__).parents[2]
END = "<|im_end|>"
HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "small-model"
    folder.mkdir()
    small_backend().save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(template_source("Qwen-Qwen3-0.6B.jinja"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    (folder / "config.json").write_text('{"max_position_embeddings": 4096, "eos_token_id": 151645}')
    return folder


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "console", "collect", *map(str, words)]


@contextmanager
def collecting(engine: str, model: Path, store: Path, *more: str) -> Generator[subprocess.Popen[str]]:
    words = command("--engine", engine, "--model", model, "--store", store, "--port", "0", *more)
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def url_of(process: subprocess.Popen[str], file: Path) -> str:
    await until(lambda: file.exists() or process.poll() is not None, timeout_s=60)
    assert process.poll() is None, process.communicate()
    return read_ready_file(file).url


def named_by_client(app: ASGIApp) -> ASGIApp:
    """An engine names a request as its client does, a collector by the id of its turn; both are of one length."""

    async def renamed(scope: Scope, receive: Receive, send: Send) -> None:
        body = turn_id = b""

        async def read() -> Message:
            nonlocal body
            message = await receive()
            body += message.get("body", b"")
            return message

        async def write(message: Message) -> None:
            nonlocal turn_id
            if message["type"] == "http.response.start":
                turn_id = dict(message["headers"]).get(b"x-roundhouse-turn", b"")
            elif turn_id:
                rid = json.loads(body)["rid"].encode()
                message = {**message, "body": message.get("body", b"").replace(turn_id, rid)}
            await send(message)

        await app(scope, read, write)

    return renamed


@asynccontextmanager
async def engine_of(small: Renderer, *scripts: Callable[[Any], Any]) -> AsyncGenerator[Any]:
    """An engine over HTTP: a collector's own /generate, which speaks an engine's shape."""
    async with serve(small, ScriptedEngine(*scripts), wrap=named_by_client) as served:
        yield served


async def test_ten_sessions_through_the_openai_client_are_in_the_store_token_by_token(
    small: Renderer, model: Path, tmp_path: Path
) -> None:
    texts = [f"<think>\nHm {n}.\n</think>\n\nAnswer {n}.{END}" for n in range(7)]
    ids = [small.tokenizer.encode(text) for text in texts]

    def script(request: Any) -> Any:
        return deltas(ids[len(request.input_ids) % 7], prompt_tokens=len(request.input_ids), size=3)

    store, ready = tmp_path / "store", tmp_path / "ready"
    async with engine_of(small, script) as engine:
        with collecting(engine.url, model, store, "--ready-file", str(ready)) as process:
            url = await url_of(process, ready)
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:

                async def session(number: int) -> None:
                    messages: list[Any] = [{"role": "user", "content": f"Question {number}"}]
                    for turn in range(4):
                        async with client.chat.completions.stream(
                            model="small-model", messages=messages, extra_headers={"x-session-id": f"s{number}"}
                        ) as stream:
                            final = await stream.get_final_completion()
                        content = final.choices[0].message.content
                        messages += [
                            {"role": "assistant", "content": content},
                            {"role": "user", "content": f"And {turn}?"},
                        ]

                await asyncio.gather(*(session(number) for number in range(10)))
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 30) == 0
        asked = [request.input_ids for request in engine.engine.requests]
    with Reader(store).snapshot() as snapshot:
        turns = snapshot.frame("turns").to_dicts()
    assert len(turns) == 40
    assert sorted(list(turn["prompt_ids"]) for turn in turns) == sorted(asked)
    for turn in turns:
        assert list(turn["completion_ids"]) in ids
        assert list(turn["sampled_logprobs"]) == [-0.5 - index / 1024 for index in turn["completion_ids"]]
        assert turn["trainable"]
    for name in {turn["session_id"] for turn in turns}:
        line = sorted((turn for turn in turns if turn["session_id"] == name), key=lambda turn: turn["turn"])
        assert [turn["link"] for turn in line] == ["root", "extends", "extends", "extends"]
        for earlier, later in pairwise(line):
            before = [*earlier["prompt_ids"], *earlier["completion_ids"]]
            assert list(later["prompt_ids"])[: len(before)] == before
            assert later["parent_turn_id"] == earlier["turn_id"]


async def test_a_second_collector_on_one_store_is_refused_in_one_line(
    small: Renderer, model: Path, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    with collecting("http://127.0.0.1:9", model, tmp_path / "store", "--ready-file", str(ready)) as first:
        await url_of(first, ready)
        words = command(
            "--engine", "http://127.0.0.1:9", "--model", model, "--store", tmp_path / "store", "--port", "0"
        )
        second = await asyncio.to_thread(
            subprocess.run, words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert second.returncode == 2
        assert len(second.stderr.splitlines()) == 1
        assert str(first.pid) in second.stderr


async def test_an_engine_that_is_not_there_is_503_and_on_record(model: Path, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with collecting("http://127.0.0.1:9", model, tmp_path / "store", "--ready-file", str(ready)) as process:
        url = await url_of(process, ready)
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
            with pytest.raises(openai.InternalServerError) as raised:
                await client.chat.completions.create(model="small-model", messages=HI)  # type: ignore[arg-type]
            assert raised.value.status_code == 503
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 30) == 0
    with Reader(tmp_path / "store").snapshot() as snapshot:
        assert snapshot.frame("turns")["finish_reason"].to_list() == ["error"]


async def test_stopping_waits_for_running_replies(small: Renderer, model: Path, tmp_path: Path) -> None:
    ids = small.tokenizer.encode(f"slow{END}")
    ready = tmp_path / "ready"
    async with engine_of(small, lambda _: [*deltas(ids)[:1], Pause(1.0), *deltas(ids)[1:]]) as engine:
        with collecting(engine.url, model, tmp_path / "store", "--ready-file", str(ready)) as process:
            url = await url_of(process, ready)
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
                call = client.chat.completions.create(model="small-model", messages=HI)  # type: ignore[arg-type]
                task = asyncio.create_task(call)  # type: ignore[arg-type]
                await until(lambda: engine.engine.requests)
                process.send_signal(signal.SIGTERM)
                answer = await asyncio.wait_for(task, 20)
                assert answer.choices[0].message.content == "slow"
            assert await asyncio.to_thread(process.wait, 30) == 0
    with Reader(tmp_path / "store").snapshot() as snapshot:
        assert snapshot.frame("turns")["complete"].to_list() == [True]


def is_listening(url: str) -> bool:
    with (
        contextlib.suppress(ConnectionRefusedError),
        socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 10),
    ):
        return True
    return False


@pytest.mark.parametrize(("drain_timeout_s", "signals"), [(60.0, 2), (0.2, 1)])
async def test_a_second_signal_and_the_drains_end_cut_replies_off_and_record_them(
    small: Renderer, model: Path, tmp_path: Path, drain_timeout_s: float, signals: int
) -> None:
    ids = small.tokenizer.encode(f"slow{END}")
    ready, config = tmp_path / "ready", tmp_path / "roundhouse.toml"
    config.write_text(f"[collector]\ndrain_timeout_s = {drain_timeout_s}\n")
    words = ("--ready-file", str(ready), "--config", str(config))
    async with engine_of(small, lambda _: [*deltas(ids)[:1], Pause(100.0), *deltas(ids)[1:]]) as engine:
        with collecting(engine.url, model, tmp_path / "store", *words) as process:
            url = await url_of(process, ready)
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
                call = client.chat.completions.create(model="small-model", messages=HI)  # type: ignore[arg-type]
                task = asyncio.create_task(call)  # type: ignore[arg-type]
                await until(lambda: engine.engine.requests)
                process.send_signal(signal.SIGTERM)
                if signals == 2:
                    await until(lambda: not is_listening(url))
                    process.send_signal(signal.SIGINT)
                _, err = await asyncio.to_thread(process.communicate, timeout=50)
                with pytest.raises(openai.APIConnectionError):
                    await task
    assert process.returncode == 0
    # The one line is about this test's engine, which has no /abort_request.
    assert [line for line in err.splitlines() if "could not be aborted" not in line] == []
    with Reader(tmp_path / "store").snapshot() as snapshot:
        assert snapshot.frame("turns")["complete"].to_list() == [False]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--host", "0.0.0.0"], "expected a loopback address"),
        (["--engine", "ftp://x"], "the engine's URL is 'ftp://x', expected http://HOST:PORT"),
        (["--model", "/nowhere"], "holds no tokenizer.json"),
        (["--config", "/nowhere.toml"], "cannot be read"),
        (["--port", "99999"], "port is 99999, expected 0 to 65535"),
    ],
)
def test_a_call_that_cannot_be_served_is_one_clear_line(
    model: Path, tmp_path: Path, words: list[str], line: str
) -> None:
    call = command("--engine", "http://127.0.0.1:9", "--model", model, "--store", tmp_path, "--port", "0", *words)
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert line in done.stderr


def test_a_new_key_is_printed_once_with_its_line_for_the_configuration(tmp_path: Path) -> None:
    done = subprocess.run(
        command("--new-key", "acme"), cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    key = done.stdout.splitlines()[0].rpartition(" ")[2]
    section = done.stdout[done.stdout.index("[collector.keys]") :]
    assert tomllib.loads(section) == {"collector": {"keys": {sha256_of(key): "acme"}}}


def test_the_users_key_of_a_store_is_made_once_and_private(tmp_path: Path) -> None:
    (tmp_path / "user_hash.key.tmp").write_bytes(b"left by a power loss, and open to all")
    assert user_key(tmp_path) == user_key(tmp_path)
    assert len(user_key(tmp_path)) == 32
    assert os.stat(tmp_path / "user_hash.key").st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["user_hash.key"]


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_users_key_of_another_length_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "user_hash.key").write_bytes(b"k" * size)
    with pytest.raises(StoreError, match=rf"user_hash.key: {size} bytes, expected the 32 .*; restore it"):
        user_key(tmp_path)
