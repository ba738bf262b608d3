"""Flow: a collector as a process of its own: killed under traffic, traced, sent 1 GiB, its clock set back and forth."""

import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl
import pytest

from collector.config import StoreConfig
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer
from tests.collector.fuzz.raw_http import exchange, request_bytes

ROOT = Path(__file__).parents[2]
CHAT = "/v1/chat/completions"
SHIM = Path(__file__).parent / "fuzz" / "shifted_clock.c"
Address = tuple[str, int]


@contextmanager
def collector(
    store: Path, *, before: Sequence[str | Path] = (), **environment: str
) -> Iterator[tuple[subprocess.Popen[str], Address]]:
    """The process and where it listens; `before` is a command that runs it."""
    command = [*map(str, before), sys.executable, "-m", "tests.collector.fuzz.fuzzed_collector", str(store)]
    with store.with_suffix(".log").open("a") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, start_new_session=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        url = urlsplit(process.stdout.readline().strip())
        assert url.hostname, store.with_suffix(".log").read_text()[-2000:]
        assert url.port
        yield process, (url.hostname, url.port)
        if process.poll() is None:
            process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ask(address: Address, text: str, session: str, *, stream: bool = False) -> str | None:
    """The turn's id if its reply came whole."""
    body = {"model": "model", "messages": [{"role": "user", "content": text}], "max_tokens": 300, "stream": stream}
    sent = request_bytes("plain", CHAT, [("x-session-id", session)], json.dumps(body).encode())
    answer = exchange(address, sent)
    if answer.status != 200:
        return None
    whole = len(answer.body) == int(answer.headers.get("content-length", -1)) or answer.body.endswith(b"[DONE]\n\n")
    return answer.headers["x-roundhouse-turn"] if whole else None


def turns_of(store: Path) -> pl.DataFrame:
    with Reader(store).snapshot() as snapshot:
        assert snapshot.damage == ()
        return snapshot.frame("turns").sort("seq")


def kill_under_traffic(store: Path, kills: int) -> int:
    """Kills collectors that serve four clients; returns how many replies came whole, each of them in the store."""
    acknowledged: list[str] = []
    source = random.Random(5)
    for number in range(kills):
        with collector(store) as (process, address):
            over = threading.Event()

            def client(name: str, address: Address = address, over: threading.Event = over) -> None:
                for count in range(100_000):
                    try:
                        turn_id = ask(address, f"{name} {count}", name, stream=count % 2 == 0)
                    except OSError:
                        return
                    if turn_id is not None:
                        acknowledged.append(turn_id)
                    if over.is_set():
                        return

            clients = [threading.Thread(target=client, args=(f"{number}-{n}",)) for n in range(4)]
            for each in clients:
                each.start()
            time.sleep(source.uniform(0.2, 0.8))
            os.killpg(process.pid, signal.SIGKILL)
            over.set()
            for each in clients:
                each.join(40)
                assert not each.is_alive()
    with Writer(store, "collector", StoreConfig(seal_interval_s=1e9)) as writer:
        assert writer.repaired == []
    turns = turns_of(store)
    ids = turns["turn_id"].to_list()
    assert len(set(ids)) == len(ids)
    assert turns.filter(pl.col("turn_id").is_in(acknowledged) & pl.col("complete")).height == len(set(acknowledged))
    assert len(set(acknowledged)) == len(acknowledged)
    assert verify(store).clean
    return len(acknowledged)


def test_a_collector_killed_under_traffic_has_every_reply_that_came_whole(tmp_path: Path) -> None:
    assert kill_under_traffic(tmp_path / "store", 2) > 5


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_collector_killed_again_and_again_has_every_reply_that_came_whole(tmp_path: Path) -> None:
    acknowledged = kill_under_traffic(tmp_path / "store", 40)
    print(f"40 kills under traffic, {acknowledged} replies acknowledged, 0 lost, 0 twice")


CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(\d+<([^>]*)>(.*))?")


@pytest.mark.skipif(shutil.which("strace") is None, reason="NOT TESTED, the order of syncs: there is no strace here")
@pytest.mark.parametrize("stream", [True, False])
def test_the_end_of_a_reply_is_sent_after_the_journal_and_its_mark_were_synced(tmp_path: Path, stream: bool) -> None:
    store, trace = tmp_path / "store", tmp_path / "trace"
    calls = "trace=fdatasync,fsync,write,writev,pwrite64,sendto,sendmsg,send"
    before = ["strace", "-f", "-y", "-s", "4000", "-o", trace, "-e", calls]
    with collector(store, before=before) as (_, address):
        told = [ask(address, f"q{number}", "s", stream=stream) for number in range(4)]
    assert None not in told
    text = trace.read_text(errors="replace")
    end = "[DONE]" if stream else "chat.completion"
    made = [(m[1], Path(m[2] or "").name, m[3] or "") for m in map(CALL.match, text.splitlines()) if m and m[2]]
    ends = [n for n, (call, name, rest) in enumerate(made) if name.startswith(("TCP:", "socket:")) and end in rest]
    assert len(ends) == 4, text[-2000:]
    for start, stop in zip([0, *ends], ends, strict=False):
        between = [(call, name) for call, name, _ in made[start:stop]]
        log, mark = "collector.sqlite-wal", "collector.mark"
        written = max(n for n, each in enumerate(between) if each == ("pwrite64", log))
        synced = [n for n, each in enumerate(between) if each == ("fdatasync", log)]
        marked = [n for n, each in enumerate(between) if each == ("fdatasync", mark)]
        assert synced
        assert written < synced[-1] < marked[-1]


def test_a_body_of_one_gibibyte_is_refused_without_being_held(tmp_path: Path) -> None:
    """Declared, it is refused before a byte of it is sent; undeclared, as soon as it is over the limit of 1 MiB."""
    with collector(tmp_path / "store") as (process, address):
        ask(address, "Hi", "s")
        at_rest = peak_bytes(process.pid)
        head = f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
        with socket.create_connection(address, timeout=30) as connection:
            connection.sendall(f"{head}content-length: {2**30}\r\n\r\n".encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")
        with socket.create_connection(address, timeout=30) as connection:
            connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
            piece = b"10000\r\n" + b"x" * 2**16 + b"\r\n"
            sent = 0
            try:
                while sent < 2**30:
                    connection.sendall(piece)
                    sent += 2**16
            except (ConnectionResetError, BrokenPipeError):
                pass
        # What the kernel's buffers take in is not the collector's.
        assert sent < 2**27
        assert peak_bytes(process.pid) - at_rest < 2**25
        assert ask(address, "Hi", "s") is not None


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


class Clock:
    """What the wall clock of a process is off by."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("NOT TESTED, a clock that jumps: there is no C compiler here")
        self.library, self._file = folder / "shifted_clock.so", folder / "shift"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.library, SHIM, "-ldl"], check=True)
        self.off_by(0)

    def off_by(self, seconds: float) -> None:
        """Sets it, at once and for a running process too."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "CLOCK_SHIFT": str(self._file)}


def test_a_clock_that_jumps_changes_no_order_and_loses_nothing(tmp_path: Path) -> None:
    """Two days on, two days back, a year back while the collector is down; sessions go on through all of it."""
    clock = Clock(tmp_path)
    store = tmp_path / "store"
    said: list[Any] = [{"role": "user", "content": "q"}]
    told: list[str] = []

    def go_on(address: Address) -> None:
        sent = request_bytes(
            "plain", CHAT, [("x-session-id", "s")],
            json.dumps({"model": "model", "messages": said, "max_tokens": 300}).encode(),
        )  # fmt: skip
        answer = exchange(address, sent)
        assert answer.status == 200, answer
        told.append(answer.headers["x-roundhouse-turn"])
        message = json.loads(answer.body)["choices"][0]["message"]
        calls = message.get("tool_calls", ())
        called = [{"role": "tool", "tool_call_id": call["id"], "content": "1"} for call in calls]
        said.extend([message, *called, {"role": "user", "content": "more"}])

    day = 86_400.0
    with collector(store, **clock.environment) as (_, address):
        for shift in (0.0, 2 * day, -2 * day):
            clock.off_by(shift)
            go_on(address)
    clock.off_by(-365 * day)
    with collector(store, **clock.environment) as (_, address):
        go_on(address)
        clock.off_by(0)
        go_on(address)
    turns = turns_of(store)
    assert turns["turn_id"].to_list() == told
    assert turns["turn"].to_list() == [1, 2, 3, 4, 5]
    # Each goes on from the one before, whatever the clock said.
    assert turns["parent_turn_id"].to_list() == [None, *told[:-1]]
    days = [round((at - datetime.now(UTC)).total_seconds() / day) for at in turns["started_at"]]
    assert days == [0, 2, -2, -365, 0]
    assert verify(store).clean
