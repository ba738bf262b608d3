"""Reading a registry that this process cannot write."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.store.registry import Registry
from collector.store.registry_rows import RegistrySnapshot, read_audit, read_registry


def test_a_store_without_a_registry_is_empty(tmp_path: Path):
    assert read_registry(tmp_path) == RegistrySnapshot(0, (), (), (), {})
    assert read_audit(tmp_path) == []
    (tmp_path / "registry.sqlite").touch()
    assert read_registry(tmp_path) == RegistrySnapshot(0, (), (), (), {})


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


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE versions SET gate = '{\"passed\":'", "versions with adapter 'bot', version 0"),
        ("UPDATE versions SET gate = '[1]'", "versions with adapter 'bot', version 0"),
        ("UPDATE versions SET changed_at = 9223372036854775807", "versions with adapter 'bot', version 0"),
        ("UPDATE versions SET gate = CAST(x'ff' AS TEXT)", "registry.sqlite"),
        ("UPDATE audit SET detail = 'no json'", "audit with revision 1"),
        ("UPDATE audit SET action = 'party'", "audit with revision 1"),
    ],
)
def test_a_row_that_cannot_be_read_is_an_error_of_the_store_that_names_it(tmp_path: Path, damage: str, named: str):
    with Registry(tmp_path) as registry:
        registry.register_adapter("bot", tenant="acme", base_model="tiny", actor="test", reason="because")
        with closing(sqlite3.connect(tmp_path / "registry.sqlite")) as other:
            other.execute("DROP TRIGGER audit_fixed")
            other.execute(damage)
            other.commit()
        read = read_audit if "audit" in damage else read_registry
        with pytest.raises(StoreError, match=r"registry\.sqlite.*cannot be|Could not decode") as raised:
            read(tmp_path)
        assert named in str(raised.value)
        if "audit" not in damage:
            with pytest.raises(StoreError):
                registry.snapshot()
