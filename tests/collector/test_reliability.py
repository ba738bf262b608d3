"""What is acknowledged stays, and what goes wrong is bounded: the collector with a real store and things that fail.

The list of reliability tests, and where each of them is. Short forms always run; the long ones by `--long`.

1. Killed with SIGKILL while it writes: `store/test_kill.py` (every point of a commit, a seal, a merge, a start and a
   repair; 210 kills by `--long`), and as a whole process under traffic: `test_reliability_process.py`.
2. Power loss, by the order of system calls under strace: `store/test_fsync_order.py` for the journal,
   `test_reliability_process.py` for the bytes that a client gets.
3. A full disk: `store/test_writer.py` for the journal (12 MB), here for clients under both policies. No free file
   descriptor: `store/test_writer.py`. A disk that turns read-only: here.
4. A slow disk: here (and `store/test_writer.py` for the caller of the journal).
5. Corruption: `store/test_corruption.py` (by kind and by file, with verify's exit code), `store/test_verify.py`,
   `store/test_segment_rows.py`, `store/test_reader.py`.
6. Clients that leave before the first byte and mid-stream: `test_app_waiting_clients.py`; after the last byte, and slow
   readers: here. A body of 1 GiB: `test_reliability_process.py`. The same body again, Claude Code's fallback:
   `test_attempts.py`, and across a restart `test_earlier_attempts.py`. An engine that answers 429 or 5xx, is silent,
   cuts or garbles: here through the real client of the engine, `engine/test_client.py` for that client,
   `engine/test_event_stream.py` and `test_stream_cutting.py` for every byte offset.
7. Real clients: `tests/clients/`; what breaks them is absent: `test_stream_defects.py`.
8. Clock jumps: `test_reliability_process.py`. Weights that change while the collector restarts: here. Two collectors on
   one folder: `test_server.py`, `store/test_writer.py`.
"""

import asyncio
import json
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from collector.config import CollectorConfig, StoreConfig
from collector.engine.client import EngineClient
from collector.engine.wire import Finish, Span
from collector.errors import StoreError
from collector.fakes import Pause, ScriptedEngine, deltas
from collector.past import StoredPast
from collector.rendering.renderer import Renderer
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer
from console.cli import main
from tests.collector.engine.stub_engine import STREAM_HEAD, Answer, answer, stub_engine
from tests.collector.loopback import Served, post, serve, until

END = "<|im_end|>"
CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {"model": "model", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2000}
CALM = StoreConfig(seal_interval_s=1e9, seal_bytes=2**40)


@asynccontextmanager
async def collecting(
    renderer: Renderer,
    engine: ScriptedEngine,
    store: Path,
    *,
    config: CollectorConfig | None = None,
    store_config: StoreConfig = CALM,
    hook: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[Served]:
    with Writer(store, "collector", store_config, hook=hook) as writer:
        async with serve(renderer, engine, journal=writer, past=StoredPast(store), config=config) as served:
            yield served


def stored(store: Path) -> list[dict[str, Any]]:
    with Reader(store).snapshot() as snapshot:
        assert snapshot.damage == ()
        return snapshot.frame("turns").sort("seq").to_dicts()


def turn_of(headers: dict[str, str]) -> str:
    return headers["x-roundhouse-turn"]


async def test_a_slow_disk_delays_the_last_event_of_a_stream_and_nothing_before_it(
    small: Renderer, tmp_path: Path
) -> None:
    """Of two streams at once every token arrives while the disk holds the first one's record back."""
    let_go, held = threading.Event(), threading.Event()

    def hook(point: str) -> None:
        if point == "committed":
            held.set()
            assert let_go.wait(60)

    ids = small.tokenizer.encode(f"one two three{END}")
    async with (
        collecting(small, ScriptedEngine(lambda _: deltas(ids)), tmp_path, hook=hook) as served,
        aiohttp.ClientSession() as session,
    ):
        streams = [await session.post(f"{served.url}{CHAT}", json={**ASK, "stream": True}) for _ in range(2)]
        for stream in streams:
            said = ""
            # Everything but the finish reason and the end.
            while said != "one two three":
                line = await stream.content.readline()
                if line.startswith(b"data: "):
                    said += json.loads(line[6:])["choices"][0]["delta"].get("content", "")
        await until(held.is_set)
        whole = [asyncio.create_task(stream.read()) for stream in streams]
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in whole)
        let_go.set()
        for task in whole:
            assert (await task).endswith(b"data: [DONE]\n\n")
    assert [turn["complete"] for turn in stored(tmp_path)] == [True, True]


@pytest.mark.parametrize("delay_s", [0.05, 0.5, pytest.param(5.0, marks=[pytest.mark.long, pytest.mark.timeout(300)])])
async def test_however_slow_the_disk_the_queue_is_bounded_and_all_that_is_answered_is_there(
    small: Renderer, tmp_path: Path, delay_s: float
) -> None:
    def hook(point: str) -> None:
        if point == "committed":
            threading.Event().wait(delay_s)

    ids = small.tokenizer.encode(f"Hi.{END}")
    engine = ScriptedEngine(lambda _: deltas(ids, size=9))
    bounded = StoreConfig(seal_interval_s=1e9, queue_rows=8, group_commit_rows=2)
    config = CollectorConfig(on_store_failure="refuse")
    most = 0
    async with collecting(small, engine, tmp_path, config=config, store_config=bounded, hook=hook) as served:

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, served.journal.queued)
                await asyncio.sleep(0.002)

        watching = asyncio.create_task(watch())
        answers = await asyncio.gather(*(post(served, CHAT, ASK) for _ in range(24)))
        watching.cancel()
        taken = [turn_of(headers) for status, headers, _ in answers if status == 200]
        refused = [(status, headers.get("Retry-After")) for status, headers, _ in answers if status != 200]
    assert taken
    assert most <= 8
    assert set(refused) <= {(503, "5")}
    # Refused before anything was sampled, or taken back: never answered and lost.
    ids_stored = [turn["turn_id"] for turn in stored(tmp_path)]
    assert len(ids_stored) == len(set(ids_stored))
    assert set(taken) <= set(ids_stored)
    assert verify(tmp_path).clean


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount(["-t", "tmpfs", "-o", "size=12m", "tmpfs", str(disk)], disk)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def mount(words: list[str], disk: Path) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"NOT TESTED, a disk that fails: nothing may be mounted here ({done.stderr.strip()})")


@pytest.mark.parametrize("policy", ["serve", "refuse"])
@pytest.mark.parametrize("stream", [True, False])
async def test_on_a_full_disk_the_policy_is_obeyed_and_afterwards_all_is_as_before(
    small: Renderer, tiny_disk: Path, policy: Any, stream: bool
) -> None:
    ids = small.tokenizer.encode(f"Hi.{END}")
    engine = ScriptedEngine(lambda _: deltas(ids, size=9))
    store = tiny_disk / "store"
    acknowledged: list[str] = []
    async with collecting(small, engine, store, config=CollectorConfig(on_store_failure=policy)) as served:
        ballast = tiny_disk / "ballast"
        ballast.write_bytes(bytes(shutil.disk_usage(tiny_disk).free - 1_000_000))
        unrecorded: list[tuple[int, Any]] = []
        for number in range(60):
            filler = {"role": "user", "content": os.urandom(15_000).hex()}
            body = {**ASK, "messages": [filler], "stream": stream, "max_tokens": 5 + number}
            status, headers, said = await post(served, CHAT, body)
            marked = headers.get("x-roundhouse-recorded") == "false" or ": not recorded" in str(said)
            broken = stream and "error" in str(said).partition("[DONE]")[0] and "[DONE]" not in str(said)
            if status == 200 and not marked and not broken:
                acknowledged.append(turn_of(headers))
                assert not unrecorded
            else:
                unrecorded.append((status, marked))
            if len(unrecorded) == 3:
                break
        assert len(unrecorded) == 3
        asked = len(engine.requests)
        if policy == "serve":
            assert unrecorded == [(200, True)] * 3
            assert served.collector.metrics.unrecorded.labels("turns")._value.get() == 3
        else:
            # The one that found out was taken back; from then on nothing is sampled.
            assert [marked for _, marked in unrecorded] == [False] * 3
            assert asked == len(acknowledged) + 1
            assert unrecorded[1:] == [(503, False)] * 2
        assert [turn["turn_id"] for turn in stored(store)] == acknowledged
        ballast.unlink()
        await until(lambda: served.journal.failure is None)
        status, headers, _ = await post(served, CHAT, ASK)
        assert status == 200
        acknowledged.append(turn_of(headers))
    assert [turn["turn_id"] for turn in stored(store)] == acknowledged
    assert verify(store).clean


@pytest.fixture
def breaking_disk(tmp_path: Path) -> Generator[tuple[Path, Callable[[], None]]]:
    """An ext4 file system, and what makes the kernel turn it read-only under its users, as after an I/O error."""
    disk, image = tmp_path / "disk", tmp_path / "image"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(48 * 2**20)
    try:
        made = subprocess.run(["mkfs.ext4", "-q", "-e", "remount-ro", str(image)], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("NOT TESTED, a disk that turns read-only: there is no mkfs.ext4 here")
    assert made.returncode == 0, made.stderr
    mount(["-o", "loop", str(image), str(disk)], disk)
    source = subprocess.run(["findmnt", "-n", "-o", "SOURCE", str(disk)], capture_output=True, text=True).stdout
    trigger = Path("/sys/fs/ext4") / Path(source.strip()).name / "trigger_fs_error"

    def turn_read_only() -> None:
        trigger.write_text("a disk error, for a test")

    try:
        if not os.access(trigger, os.W_OK):
            pytest.skip(f"NOT TESTED, a disk that turns read-only: {trigger} cannot be written")
        yield disk, turn_read_only
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_disk_that_turns_read_only_loses_nothing_acknowledged_and_says_so(
    small: Renderer, breaking_disk: tuple[Path, Callable[[], None]], capsys: pytest.CaptureFixture[str]
) -> None:
    disk, turn_read_only = breaking_disk
    store = disk / "store"
    ids = small.tokenizer.encode(f"Hi.{END}")
    engine = ScriptedEngine(lambda _: deltas(ids, size=9))
    async with collecting(small, engine, store, config=CollectorConfig(on_store_failure="refuse")) as served:
        acknowledged = [turn_of((await post(served, CHAT, ASK))[1]) for _ in range(5)]
        turn_read_only()
        statuses = [(await post(served, CHAT, ASK))[0] for _ in range(3)]
        assert statuses == [503] * 3
        assert len(engine.requests) == 6
        assert "expected to write to it; make room or repair the disk" in str(served.journal.failure)
        ready = await served.collector.not_ready()
        assert [line for line in ready if line.startswith("records cannot be stored")]
    # What is there is read though nothing can be written, not even SQLite's own shared memory.
    assert [turn["turn_id"] for turn in stored(store)][:5] == acknowledged
    with pytest.raises(StoreError) as refused:
        Writer(store, "collector")
    assert "\n" not in str(refused.value)
    capsys.readouterr()
    assert main(["sql", "--store", str(store), "--json", "select count(*) as n from turns"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["n"] >= 5


async def test_a_client_that_leaves_after_the_last_byte_changes_nothing(small: Renderer, tmp_path: Path) -> None:
    ids = small.tokenizer.encode(f"Hi.{END}")
    engine = ScriptedEngine(lambda _: deltas(ids))
    async with collecting(small, engine, tmp_path) as served:
        host, port = served.url.removeprefix("http://").split(":")
        body = json.dumps({**ASK, "stream": True}).encode()
        for _ in range(5):
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            # Not the end of the body: only the last byte that says something.
            await reader.readuntil(b"[DONE]\n\n")
            writer.transport.abort()
        await until(lambda: served.collector.capture.running == 0)
        assert engine.aborted == []
    assert [(turn["complete"], turn["finish_reason"], turn["trainable"]) for turn in stored(tmp_path)] == [
        (True, "stop", True)
    ] * 5


async def test_a_reader_that_is_slow_holds_the_engine_back_and_not_the_memory(small: Renderer, tmp_path: Path) -> None:
    ids = small.tokenizer.encode("x" * 20_000)
    given = 0

    def script(_: Any) -> Any:
        nonlocal given
        for step in deltas(ids, finish=Finish(type="length", length=len(ids))):
            given += 1
            yield step

    async with collecting(small, ScriptedEngine(script), tmp_path) as served:
        host, port = served.url.removeprefix("http://").split(":")
        body = json.dumps({**ASK, "max_tokens": 25_000, "stream": True}).encode()
        # A small window, so that what the kernel takes in does not hide the waiting.
        reader, writer = await asyncio.open_connection(host, int(port), limit=2**12)
        head = f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        before = -1
        while given != before or given == 0:
            before = given
            await asyncio.sleep(0.5)
        assert 0 < given < len(ids)
        # Others are served meanwhile.
        assert (await post(served, "/generate", {"input_ids": [1], "sampling_params": {"max_new_tokens": 1}}))[0] == 200
        held_at = before
        said = await asyncio.wait_for(reader.read(), 60)
        writer.close()
    assert said.count(b'"content":"x"') == len(ids)
    assert held_at < len(ids)
    assert stored(tmp_path)[-1]["completion_ids"] == ids


FAULTS: dict[str, tuple[Answer, int]] = {}


def fault(name: str, status: int) -> Callable[[Answer], Answer]:
    def keep(respond: Answer) -> Answer:
        FAULTS[name] = (respond, status)
        return respond

    return keep


@fault("429", 503)
async def _(_: Any, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(429, b'{"error": {"message": "slow down"}}'))


@fault("500", 502)
async def _(_: Any, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(500, b"Internal Server Error", "text/plain"))


@fault("503", 503)
async def _(_: Any, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(503, b"{}"))


@fault("silence", 503)
async def _(_: Any, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


@fault("closed at once", 503)
async def _(_: Any, writer: asyncio.StreamWriter) -> None:
    writer.close()


@fault("garbage", 502)
async def _(_: Any, writer: asyncio.StreamWriter) -> None:
    writer.write(STREAM_HEAD + b"data: {]\n\ndata: [DONE]\n\n")
    writer.close()


@fault("not HTTP", 503)
async def _(_: Any, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff\x00\xff\r\n\r\n")
    writer.close()


@fault("no event at all", 503)
async def _(_: Any, writer: asyncio.StreamWriter) -> None:
    writer.write(STREAM_HEAD)
    writer.close()


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("stream", [True, False])
async def test_whatever_the_engine_does_a_client_gets_an_answer_and_the_turn_a_record(
    small: Renderer, tmp_path: Path, name: str, stream: bool
) -> None:
    respond, expected = FAULTS[name]

    async def only_generate(request: Any, writer: asyncio.StreamWriter) -> None:
        if request.line == "POST /generate":
            await respond(request, writer)
        else:
            writer.write(answer(200, b'{"model_path": "scripted"}'))

    async with stub_engine(only_generate) as stub:
        client = EngineClient(stub.url, idle_timeout_s=0.3)
        try:
            async with collecting(small, client, tmp_path) as served:  # type: ignore[arg-type]  # it samples all the same
                status, headers, said = await post(served, CHAT, {**ASK, "stream": stream})
        finally:
            await client.close()
    assert (status, said["error"]["type"]) == (expected, "server_error")
    assert ("Retry-After" in headers) == (expected == 503)
    (turn,) = stored(tmp_path)
    assert turn["turn_id"] == turn_of(headers)
    assert (turn["complete"], turn["finish_reason"], turn["untrainable_reason"]) == (False, "error", "error")


async def test_a_restart_while_weights_change_keeps_what_each_token_was_sampled_with(
    small: Renderer, tmp_path: Path
) -> None:
    """The engine says 1, then 2 within one reply; the collector stops during the next one, and goes on after it."""
    ids = small.tokenizer.encode(f"Hello.{END}")

    def mixed(_: Any) -> Any:
        *steps, last = deltas(ids)
        spans = [Span(version="1", start=0, end=2), Span(version="2", start=2, end=len(ids))]
        return [*steps, msgspec.structs.replace(last, spans=spans)]

    def cut(_: Any) -> Any:
        return [*deltas(ids)[:3], Pause(60)]

    def after(_: Any) -> Any:
        return deltas(ids, version="2")

    headers = {"x-session-id": "s"}
    async with collecting(small, ScriptedEngine(mixed, cut), tmp_path) as served:
        await post(served, CHAT, ASK, **headers)
        hanging = asyncio.create_task(post(served, CHAT, {**ASK, "stream": True}, **headers))
        await until(lambda: len(served.engine.given) == 2 and len(served.engine.given[1]) == 3)
        # It stops with a reply under way: its server waits for none of its connections.
        hanging.cancel()
    async with collecting(small, ScriptedEngine(after), tmp_path) as served:
        await post(served, CHAT, ASK, **headers)
    first, second, third = stored(tmp_path)
    assert [(span["version"], span["start"], span["end"]) for span in first["weight_versions"]] == [
        ("1", 0, 2),
        ("2", 2, len(ids)),
    ]
    # Nobody said what the cut reply was sampled with: it is not guessed, and not trained on.
    assert (second["complete"], second["weight_versions"], second["trainable"]) == (False, [], False)
    assert second["completion_ids"] == ids[:3]
    assert [(span["version"], span["start"], span["end"]) for span in third["weight_versions"]] == [("2", 0, len(ids))]
    assert [turn["turn"] for turn in (first, second, third)] == [1, 2, 3]
