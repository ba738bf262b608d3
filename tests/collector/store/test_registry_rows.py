"""Reading a registry that this process cannot write."""

import os
import shutil
import tempfile
from pathlib import Path

from collector.store.registry import Registry
from collector.store.registry_rows import read_audit, read_registry


def test_a_store_without_a_registry_is_empty(tmp_path: Path):
    assert read_registry(tmp_path) == (0, (), (), (), {})
    assert read_audit(tmp_path) == []
    (tmp_path / "registry.sqlite").touch()
    assert read_registry(tmp_path) == (0, (), (), (), {})


def test_reading_makes_no_registry(tmp_path: Path):
    read_registry(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_copy_is_read_with_its_write_ahead_log(tmp_path: Path):
    with Registry(tmp_path) as registry:
        registry.register_adapter("bot", tenant="acme", base_model="tiny", actor="test", reason="because")
        assert (tmp_path / "registry.sqlite-wal").stat().st_size > 0
        with tempfile.TemporaryDirectory(dir="/tmp") as copy:
            for suffix in ("", "-wal"):
                shutil.copy(tmp_path / f"registry.sqlite{suffix}", copy)
                (Path(copy) / f"registry.sqlite{suffix}").chmod(0o444)
            Path(copy).chmod(0o555)
            # Root may write anything, so it puts its rights aside while it reads.
            user = os.geteuid()
            os.seteuid(65534 if user == 0 else user)
            try:
                adapters = read_registry(Path(copy)).adapters
            finally:
                os.seteuid(user)
            assert [adapter.adapter for adapter in adapters] == ["bot"]
            assert sorted(path.name for path in Path(copy).iterdir()) == ["registry.sqlite", "registry.sqlite-wal"]
            Path(copy).chmod(0o755)
