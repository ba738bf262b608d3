"""Child processes: found, waited for, and gone afterwards."""

from pathlib import Path

import psutil
import pytest

from collector.errors import UserError
from console.demo.children import Child, stop_all


def test_a_child_that_ends_early_says_why(tmp_path: Path) -> None:
    child = Child("engine", ["--model", str(tmp_path / "nowhere")], tmp_path)
    with pytest.raises(UserError, match=r"^the engine ended with exit code \d+: .*nowhere.* before it was ready$"):
        child.wait_until_ready(60)
    assert not child.stop()


def test_a_child_that_is_too_slow_is_given_up_and_stopped(tmp_path: Path) -> None:
    child = Child("engine", ["--model", str(tmp_path)], tmp_path)
    with pytest.raises(UserError, match=r"^the engine was not ready after 0 s: it said nothing$"):
        child.wait_until_ready(0.0)
    assert stop_all([child]) == ["engine"]
    assert not child.running
    assert not psutil.pid_exists(child.pid)


def test_a_package_of_the_same_name_in_the_users_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoy = tmp_path / "console"
    decoy.mkdir()
    (decoy / "__init__.py").touch()
    (decoy / "__main__.py").write_text("print('decoy')")
    monkeypatch.chdir(tmp_path)
    child = Child("engine", ["--model", str(tmp_path / "nowhere")], tmp_path)
    with pytest.raises(UserError):
        child.wait_until_ready(60)
    assert "decoy" not in child.log.read_text()
    child.stop()
