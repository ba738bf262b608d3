"""Options every test package shares."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

# Several processes, or whoever calls, may say how wide a terminal is that the tests do not have.
os.environ.pop("COLUMNS", None)

# A run repeats the last one; `--hypothesis-profile=default` looks for examples it has not seen.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
# Hypothesis also draws constants from the project's modules, of those that the tests before happened to import: with
# them a test in one of several processes draws other examples than alone. A Hypothesis without this name is an error.
pytest.MonkeyPatch().setattr(providers, "_get_local_constants", providers.Constants)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take minutes")
    parser.addoption(
        "--sglang-env", type=Path, metavar="DIR", help="environment of the real SGLang (default: the cache)"
    )


FOLDERS_OF_ONE_PROCESS = ("drill", "engines", "clients")
"""Their tests share what takes long to make: captured stores, a real engine, installed clients."""


def group_of(path: Path) -> str:
    """What runs in one process, in order, where tests run in several: a folder above, else one file."""
    folder = path.relative_to(Path(__file__).parent).parts[0]
    return folder if folder in FOLDERS_OF_ONE_PROCESS else str(path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group_of(item.path)))
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="takes minutes; run with --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)
