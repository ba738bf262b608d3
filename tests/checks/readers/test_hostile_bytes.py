"""Files that are no files, in other encodings, compressed, cut, or larger than they look."""

import gzip
import json
import os
import socket
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from checks.readers.file_head import FileHead
from checks.readers.formats import FORMATS
from checks.readers.open_log import open_log
from collector.errors import UserError
from tests.checks.readers.hostility import (
    BY_NAME,
    LINES,
    memory,
    outcome,
    seed_of,
)
from tests.checks.readers.seeds import SEEDS


def told(path: Path, reads: str | None = None) -> str:
    """What a file that cannot be opened is refused with."""
    with pytest.raises(UserError) as refusal:
        open_log(path, reads=reads)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize("name", LINES)
def test_a_line_in_another_encoding_is_counted_and_the_rest_is_read(name: str, tmp_path: Path) -> None:
    path = seed_of(name, 0)(tmp_path)
    whole = path.read_bytes()
    good = outcome(BY_NAME[name], path)[0]
    path.write_bytes(whole + '{"type": "é"}\n'.encode("latin-1") + b'{"a": "\xf0\x28"}\n\x00\x00\n' + whole[:0])
    assert outcome(BY_NAME[name], path) == (good, 3)


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_tells_the_encoding(name: str, encoding: str, tmp_path: Path) -> None:
    path = seed_of(name, 0)(tmp_path)
    good = outcome(BY_NAME[name], path)[0]
    text = path.read_text()
    marked = text if encoding in ("utf-8-sig", "utf-16") else f"\ufeff{text}"
    path.write_bytes(marked.encode(encoding))
    assert BY_NAME[name].recognise(FileHead.of(path)) is not None
    assert outcome(BY_NAME[name], path) == (good, 0)


@pytest.mark.parametrize("name", LINES)
def test_carriage_returns_and_blank_lines_are_no_lines(name: str, tmp_path: Path) -> None:
    path = seed_of(name, 0)(tmp_path)
    good = outcome(BY_NAME[name], path)[0]
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n\r\n \t\r\n"))
    assert outcome(BY_NAME[name], path) == (good, 0)


def test_a_line_of_a_gigabyte_is_passed_over_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    turn = b'{"session_id": "s", "prompt_ids": [1], "completion_ids": [2]}\n'
    with path.open("wb") as file:
        file.write(turn)
        # A hole: the line takes no disk.
        file.seek(2**30, os.SEEK_CUR)
        file.write(b"\n" + turn)
    before = memory()
    assert outcome(BY_NAME["native"], path) == (2, 1)
    assert memory() - before < 2**29 + 2**28


def bomb(path: Path, size: int) -> None:
    """A small file of very many zeros, with a turn before them."""
    turn = b'{"session_id": "s", "prompt_ids": [1], "completion_ids": [2]}\n'
    zeros = bytes(2**20)
    if path.suffix == ".gz":
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(turn)
            for _ in range(size // len(zeros)):
                file.write(zeros)
    else:
        with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as writer:
            writer.write(turn)
            for _ in range(size // len(zeros)):
                writer.write(zeros)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_bomb_is_left_off_in_bounded_memory(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.jsonl{suffix}"
    bomb(path, 1200 * 2**20)
    before = memory()
    assert outcome(BY_NAME["native"], path) == (1, 1)
    assert memory() - before < 2**29 + 2**28


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_of_a_cut_compressed_file_the_lines_before_are_read_and_the_rest_is_counted(
    suffix: str, tmp_path: Path
) -> None:
    turns = [{"session_id": str(i), "prompt_ids": list(range(i % 97)), "completion_ids": [i]} for i in range(4000)]
    text = "".join(json.dumps(each) + "\n" for each in turns).encode()
    whole = gzip.compress(text) if suffix == ".gz" else zstandard.ZstdCompressor().compress(text)
    path = tmp_path / f"x.jsonl{suffix}"
    path.write_bytes(whole)
    assert outcome(BY_NAME["native"], path) == (4000, 0)
    path.write_bytes(whole[: len(whole) * 2 // 3])
    rows, unreadable = outcome(BY_NAME["native"], path)
    assert 0 < rows < 4000
    assert unreadable in (1, 2)
    assert BY_NAME["native"].recognise(FileHead.of(path)) is not None


def test_all_members_of_a_compressed_file_are_read(tmp_path: Path) -> None:
    line = b'{"session_id": "s", "prompt_ids": [1], "completion_ids": [2]}\n'
    for suffix, compress in ((".gz", gzip.compress), (".zst", zstandard.ZstdCompressor().compress)):
        path = tmp_path / f"x.jsonl{suffix}"
        path.write_bytes(compress(line) + compress(line + line))
        assert outcome(BY_NAME["native"], path) == (3, 0)


@pytest.mark.parametrize(
    "content", [b"", b"not compressed\n" * 50, b"\x1f\x8b\x08\x00broken", b"(\xb5/\xfd\x00\xff\xff"]
)
@pytest.mark.parametrize("suffix", [".gz", ".zst", ".jsonl.zip"])
def test_what_is_not_what_its_suffix_says_is_refused(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    for form in FORMATS:
        try:
            assert outcome(form, path)[0] == 0
        except (OSError, UserError):
            continue


@pytest.mark.parametrize("names", [[], ["a.jsonl", "b.jsonl"], ["../../escape.jsonl"]])
def test_a_zip_of_other_than_one_file_is_refused(names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, '{"session_id": "s", "prompt_ids": [1], "completion_ids": [2]}\n')
    if len(names) == 1:
        assert outcome(BY_NAME["native"], path) == (1, 0)
        assert not (tmp_path.parent.parent / "escape.jsonl").exists()
        return
    with pytest.raises(OSError, match=f"zip of {len(names)} files, expected one"):
        FileHead.of(path)


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        here = Path.cwd()
        os.chdir(tmp_path)
        listener.bind("socket.jsonl")
        os.chdir(here)
    for name, kind in (("pipe", "a named pipe"), ("folder", "a folder"), ("socket", "a socket")):
        with pytest.raises(OSError, match=f"is {kind}, expected a regular file"):
            FileHead.of(tmp_path / f"{name}.jsonl")
    with pytest.raises(OSError, match="is a device, expected a regular file"):
        FileHead.of(Path("/dev/zero"))


def test_in_a_folder_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    SEEDS["native"][0](tmp_path)
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "around").symlink_to(tmp_path)
    (tmp_path / "nowhere.jsonl").symlink_to(tmp_path / "missing")
    assert sum(batch.turns.height for batch in open_log(tmp_path).batches([])) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = SEEDS["native"][0](tmp_path)
    path.chmod(0)
    with pytest.raises(OSError, match="Permission denied"):
        FileHead.of(path)


def test_a_loop_of_links_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "does not exist" in told(loop)
    assert "does not exist" in told(tmp_path / "missing")
