"""Copying: the sequence, its cap, the file, and that no control character goes along."""

import base64
from pathlib import Path

import pytest

from console.watch.frame.clipboard import MOST_BYTES, copy_text


def sent(sequence: str) -> bytes:
    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\a")
    return base64.b64decode(sequence[7:-1], validate=True)


def test_a_copy_goes_to_the_terminal_and_into_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "made" / "clip.txt"
    copied = copy_text("7f3a91c2 é ", path)
    assert copied.sequence is not None
    assert sent(copied.sequence) == "7f3a91c2 é ".encode()
    assert path.read_bytes() == "7f3a91c2 é ".encode()
    assert path.stat().st_mode & 0o777 == 0o600
    assert copied.said == f"copied 11 characters by OSC 52, and in {path}"


def test_the_longest_sequence_is_what_terminals_take(tmp_path: Path) -> None:
    copied = copy_text("x" * MOST_BYTES, tmp_path / "clip.txt")
    assert copied.sequence is not None
    assert len(copied.sequence.encode()) == 100_000


@pytest.mark.parametrize("text", ["x" * (MOST_BYTES + 1), "é" * (MOST_BYTES // 2 + 1)])
def test_a_longer_one_is_in_the_file_only_and_that_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "clip.txt"
    copied = copy_text(text, path)
    assert copied.sequence is None
    assert path.read_text() == text
    assert copied.said == f"in {path}: {len(text):,} characters, too many for OSC 52 (74,994 bytes)"


def test_control_characters_are_copied_as_their_escapes(tmp_path: Path) -> None:
    copied = copy_text("a\x1b[201~rm\u202e\nb\tc", tmp_path / "clip.txt")
    assert copied.sequence is not None
    assert sent(copied.sequence) == b"a\\x1b[201~rm\\u202e\nb\tc"


def test_a_file_that_cannot_be_written_is_said_and_the_terminal_still_gets_it(tmp_path: Path) -> None:
    (tmp_path / "clip.txt").mkdir()
    copied = copy_text("x", tmp_path / "clip.txt" / "below" / "..")
    assert copied.sequence is not None
    blocked = tmp_path / "file"
    blocked.write_text("")
    copied = copy_text("x", blocked / "clip.txt")
    assert copied.sequence is not None
    assert f"not in {blocked / 'clip.txt'}: " in copied.said
