"""The console in a browser: on loopback, read only, and only for pages of its own."""

import http.client
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from collector.errors import UserError
from console.watch.web import serve

ROOT = Path(__file__).parents[3]


@contextmanager
def served(folder: Path, *more: str) -> Iterator[int]:
    """A server of a log, by the command: its port."""
    log = folder / "log.jsonl"
    shutil.copy(next((ROOT / "samples").rglob("*.jsonl")), log)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        free = found.getsockname()[1]
    words = [sys.executable, "-m", "console", "watch", str(log), "--web", str(free), *more]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            assert said == f"roundhouse watch: http://127.0.0.1:{free}/ shows the console, read only; Ctrl-C ends it\n"
            yield free
        finally:
            server.terminate()
            assert server.wait(20) == 0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with colours as they are."""
    with served(tmp_path_factory.mktemp("web")) as port:
        yield port


class Answer(NamedTuple):
    """What a request was answered with."""

    status: int
    policy: str
    body: bytes


def answer(port: int, path: str = "/", **headers: str) -> Answer:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", path, headers=headers)
        given = connection.getresponse()
        return Answer(given.status, given.getheader("Content-Security-Policy") or "", given.read())


def test_it_answers_on_loopback_and_loads_nothing_from_elsewhere(port: int) -> None:
    given = answer(port)
    assert given.status == 200
    assert "default-src 'self'" in given.policy
    assert b"textual.js" in given.body
    assert answer(port, Host=f"localhost:{port}").status == 200


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js"])
def test_pages_of_other_sites_are_refused(port: int, path: str) -> None:
    assert answer(port, path, Origin="http://evil.example").status == 403
    assert answer(port, path, Host="evil.example").status == 403
    assert answer(port, path, Host=f"evil.example:{port}").status == 403
    assert answer(port, path, Origin=f"http://evil.example:{port}").status == 403
    assert answer(port, path, Origin="null").status == 403


def test_no_other_address_of_this_machine_answers(port: int) -> None:
    addresses = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        with socket.socket() as tried:
            tried.settimeout(2)
            assert tried.connect_ex((address, port)) != 0 or str(address).startswith("127.")


async def shown(port: int) -> bytes:
    """What a tab of the browser is sent until its lanes stand there."""
    import aiohttp

    seen = bytearray()
    page_of = f"ws://127.0.0.1:{port}/ws?width=80&height=24"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(page_of, headers={"Origin": f"http://127.0.0.1:{port}"}) as page,
    ):
        until = time.monotonic() + 60
        while b"max_w" not in seen and time.monotonic() < until:
            message = await page.receive(timeout=60)
            if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED):
                break
            seen += message.data if isinstance(message.data, bytes) else str(message.data).encode()
    assert b"5Traj" in seen
    assert b"max_w" in seen
    return bytes(seen)


def colours_of(seen: bytes) -> set[str]:
    """The kinds of colours among what is written for a terminal."""
    kinds = {"38;2": "truecolor", "48;2": "truecolor", "38;5": "256", "48;5": "256"}
    found = re.findall(rb"\x1b\[([0-9;]+)m", seen)
    named = {kind for letters, kind in kinds.items() if any(letters.encode() in one for one in found)}
    plain = any(re.fullmatch(rb"3[0-7]|4[0-7]|9[0-7]|10[0-7]", part) for one in found for part in one.split(b";"))
    return named | ({"16"} if plain and not named else set())


async def test_a_tab_of_the_browser_shows_the_console(port: int) -> None:
    seen = await shown(port)
    assert b" RO " in seen
    assert colours_of(seen) == {"truecolor"}


@pytest.mark.parametrize(("color", "kinds"), [("none", set()), ("256", {"256"})])
async def test_the_browser_has_the_colours_that_were_asked_for(tmp_path: Path, color: str, kinds: set[str]) -> None:
    with served(tmp_path, "--color", color) as port:
        assert colours_of(await shown(port)) == kinds


def test_a_port_that_is_taken_or_none_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UserError, match=r"cannot listen on 127.0.0.1:\d+: .*; choose another port"):
            serve(["x"], taken.getsockname()[1])
    with pytest.raises(UserError, match=r"--web is 70000, expected a port from 1 to 65535"):
        serve(["x"], 70000)
