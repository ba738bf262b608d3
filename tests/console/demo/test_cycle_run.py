"""One cycle in a process of its own: what it says is read, and what it cannot do is one line."""

from pathlib import Path

import pytest

from collector.errors import UserError
from console.demo.cycle_run import run_cycle


def test_a_trainer_that_cannot_begin_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("")
    words = ["--store", str(tmp_path / "nothing"), "--config", str(tmp_path / "empty.toml")]
    with pytest.raises(UserError, match=r"the trainer ended with exit code 2: no adapter is configured"):
        run_cycle(words, tmp_path, number=1, limit_s=120)


def test_a_cycle_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a cycle was not over after 0 s; give more time with --minutes"):
        run_cycle(["--store", str(tmp_path)], tmp_path, number=1, limit_s=0.0)
