"""The kernel's notices of a folder: they come for what is written, and for nothing else."""

import select
from pathlib import Path

from console.watch.source.folder_notices import FolderNotices


def readable(notices: FolderNotices, within_s: float) -> bool:
    """Whether a notice comes."""
    assert notices.descriptor is not None
    return bool(select.select([notices.descriptor], [], [], within_s)[0])


def test_a_file_that_is_made_written_and_removed_is_noticed_each_time_and_reading_is_not(tmp_path: Path):
    notices = FolderNotices([tmp_path])
    try:
        file = tmp_path / "a.mark"
        assert not notices.taken()
        file.touch()
        assert readable(notices, 30)
        assert notices.taken()
        assert not notices.taken()
        with file.open("r+b", buffering=0) as opened:
            opened.write(b"1")
            assert notices.taken()
            assert file.read_bytes() == b"1"
            assert not readable(notices, 0)
            opened.seek(0)
            opened.write(b"2")
            assert notices.taken()
        notices.taken()
        file.unlink()
        assert notices.taken()
    finally:
        notices.close()
    assert notices.descriptor is None
    assert not notices.taken()


def test_a_folder_that_is_not_there_gives_no_notices(tmp_path: Path):
    assert FolderNotices([tmp_path / "gone"]).descriptor is None
