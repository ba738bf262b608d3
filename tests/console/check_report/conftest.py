"""The made report with the tokens around its faults."""

from collections.abc import Callable

import pytest

from checks.measure import Tools
from checks.report import Report
from collector.rendering.renderer import Renderer
from console.check_report.exhibits import Exhibit, exhibits
from tests.console.check_report.made_report import log
from trainer.tiny_model import write_byte_tokenizer

Exhibits = dict[str, list[Exhibit]]


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """A tokenizer of bytes with a template."""
    folder = tmp_path_factory.mktemp("tokenizer")
    write_byte_tokenizer(folder)
    renderer = Renderer.from_folder(folder)
    return Tools(renderer.tokenizer, renderer)


@pytest.fixture
def shown(tools: Tools) -> Callable[[Report], Exhibits]:
    """The first three faults of each check, with text of their tokens."""
    return lambda report: exhibits(report, log(), tools, per_check=3, around=12)
