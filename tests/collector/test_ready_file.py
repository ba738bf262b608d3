"""The file by which a server tells its parent where it listens."""

import json
import os
from pathlib import Path

from collector.ready_file import Ready, read_ready_file, write_ready_file


def test_the_file_holds_url_and_process_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "ready.json"
    file.write_text("of an earlier run")
    write_ready_file(file, "http://127.0.0.1:5")
    assert json.loads(file.read_text()) == {"url": "http://127.0.0.1:5", "pid": os.getpid()}
    assert read_ready_file(file) == Ready(url="http://127.0.0.1:5", pid=os.getpid())
    assert list(tmp_path.iterdir()) == [file]
