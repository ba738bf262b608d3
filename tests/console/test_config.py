"""roundhouse.toml: every default holds without a file, and what is wrong in one is one clear line."""

from pathlib import Path

import pytest

from collector.config import CollectorConfig, StoreConfig
from collector.errors import UserError
from console.config import RoundhouseConfig, load_config


def test_without_a_file_everything_is_at_its_default() -> None:
    assert load_config(None) == RoundhouseConfig(collector=CollectorConfig())


def test_what_the_file_says_is_taken_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "roundhouse.toml"
    path.write_text('[collector]\nport = 9000\n[collector.store]\nseal_rows = 5\n[collector.keys]\nab = "acme"\n')
    config = load_config(path).collector
    assert (config.port, config.host, config.keys) == (9000, "127.0.0.1", {"ab": "acme"})
    assert config.store == StoreConfig(seal_rows=5)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[collector]\nprot = 9000\n", "prot"),
        ('[collector]\nport = "9000"\n', "port"),
        ("[colector]\n", "colector"),
        ('[collector]\nhistory_reasoning = "drop"\n', "history_reasoning"),
        ("port =", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_key(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "roundhouse.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=line) as raised:
        load_config(path)
    assert "\n" not in str(raised.value)
