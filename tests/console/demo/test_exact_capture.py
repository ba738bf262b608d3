"""A real client through the real collector to the embedded engine: what is stored is what was sampled, exactly.

Two witnesses beside the store: a proxy before the engine that keeps every reply, and a plain forward pass.
"""

import http.client
import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import polars as pl
import pytest
import torch
from openai import OpenAI
from transformers import AutoModelForCausalLM

from collector.store.reader import Reader
from collector.store.verify import verify
from console.demo.children import Child
from tests.console.demo.recording_proxy import Recording, recording_proxy
from trainer.tiny_model import write_tiny_model

SESSIONS = 10
TURNS = 4

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny-model", context=4096)


@pytest.fixture(scope="module")
def recording(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    engine = Child("engine", ["--model", str(model)], tmp_path_factory.mktemp("engine"))
    try:
        with recording_proxy(engine.wait_until_ready(120)) as recording:
            yield recording
    finally:
        assert engine.stop()


StartCollector = Callable[[], tuple[Child, str]]


@pytest.fixture
def start(model: Path, recording: Recording, tmp_path: Path) -> Iterator[StartCollector]:
    """Starts a collector on the test's store; it may be started again after it ended."""
    children: list[Child] = []

    def start() -> tuple[Child, str]:
        folder = tmp_path / f"collector-{len(children)}"
        folder.mkdir()
        store = str(tmp_path / "store")
        children.append(Child("collect", ["--engine", recording.url, "--model", str(model), "--store", store], folder))
        return children[-1], children[-1].wait_until_ready(60)

    yield start
    for child in children:
        child.stop()


def client_of(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="none", timeout=60, max_retries=0)


def say(client: OpenAI, messages: list[dict[str, Any]], session: str | None, **sampling: float) -> str:
    """One streamed turn; the reply goes into the messages as the client received it."""
    model = client.models.list().data[0].id
    given = {"temperature": 1.0, "max_tokens": 24, **sampling}
    stream: Any = client.chat.completions.create(
        model=model,
        messages=messages,  # type: ignore[arg-type]
        stream=True,
        extra_headers={} if session is None else {"x-session-id": session},
        **given,  # type: ignore[arg-type]
    )
    response_id, text = "", ""
    for chunk in stream:
        response_id = chunk.id
        text += chunk.choices[0].delta.content or "" if chunk.choices else ""
    messages.append({"role": "assistant", "content": text})
    return response_id.removeprefix("chatcmpl-")


def converse(client: OpenAI, number: int, session: str | None) -> list[str]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": f"You are agent {number}."}]
    turn_ids: list[str] = []
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"question {turn} of {number}: é 🙂"})
        turn_ids.append(say(client, messages, session))
    return turn_ids


def stored(tmp_path: Path) -> pl.DataFrame:
    with Reader(tmp_path / "store").snapshot(["turns"]) as snapshot:
        return snapshot.frame("turns")


def assert_is_what_was_sampled(row: dict[str, Any], recording: Recording) -> None:
    reply = recording.replies[row["turn_id"]]
    assert row["prompt_ids"] == reply.input_ids
    assert row["completion_ids"] == reply.output_ids
    assert [np.float32(value) for value in row["sampled_logprobs"]] == [np.float32(value) for value in reply.logprobs]
    assert len(row["sampled_logprobs"]) == len(row["completion_ids"]) > 0


def test_ten_sessions_are_stored_as_they_were_sampled(
    start: StartCollector, recording: Recording, model: Path, tmp_path: Path
) -> None:
    child, url = start()
    client = client_of(url)
    # Every other session names itself; the others are told by what they continue.
    names = [f"s{number}" if number % 2 else None for number in range(SESSIONS)]
    with ThreadPoolExecutor(5) as pool:
        said = list(pool.map(lambda number: converse(client, number, names[number]), range(SESSIONS)))
    assert child.stop()

    turns = stored(tmp_path)
    rows = {row["turn_id"]: row for row in turns.to_dicts()}
    assert rows.keys() == {turn_id for turn_ids in said for turn_id in turn_ids} <= recording.replies.keys()
    assert turns["session_id"].n_unique() == SESSIONS
    for turn_ids in said:
        for turn_id in turn_ids:
            assert_is_what_was_sampled(rows[turn_id], recording)
        assert rows[turn_ids[0]]["parent_turn_id"] is None
        for before, after in pairwise(rows[turn_id] for turn_id in turn_ids):
            assert after["session_id"] == before["session_id"]
            assert (after["link"], after["parent_turn_id"]) == ("extends", before["turn_id"])
            parent_ids = before["prompt_ids"] + before["completion_ids"]
            assert after["prompt_ids"][: len(parent_ids)] == parent_ids
    assert all(row["trainable"] and row["untrainable_reason"] is None for row in rows.values())
    assert_mu_is_the_models(model, list(rows.values())[-4:])
    assert verify(tmp_path / "store").clean


def assert_mu_is_the_models(model: Path, rows: list[dict[str, Any]]) -> None:
    """The second witness: log softmax of a plain forward pass over the stored ids."""
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for row in rows:
        ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
        with torch.no_grad():
            logprobs = torch.log_softmax(network(ids).logits[0], dim=-1)
        first = len(row["prompt_ids"])
        expected = [logprobs[first - 1 + at, token].item() for at, token in enumerate(row["completion_ids"])]
        assert row["sampled_logprobs"] == pytest.approx(expected, abs=1e-4)


def test_top_p_and_greedy_turns_are_untrainable_with_the_reason(
    start: StartCollector, recording: Recording, tmp_path: Path
) -> None:
    child, url = start()
    client = client_of(url)
    messages = [{"role": "user", "content": "hello"}]
    cut = say(client, list(messages), "cut", top_p=0.95)
    greedy = say(client, list(messages), "greedy", temperature=0.0)
    plain = say(client, list(messages), "plain", temperature=0.7)
    assert child.stop()
    rows = {row["turn_id"]: row for row in stored(tmp_path).to_dicts()}
    found = {turn_id: (rows[turn_id]["trainable"], rows[turn_id]["untrainable_reason"]) for turn_id in rows}
    assert found == {cut: (False, "top_p"), greedy: (False, "greedy"), plain: (True, None)}
    assert (rows[cut]["top_p"], recording.replies[cut].top_p) == (0.95, 0.95)
    assert (rows[greedy]["temperature"], recording.replies[greedy].temperature) == (0.0, 0.0)
    assert (rows[plain]["temperature"], rows[plain]["top_p"]) == (0.7, 1.0)
    for row in rows.values():
        assert_is_what_was_sampled(row, recording)


def read_until_done(url: str, body: dict[str, Any], session: str) -> tuple[str, str]:
    """Turn id and text of a streamed turn; returns the moment the last event has arrived."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {"content-type": "application/json", "x-session-id": session}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    reply = connection.getresponse()
    seen = b""
    while b"data: [DONE]" not in seen:
        seen += reply.read1(65536)
    connection.sock.close()
    lines = [line.removeprefix("data: ") for line in seen.decode().split("\n") if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
    return str(chunks[0]["id"]).removeprefix("chatcmpl-"), text


def test_a_turn_is_durable_before_its_last_event_and_a_restart_keeps_splicing(
    start: StartCollector, recording: Recording, tmp_path: Path
) -> None:
    messages: list[dict[str, Any]] = []
    turn_ids: list[str] = []
    for turn in range(4):
        child, url = start()
        messages.append({"role": "user", "content": f"question {turn}"})
        name = client_of(url).models.list().data[0].id
        body = {"model": name, "messages": messages, "stream": True, "max_tokens": 20, "temperature": 1.0}
        turn_id, text = read_until_done(url, body, "one")
        os.kill(child.pid, signal.SIGKILL)
        assert not child.stop()
        turn_ids.append(turn_id)
        messages.append({"role": "assistant", "content": text})
        rows = {row["turn_id"]: row for row in stored(tmp_path).to_dicts()}
        assert list(rows) == turn_ids
        assert_is_what_was_sampled(rows[turn_id], recording)
        if turn:
            before = rows[turn_ids[-2]]
            assert (rows[turn_id]["link"], rows[turn_id]["parent_turn_id"]) == ("extends", before["turn_id"])
            parent_ids = before["prompt_ids"] + before["completion_ids"]
            assert rows[turn_id]["prompt_ids"][: len(parent_ids)] == parent_ids
        assert rows[turn_id]["turn"] == turn + 1
    assert verify(tmp_path / "store").clean
