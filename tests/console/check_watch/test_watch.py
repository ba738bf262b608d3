"""`roundhouse check --watch` on a live store: it fires, recovers, is told what people did, and ends cleanly."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from checks.alerts import acknowledge, silence
from collector.records import Event
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer
from console.cli import main
from tests.console.check_watch.watched import ROOT, Watch, alert, fill


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No roundhouse.toml of the repository is found."""
    monkeypatch.chdir(tmp_path)


def events(store: Path, kind: str) -> list[dict[str, object]]:
    """The details of the events of a kind that the evaluator wrote."""
    with Reader(store).snapshot(["events"]) as snapshot:
        rows = snapshot.frame("events", columns=["kind", "detail", "writer"]).rows()
    assert {writer for _, _, writer in rows} <= {"evaluator", "console"}
    return [json.loads(detail) for each, detail, _ in rows if each == kind and detail]


def test_faulty_turns_make_an_alert_fire_and_whole_ones_let_it_recover(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "stop", "stop")
    with Watch(store, "--window-turns", "4", "--format", "json") as watch:
        quiet = watch.evaluation(lambda each: alert(each)["shown"] == "ok")
        assert quiet["window"] == {"name": "the last 4 turns", "seconds": None, "turns": 4}
        assert (quiet["source"]["turns"], quiet["metrics"]["truncated_share"]) == (2, 0.0)
        fill(store, "length", "length", name="cut")
        fired = watch.evaluation(lambda each: alert(each)["shown"] == "firing")
        # Two of the last four turns: above fail, 0.25.
        now = alert(fired)
        assert (now["severity"], now["value"], now["threshold"], now["incident"]) == ("fail", 0.5, 0.25, 1)
        assert now["evidence"] == {"session_id": "cut0", "turn": 1, "value": 1}
        assert fired["incidents"][0]["title"] == "truncation"
        assert [change["change"] for change in fired["changes"]] == ["fired"]
        assert {change["window"] for change in fired["changes"]} == {"the last 4 turns"}
        fill(store, "stop", "stop", "stop", "stop", name="good")
        assert alert(watch.evaluation(lambda each: alert(each)["shown"] == "ok"))["value"] == 0.0
        assert watch.stop() == (0, "")
    states = [each["state"] for each in events(store, "alert") if each["rule"] == "truncation"]
    assert states == ["ok", "pending", "firing", "recovering", "ok"]
    assert [each["status"] for each in events(store, "finding")] == ["ok", "fail", "ok"]
    assert verify(store).clean


def test_lines_say_what_changed_over_which_window(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "length", "stop")
    fill(store, *["length"] * 50, name="old", age_s=500)
    with Watch(store, "--window", "300") as watch:
        pending, said = watch.line(), watch.line()
        assert re.fullmatch(
            r"\d\d:\d\d:\d\dZ  PENDING fail  truncation  50 % of turns \(threshold 25 %\)  over the last 5 min  "
            r"session s0 · turn 1",
            pending,
        )
        assert said.endswith("Z  1 failed, over the last 5 min: 2 turns, 2 sessions, 6 tokens")
        fired = watch.line()
        assert "FIRING fail  truncation" in fired
        assert "incident 1, first truncation" in fired
        assert watch.stop(signal.SIGTERM) == (0, "")


def test_people_acknowledge_and_silence_and_it_outlives_a_restart(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "length")
    with Watch(store, "--format", "json") as watch:
        watch.evaluation(lambda each: alert(each)["shown"] == "firing")
        with Writer(store, "console") as console:
            console.append(acknowledge("truncation", actor="ana", at=datetime.now(UTC))).result(10)
        watch.evaluation(lambda each: alert(each)["shown"] == "acked")
        assert watch.stop()[0] == 0
    later = datetime.now(UTC) + timedelta(hours=1)
    with Writer(store, "console") as console:
        console.append(silence("truncation", until=later, actor="bo", at=datetime.now(UTC))).result(10)
    with Watch(store, "--format", "json") as watch:
        first = json.loads(watch.line())
        held = alert(first)
        assert (held["shown"], held["state"], held["acked_by"], held["silenced_by"]) == (
            "silenced",
            "firing",
            "ana",
            "bo",
        )
        assert (held["incident"], held["first_mover"]) == (1, "truncation")
        assert [change["change"] for change in first["changes"]] == ["silenced"]
        assert watch.stop()[0] == 0
    assert [each["change"] for each in events(store, "alert")] == ["moved", "fired", "acked", "silenced"]


@pytest.mark.parametrize(("fail_on", "code"), [("fail", 1), (None, 0)])
def test_the_exit_code_is_the_alerts_only_where_it_was_asked_for(
    tmp_path: Path, fail_on: str | None, code: int
) -> None:
    store = tmp_path / "store"
    fill(store, "length")
    with Watch(store, *([] if fail_on is None else ["--fail-on", fail_on])) as watch:
        watch.line(lambda line: "FIRING" in line)
        assert watch.stop() == (code, "")


def test_a_store_has_one_evaluator(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "stop")
    with Watch(store) as first:
        first.line()
        with Watch(store) as second:
            out, complaint = second.child.communicate(timeout=60)
            assert (second.child.returncode, out) == (2, b"")
        assert f"locked by the process with pid {first.child.pid}, expected no other writer" in complaint.decode()
        assert complaint.count(b"\n") == 1
        assert first.stop()[0] == 0
    with Watch(store) as third:
        third.line()
        assert third.stop()[0] == 0


def test_notices_go_where_the_settings_say(tmp_path: Path) -> None:
    store, got = tmp_path / "store", tmp_path / "got"
    fill(store, "length")
    code = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read() + b'\\n')"
    command = json.dumps([sys.executable, "-c", code, str(got)])
    (tmp_path / "roundhouse.toml").write_text(
        f'[checks.alerts.delivery]\ncommand = {command}\nwebhook = "http://127.0.0.1:9/secret"\nattempts = 1\n'
    )
    with Watch(store, "--format", "json") as watch:
        counted = watch.evaluation(lambda each: each["delivery"]["waiting"] == 0 and each["delivery"]["delivered"] == 1)
        assert counted["delivery"] == {"delivered": 1, "failed": 1, "dropped": 0, "waiting": 0}
        status, complaints = watch.stop()
    assert status == 0
    assert "webhook: http://127.0.0.1:9 cannot be reached" in complaints
    assert "secret" not in complaints
    (notice,) = [json.loads(line) for line in got.read_text().splitlines()]
    assert (notice["rule"], notice["change"], notice["value"]) == ("truncation", "fired", 1.0)
    assert notice["window"] == "the last 1 h"


def test_a_store_that_cannot_be_read_for_a_while_is_said_and_watched_on(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "stop")
    with Watch(store, "--format", "json") as watch:
        watch.line()
        mark = store / "journals/other.mark"
        (store / "journals/other.sqlite").write_bytes(b"no database at all, none" * 100)
        failed = watch.evaluation(lambda each: "error" in each)
        assert "other.sqlite" in failed["error"]
        assert failed["window"]["name"] == "the last 1 h"
        (store / "journals/other.sqlite").unlink()
        mark.unlink(missing_ok=True)
        assert alert(watch.evaluation(lambda each: "error" not in each))["shown"] == "ok"
        assert watch.stop()[0] == 0


def test_a_signal_during_a_long_evaluation_ends_it_without_a_record(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "stop")
    code = (
        "import sys, time, checks.suite, console.cli\n"
        "from console.check_watch import store_watch\n"
        "run = store_watch.run_checks\n"
        "def slow(log, *, on_batch, **rest):\n"
        "    print('reading', flush=True)\n"
        "    while True:\n"
        "        time.sleep(0.01); on_batch(1)\n"
        "store_watch.run_checks = slow\n"
        "sys.exit(console.cli.main(sys.argv[1:]))\n"
    )
    with Watch(store, start=("-c", code)) as watch:
        assert watch.line() == "reading"
        assert watch.stop() == (0, "")
    assert events(store, "alert") == []


def test_a_closed_pipe_ends_the_watch_and_frees_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "length")
    with Watch(store, "--format", "json") as watch:
        watch.line()
        assert watch.child.stdout is not None
        watch.child.stdout.close()
        assert watch.child.wait(60) == 141
        watch.child.stdout = None
    Writer(store, "evaluator").close()


def test_on_a_terminal_a_view_is_drawn_anew(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "length", "stop")
    ours, theirs = pty.openpty()
    env = {
        "TERM": "xterm-256color",
        "COLUMNS": "100",
        "LINES": "30",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
    }
    words = ["check", str(store), "--watch", "--select", "truncation", "--interval", "0.1"]
    child = subprocess.Popen(
        [sys.executable, "-m", "console", *words], stdout=theirs, stderr=theirs, env=os.environ | env
    )
    os.close(theirs)
    shown, end = b"", time.monotonic() + 60
    while b"FIRING" not in shown and time.monotonic() < end:
        if select.select([ours], [], [], 1)[0]:
            shown += os.read(ours, 65536)
    child.send_signal(signal.SIGINT)  # also where nothing fired: the child ends in any case
    while select.select([ours], [], [], 60)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert child.wait(60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode().replace("\r\n", "\n"))
    assert "the last 1 h: 2 turns, 2 sessions, 6 tokens" in text
    assert " ◆  truncation  FIRING fail  50 % of turns (threshold 25 %)" in text
    assert "incident 1: first truncation" in text
    assert "1 firing" in text
    assert shown.count(b"\x1b[?25h") == 1, "the cursor is shown again"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere does not exist; --watch needs a live store"),
        (["log.jsonl"], "log.jsonl is no store; --watch needs one"),
        (["."], ". is no store"),
        (["store", "--format", "html"], "--format html is for one report; --watch writes text or json"),
        (["store", "--output", "x"], "--output is not for --watch"),
        (["store", "--reads", "native"], "--reads is not for --watch"),
        (["store", "--interval", "0"], "--interval is 0.0, expected a number above 0"),
        (["store", "--window", "nan"], "--window is nan, expected a number above 0"),
        (["store", "--window-turns", "-1"], "--window-turns is -1, expected a number above 0"),
        (["store", "--window", "5", "--window-turns", "5"], "--window and --window-turns are both given"),
    ],
)
def test_what_cannot_be_watched_is_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.jsonl").write_text('{"session_id": "s", "prompt_ids": [1], "completion_ids": [2]}\n')
    fill(tmp_path / "store", "stop")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(["check", *words, "--watch"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_options_of_a_watch_are_for_a_watch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "store", "stop")
    assert main(["check", "store", "--window", "5"]) == 2
    assert "--window is for --watch; add it, or leave this out" in capsys.readouterr().err


def test_a_read_only_store_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    fill(store, "stop")
    mounted = not subprocess.run(["mount", "--bind", str(store), str(store)], capture_output=True).returncode
    if not mounted or subprocess.run(["mount", "-o", "remount,ro,bind", str(store)], capture_output=True).returncode:
        pytest.skip("NOT TESTED, a read-only store: no folder may be mounted read-only here")
    try:
        assert main(["check", "store", "--watch"]) == 2
    finally:
        subprocess.run(["umount", "-l", str(store)], check=True)
    err = capsys.readouterr().err
    assert "--watch writes findings and alerts into the store" in err
    assert "Read-only file system" in err
    assert err.count("\n") == 1


def test_a_rule_that_cannot_be_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "store", "stop")
    (tmp_path / "roundhouse.toml").write_text('[checks.alerts.rules.x]\nmetric = "max_wx"\nabove = 1\n')
    assert main(["check", "store", "--watch"]) == 2
    assert "[checks.alerts.rules.x]: no metric 'max_wx'" in capsys.readouterr().err
    assert not (tmp_path / "store/journals/evaluator.sqlite").exists()


def test_records_the_store_does_not_take_are_kept_for_the_next_evaluation(tmp_path: Path) -> None:
    from checks.alerting.config import AlertsConfig
    from checks.measure import Tools
    from checks.readers.store_window import Window
    from checks.suite import select_checks
    from collector.errors import StoreError
    from console.check_watch.store_watch import StoreWatch, Suite

    fill(tmp_path / "store", "length")
    said: list[str] = []
    suite = Suite(select_checks(["truncation"]), {}, Tools())
    watch = StoreWatch(tmp_path / "store", suite, AlertsConfig(), Window(seconds=3600), say=said.append)
    append = watch._writer.append

    def full(record: Event) -> object:
        from concurrent.futures import Future

        failed: Future[object] = Future()
        failed.set_exception(StoreError("no space left"))
        return failed

    watch._writer.append = full  # type: ignore[method-assign, assignment]
    watch.evaluate(datetime.now(UTC))
    assert (watch.unwritten, len(said)) == (2, 1)
    assert "no space left; 2 records are kept for the next evaluation" in said[0]
    watch._writer.append = append  # type: ignore[method-assign]
    watch.evaluate(datetime.now(UTC))
    assert watch.unwritten == 0
    watch.close()
    assert [each["change"] for each in events(tmp_path / "store", "alert")] == ["moved", "fired"]
