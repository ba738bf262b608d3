"""Fixtures for the checks: the handed-over cases and sample logs, where they are."""

from pathlib import Path

import pytest

from tests.collector.conftest import qwen3, qwen_backend, qwen_tokenizer, renderer_for  # noqa: F401 - fixtures
from tests.shared_folder import MISSING, find_shared


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder with `cases/` and `samples/`; tests that need it are skipped where it is missing."""
    found = find_shared()
    if found is None:
        pytest.skip(MISSING)
    return found
