"""The cached environment: built once however many ask, whole or not there, and a reason when it cannot be."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engines.sglang_env import BuildFailed, build, environment_folder, find_environment, main


def make_python(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)


def test_many_builders_at_once_build_it_once(tmp_path: Path) -> None:
    built: list[Path] = []
    gate = threading.Barrier(4)

    def installer(folder: Path) -> None:
        assert find_environment(environment_folder(tmp_path)) is None
        built.append(folder)
        make_python(folder)

    def builder(_: int) -> Path:
        gate.wait()
        return build(tmp_path, installer)

    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(builder, range(4)))
    assert folders == {environment_folder(tmp_path)}
    assert len(built) == 1
    assert find_environment(folders.pop()) is not None
    build(tmp_path, installer)
    assert len(built) == 1


def test_a_build_that_failed_or_was_killed_leaves_nothing_that_counts(tmp_path: Path) -> None:
    folder = environment_folder(tmp_path)
    killed = folder.with_name(f"{folder.name}.tmp-killed")
    killed.mkdir(parents=True)

    def installer(staging: Path) -> None:
        make_python(staging)
        raise BuildFailed("no room")

    with pytest.raises(BuildFailed, match="no room"):
        build(tmp_path, installer)
    assert find_environment(folder) is None
    assert [path.name for path in tmp_path.iterdir()] == [f"{folder.name}.lock"]
    assert build(tmp_path, make_python) == folder


def test_a_root_that_cannot_be_written_is_one_reason_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["--root", str(tmp_path / "file" / "root")]) == 1
    assert capsys.readouterr().err.startswith("the SGLang environment cannot be built: [Errno 20]")
