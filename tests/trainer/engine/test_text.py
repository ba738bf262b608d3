"""Text of a reply as it grows."""

from pathlib import Path

import pytest

from collector.engine.wire import Finish, SamplingParams
from trainer.engine.text import ReplyText, TextCodec

EOS = 258
LENGTH = Finish(type="length", length=99)


@pytest.fixture(scope="module")
def codec(llama: Path) -> TextCodec:
    found = TextCodec.of(str(llama))
    assert found is not None
    return found


def pieces(codec: TextCodec, ids: list[int], finish: Finish, **given) -> list[str]:
    text = ReplyText(codec, SamplingParams(**given))
    return [text.add([token], finish if index == len(ids) - 1 else None) for index, token in enumerate(ids)]


def test_a_folder_without_a_tokenizer_has_no_text(tmp_path: Path) -> None:
    assert TextCodec.of(str(tmp_path)) is None


def test_the_end_token_comes_from_the_tokenizers_config(codec: TextCodec) -> None:
    assert codec.eos_id == EOS


def test_an_unfinished_character_is_held_back(codec: TextCodec) -> None:
    assert pieces(codec, list("aü€b".encode()), LENGTH) == ["a", "", "ü", "", "", "€", "b"]


def test_an_unfinished_character_at_the_end_is_shown_as_broken(codec: TextCodec) -> None:
    assert pieces(codec, [*b"a", 0xC3], LENGTH) == ["a", "\ufffd"]


def test_the_stop_token_is_left_out_unless_asked_for(codec: TextCodec) -> None:
    stop = Finish(type="stop", matched=EOS)
    assert "".join(pieces(codec, [*b"hi", EOS], stop, no_stop_trim=False, skip_special_tokens=False)) == "hi"
    assert "".join(pieces(codec, [*b"hi", EOS], stop, no_stop_trim=True, skip_special_tokens=False)) == "hi<|im_end|>"


def test_a_stop_string_is_never_streamed_in_part(codec: TextCodec) -> None:
    stop = Finish(type="stop", matched="STOP")
    assert pieces(codec, list(b"aSxSTOP"), stop, stop=["STOP"], no_stop_trim=False) == [
        "a", "", "Sx", "", "", "", ""
    ]  # fmt: skip
    assert "".join(pieces(codec, list(b"aSTOP"), stop, stop=["STOP"], no_stop_trim=True)) == "aSTOP"


def test_text_held_for_a_stop_string_comes_out_at_the_end(codec: TextCodec) -> None:
    assert pieces(codec, list(b"aST"), LENGTH, stop=["STOP"], no_stop_trim=False) == ["a", "", "ST"]
