"""roundhouse.toml: every default holds without a file, and what is wrong in one is one clear line."""

from pathlib import Path

import pytest

from collector.config import CollectorConfig, StoreConfig
from collector.errors import UserError
from console.config import RoundhouseConfig, load_config


def test_without_a_file_everything_is_at_its_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
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
        (
            '[checks.thresholds.staleness]\nmean = 1.0\n[checks.thresholds.truncation]\nwarn_at = "x"\n',
            r"`\$\.checks\.thresholds\.truncation\.warn_at`; correct",
        ),
        ("[trainer.adapters.a]\ntenant = 'x'\n[trainer.adapters.b]\nrank = 'y'\n", r"`\$\.trainer\.adapters\.b"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_key(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "roundhouse.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=line) as raised:
        load_config(path)
    assert "\n" not in str(raised.value)


def test_a_file_in_the_current_folder_is_read_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("roundhouse.toml").write_text("[collector]\nport = 9000\n[engine]\nthreads = 2\n")
    said: list[str] = []
    config = load_config(None, say=said.append)
    assert (config.collector.port, config.engine.threads) == (9000, 2)
    assert said == [f"settings from {tmp_path / 'roundhouse.toml'}"]


def test_a_file_that_is_named_stands_before_the_one_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("roundhouse.toml").write_text("[collector]\nport = 9000\n")
    other = tmp_path / "other.toml"
    other.write_text("")
    assert load_config(other, say=pytest.fail) == RoundhouseConfig()
