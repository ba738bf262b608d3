"""The folder of handed cases and sample logs, which lies beside the repository or further up, or nowhere."""

from pathlib import Path

MISSING = "no folder shared/ with cases/ and samples/ above the repository"
"""Why a test that needs it is skipped."""


def find_shared() -> Path | None:
    """The nearest `shared/` above the repository with `cases/` and `samples/` in it."""
    beside = (parent / "shared" for parent in Path(__file__).resolve().parents[2:])
    return next(filter(_is_whole, beside), None)


def _is_whole(folder: Path) -> bool:
    return (folder / "cases").is_dir() and (folder / "samples").is_dir()
