"""Fixtures for the drill-down: real tokenizers, and the handed-over cases where they are."""

from tests.checks.conftest import shared_folder  # noqa: F401 - fixture
from tests.collector.conftest import qwen3, qwen_backend, qwen_tokenizer, renderer_for  # noqa: F401 - fixtures
