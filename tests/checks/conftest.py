"""Fixtures for the checks: the handed-over cases and sample logs, where they are."""

from pathlib import Path

import pytest

from tests.collector.conftest import qwen3, qwen_backend, qwen_tokenizer, renderer_for  # noqa: F401 - fixtures

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder with `cases/` and `samples/`; tests that need it are skipped where it is missing."""
    for parent in ROOT.parents:
        if (parent / "shared" / "cases").is_dir() and (parent / "shared" / "samples").is_dir():
            return parent / "shared"
    pytest.skip("no folder shared/ with cases/ and samples/ above the repository")
