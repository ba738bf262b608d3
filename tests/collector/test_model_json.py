"""The JSON files of a model's folder."""

from pathlib import Path

import pytest

from collector.errors import UserError
from collector.model_json import read_json


def test_an_object_is_read_and_an_absent_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"eos_token": "</s>"}', encoding="utf-8")
    assert read_json(tmp_path / "config.json") == {"eos_token": "</s>"}
    assert read_json(tmp_path / "generation_config.json") == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "cannot be read as JSON: Expecting property name"),
        (b"\xff", "cannot be read as JSON: 'utf-8' codec can't decode"),
        (b"[1]", "holds list, expected a JSON object; download the model folder again"),
        (b"null", "holds NoneType, expected a JSON object; download the model folder again"),
    ],
)
def test_a_file_that_is_no_object_is_one_clear_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{path} {says}"):
        read_json(path)
