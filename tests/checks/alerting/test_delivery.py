"""Delivery to a loopback server and to real commands: it arrives, or why not is said, and nothing waits for it."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from checks.alerting.config import DeliveryConfig
from checks.alerting.delivery import Counts, Delivery, targets_of
from collector.errors import UserError

SECRET = "T0KEN-of-the-hook"


class Hook:
    """What a webhook's server got, and what it answers: a status each, the last one for ever."""

    def __init__(self, *statuses: int, delay_s: float = 0) -> None:
        self.statuses = [*statuses]
        self.delay_s = delay_s
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""


@contextmanager
def serving(hook: Hook) -> Iterator[Hook]:
    """A loopback server of the hook."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.headers.append(dict(self.headers))
            hook.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            time.sleep(hook.delay_s)
            status = hook.statuses.pop(0) if len(hook.statuses) > 1 else hook.statuses[0]
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", f"/elsewhere/{SECRET}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    hook.url = f"http://127.0.0.1:{server.server_address[1]}/services/{SECRET}"
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def delivering(config: DeliveryConfig, said: list[str]) -> Iterator[Delivery]:
    """A delivery that is closed in the end."""
    delivery = Delivery(targets_of(config), queue_notices=config.queue_notices, say=said.append)
    try:
        yield delivery
    finally:
        delivery.close(most_s=5)


def settled(delivery: Delivery) -> Counts:
    """The counts once nothing waits."""
    until(lambda: not delivery.counts.waiting)
    return delivery.counts


def until(holds: Callable[[], bool], most_s: float = 20) -> None:
    """Waits until something holds."""
    end = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.01)


def quick(**changes: Any) -> DeliveryConfig:
    """Settings with short waits."""
    return DeliveryConfig(**({"timeout_s": 5.0, "backoff_s": 0.01} | changes))


def test_a_notice_arrives_as_json_with_the_headers_given() -> None:
    said: list[str] = []
    with serving(Hook(204)) as hook:
        headers = {"Authorization": "Bearer abc"}
        with delivering(quick(webhook=hook.url, webhook_headers=headers), said) as delivery:
            delivery.put({"rule": "truncation", "value": 0.5})
            assert settled(delivery) == Counts(delivered=1)
        assert hook.bodies == [{"rule": "truncation", "value": 0.5}]
        assert hook.headers[0]["Content-Type"] == "application/json"
        assert hook.headers[0]["Authorization"] == "Bearer abc"
    assert said == []


def test_what_may_pass_is_tried_again() -> None:
    said: list[str] = []
    with serving(Hook(503, 429, 200)) as hook, delivering(quick(webhook=hook.url), said) as delivery:
        delivery.put({"n": 1})
        assert settled(delivery) == Counts(delivered=1)
        assert hook.bodies == [{"n": 1}] * 3


@pytest.mark.parametrize(("status", "tries"), [(500, 3), (404, 1), (400, 1), (302, 1)])
def test_a_failure_is_counted_and_said_without_the_secret(status: int, tries: int) -> None:
    said: list[str] = []
    with serving(Hook(status)) as hook:
        with delivering(quick(webhook=hook.url, attempts=3), said) as delivery:
            delivery.put({"n": 1})
            assert settled(delivery) == Counts(failed=1)
        assert len(hook.bodies) == tries
        host = hook.url.partition("/services")[0]
    assert said == [f"webhook: {host} answered {status}"]


def test_a_refused_connection_and_a_silent_server_are_failures() -> None:
    said: list[str] = []
    with serving(Hook(200)) as hook:
        gone = hook.url
    with delivering(quick(webhook=gone, attempts=2), said) as delivery:
        delivery.put({})
        assert settled(delivery) == Counts(failed=1)
    slow = Hook(200, delay_s=1.0)
    with serving(slow), delivering(quick(webhook=slow.url, attempts=1, timeout_s=0.1), said) as delivery:
        delivery.put({})
        assert settled(delivery) == Counts(failed=1)
    assert "cannot be reached: Connect" in said[0]
    assert "did not answer within 0.1 s" in said[1]
    assert SECRET not in "".join(said)


def test_a_full_queue_drops_and_never_waits() -> None:
    said: list[str] = []
    hook = Hook(200, delay_s=0.5)
    with serving(hook), delivering(quick(webhook=hook.url, queue_notices=2), said) as delivery:
        delivery.put({"n": 0})
        until(lambda: len(hook.bodies) == 1)
        for n in range(1, 6):
            delivery.put({"n": n})
        assert delivery.counts == Counts(dropped=3, waiting=3)
        assert settled(delivery) == Counts(delivered=3, dropped=3)
    assert said == ["webhook: a notice was dropped, 2 are waiting already"] * 3
    assert [body["n"] for body in hook.bodies] == [0, 1, 2]


def test_the_end_does_not_wait_for_tries_to_come() -> None:
    said: list[str] = []
    with serving(Hook(500)) as hook:
        config = quick(webhook=hook.url, backoff_s=1000.0)
        delivery = Delivery(targets_of(config), queue_notices=5, say=said.append)
        delivery.put({})
        until(lambda: len(hook.bodies) == 1)
        assert delivery.close(most_s=0.5).waiting == 0
    assert len(said) == 1
    assert "answered 500; not tried again" in said[0]


def python(code: str, *arguments: str) -> list[str]:
    """A command that runs some Python."""
    return [sys.executable, "-c", code, *arguments]


def test_a_command_gets_the_notice_and_its_arguments_as_they_are(tmp_path: Path) -> None:
    said: list[str] = []
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read()); print('noise' * 100000)"
    words = python(code, str(tmp_path / "a; touch pwned"), "$(touch pwned)")
    with delivering(quick(command=words), said) as delivery:
        delivery.put({"rule": "é"})
        assert settled(delivery) == Counts(delivered=1)
    assert json.loads((tmp_path / "a; touch pwned").read_bytes()) == {"rule": "é"}
    assert [path.name for path in tmp_path.iterdir()] == ["a; touch pwned"]
    assert said == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (python("raise SystemExit(3)"), "exited with 3"),
        (python("import os; os.kill(os.getpid(), 9)"), "was ended by signal 9"),
        (["/nowhere/notify"], "notify cannot be run: No such file or directory"),
    ],
)
def test_a_command_that_fails_says_how(words: list[str], reason: str) -> None:
    said: list[str] = []
    with delivering(quick(command=words), said) as delivery:
        delivery.put({"long": "x" * 1_000_000})
        assert settled(delivery) == Counts(failed=1)
    assert reason in said[0]
    assert len(said) == 1


def test_a_command_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    said: list[str] = []
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid)); time.sleep(60)"
    )
    with delivering(quick(command=python(code, str(tmp_path / "pid")), timeout_s=1.5), said) as delivery:
        delivery.put({})
        assert settled(delivery) == Counts(failed=1)
    assert "was stopped after 1.5 s" in said[0]
    pid = int((tmp_path / "pid").read_text())
    until(lambda: _is_gone(pid))


def _is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody waits for any more is."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def test_both_targets_get_each_notice_and_none_is_fine(tmp_path: Path) -> None:
    said: list[str] = []
    words = python("import sys; open(sys.argv[1], 'a').write('x')", str(tmp_path / "got"))
    with serving(Hook(200)) as hook, delivering(quick(webhook=hook.url, command=words), said) as delivery:
        delivery.put({})
        assert settled(delivery) == Counts(delivered=2)
    assert targets_of(DeliveryConfig()) == {}
    with delivering(DeliveryConfig(), said) as nobody:
        nobody.put({})
        assert nobody.counts == Counts()


@pytest.mark.parametrize("url", ["ftp://host/x", "host/x", "http://", "http://[::1", "http://h\n/x", "http://h:0/x"])
def test_what_is_no_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(UserError, match="expected an http or https URL") as refusal:
        targets_of(DeliveryConfig(webhook=url))
    assert "/x" not in str(refusal.value)


@pytest.mark.parametrize(
    "change", [{"attempts": 0}, {"timeout_s": 0.0}, {"backoff_s": -1.0}, {"webhook_headers": {"A\n": "b"}}]
)
def test_settings_that_cannot_work_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"\[checks.alerts.delivery\]"):
        targets_of(DeliveryConfig(webhook="http://localhost/x", **change))
