"""The gate: what passes, and that nothing else does."""

import json
import os
from pathlib import Path

import pytest

from console.demo.gate import MOST_FILE_BYTES, MOST_FILES, Done, Gate


def call(folder: Path, name: str, **arguments: object) -> Done:
    return Gate(folder).call(name, json.dumps(arguments))


def test_write_read_and_list_work_inside_the_folder(tmp_path: Path) -> None:
    assert call(tmp_path, "write_file", path="b.txt", content="blue fox") == Done("ok", "write_file", "b.txt")
    assert (tmp_path / "b.txt").read_bytes() == b"blue fox"
    assert call(tmp_path, "write_file", path="b.txt", content="x\r\n") == Done("ok", "write_file", "b.txt")
    assert (tmp_path / "b.txt").read_bytes() == b"x\r\n"
    assert call(tmp_path, "read_file", path="b.txt") == Done('b.txt says "x\r\n"', "read_file", "b.txt")
    (tmp_path / "a.txt").touch()
    assert call(tmp_path, "list_files") == Done('files: "a.txt b.txt"', "list_files")


def test_arguments_nobody_asked_for_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tea")
    assert call(tmp_path, "read_file", path="a.txt", mode="x").tool == "read_file"


@pytest.mark.parametrize(
    "path",
    [
        "../out.txt",
        "/etc/passwd",
        "sub/a.txt",
        "..",
        ".",
        "",
        ".hidden",
        "a\x00b",
        "a\nb",
        "a\x1b[31m",
        "..\\out.txt",
        "x" * 65,
        "‮txt.a",
    ],
)
@pytest.mark.parametrize("name", ["write_file", "read_file"])
def test_only_plain_names_are_let_through(tmp_path: Path, name: str, path: str) -> None:
    folder = tmp_path / "inside"
    (folder / "sub").mkdir(parents=True)
    done = call(folder, name, path=path, content="x")
    assert done == Done("error: path is not a plain file name", None)
    assert [entry.name for entry in tmp_path.iterdir()] == ["inside"]
    assert list(folder.iterdir()) == [folder / "sub"]


def test_links_lead_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret")
    (folder / "dangling.txt").symlink_to(tmp_path / "new")
    for name in ("link.txt", "dangling.txt"):
        assert call(folder, "read_file", path=name) == Done(f"error: '{name}' is not a plain file", None)
        assert call(folder, "write_file", path=name, content="x").tool is None
    assert (tmp_path / "secret").read_text() == "secret"
    assert not (tmp_path / "new").exists()


def test_folders_and_pipes_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        assert call(tmp_path, "read_file", path=name).tool is None
        assert call(tmp_path, "write_file", path=name, content="x").tool is None


def test_sizes_and_numbers_are_limited(tmp_path: Path) -> None:
    assert call(tmp_path, "write_file", path="a", content="é" * (MOST_FILE_BYTES // 2)).tool == "write_file"
    refused = call(tmp_path, "write_file", path="b", content="é" * (MOST_FILE_BYTES // 2 + 1))
    assert refused == Done(f"error: content is longer than {MOST_FILE_BYTES} bytes", None)
    (tmp_path / "big").write_bytes(b"x" * (MOST_FILE_BYTES + 1))
    assert call(tmp_path, "read_file", path="big").tool is None
    for number in range(MOST_FILES):
        (tmp_path / f"f{number}").touch()
    assert call(tmp_path, "write_file", path="one-more", content="x").tool is None
    assert call(tmp_path, "write_file", path="a", content="x").tool == "write_file"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("run_shell", '{"command": "true"}', "no such tool"),
        ("__class__", "{}", "no such tool"),
        ("write_file", '{"path": "a"', "arguments are not a JSON object"),
        ("write_file", "[1]", "arguments are not a JSON object"),
        ("write_file", "[" * 100_000, "arguments are not a JSON object"),
        ("write_file", '{"path": "a"}', "content is missing"),
        ("write_file", '{"path": 1, "content": "x"}', "path is missing"),
        ("read_file", '{"path": "none.txt"}', "no file 'none.txt'"),
    ],
)
def test_what_cannot_be_run_is_told_to_the_model(tmp_path: Path, name: str, arguments: str, said: str) -> None:
    assert Gate(tmp_path).call(name, arguments) == Done(f"error: {said}", None)
    assert list(tmp_path.iterdir()) == []


def test_lone_surrogates_do_not_break_it(tmp_path: Path) -> None:
    assert Gate(tmp_path).call("write_file", '{"path": "a", "content": "\\ud800"}').tool == "write_file"
    assert (tmp_path / "a").read_bytes() == b"?"
