"""The model folder's tokenizer: ids as an independent implementation has them, stop ids from every file."""

import json
from pathlib import Path

import pytest
import quicktok

from collector.errors import UserError
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.published import small_backend


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_backend().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_ids_equal_those_of_another_implementation(qwen_tokenizer: ChatTokenizer) -> None:
    other = quicktok.get_encoding("qwen3")
    text = '<|im_start|>user\nNaïve café 🙂 {"a": [1, 22, 333]}\r\n\tdef f():  return x<|im_end|>\n'
    assert qwen_tokenizer.encode(text) == list(other.encode(text, allowed_special="all"))


def test_stop_ids_come_from_every_file_that_names_them(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"eos_token_id": [3, 5]}')
    (folder / "tokenizer_config.json").write_text('{"eos_token": {"content": "<|vision_pad|>"}}')
    tokenizer = ChatTokenizer.from_folder(folder)
    assert tokenizer.stop_ids == {3, 5, tokenizer.backend.token_to_id("<|vision_pad|>")}
    assert tokenizer.names["eos_token"] == "<|vision_pad|>"


def test_truncation_and_padding_in_the_file_are_not_applied(folder: Path) -> None:
    settings = json.loads((folder / "tokenizer.json").read_text())
    settings["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    assert len(ChatTokenizer.from_folder(folder).encode("four")) == 4


def test_a_folder_without_a_fast_tokenizer_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no tokenizer\.json"):
        ChatTokenizer.from_folder(tmp_path)


def test_a_broken_tokenizer_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="not a tokenizer"):
        ChatTokenizer.from_folder(tmp_path)
