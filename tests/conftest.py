"""Options every test package shares."""

from pathlib import Path

import pytest
from hypothesis import settings

# A run repeats the last one; `--hypothesis-profile=default` looks for examples it has not seen.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take minutes")
    parser.addoption(
        "--sglang-env", type=Path, metavar="DIR", help="environment of the real SGLang (default: the cache)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="takes minutes; run with --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)
