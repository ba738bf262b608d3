"""The tiny model: exact bytes, a template, reproducible weights, adapters that change the output."""

import hashlib
import json
from pathlib import Path
from typing import get_args

import pytest
import torch
from peft import PeftModel
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainer.tiny_model import EOS_ID, IM_START_ID, SPECIAL_TOKENS, VOCAB_SIZE, Family, write_tiny_adapter
from trainer.tiny_model import write_tiny_model as write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write(tmp_path_factory.mktemp("tiny") / "llama")


def test_ids_are_the_bytes_and_special_tokens_stand_alone(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "<|im_start|>user\nIt's  a 'té' 🙂\x00\t\r\n<think>x</think>  <|im_end|>"
    expected = [257, *b"user\nIt's  a 't\xc3\xa9' \xf0\x9f\x99\x82\x00\t\r\n", 259, *b"x", 260, *b"  ", 258]
    assert tokenizer.encode(text).ids == expected
    assert tokenizer.decode(expected, skip_special_tokens=False) == text
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(256, VOCAB_SIZE))


def test_transformers_loads_the_same_tokenizer_and_renders_chatml(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (len(tokenizer), tokenizer.eos_token_id, tokenizer.bos_token_id) == (VOCAB_SIZE, EOS_ID, None)
    assert tokenizer("a<|im_end|>\n")["input_ids"] == [97, 258, 10]
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("family", get_args(Family))
def test_each_family_loads_and_has_preferences(family: Family, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(write(tmp_path, family=family), dtype=torch.float32)
    config = model.config
    assert (config.model_type, config.vocab_size, model.generation_config.eos_token_id) == (family, VOCAB_SIZE, EOS_ID)
    logits = model(torch.tensor([[IM_START_ID, *b"user\nhello"]])).logits[0, -1]
    entropy = torch.distributions.Categorical(logits=logits).entropy().item()
    assert 1.0 < entropy < 5.5  # uniform over 265 ids would be ln 265 = 5.58


def test_the_seed_decides_the_weights(folder: Path, tmp_path: Path) -> None:
    def digest(path: Path) -> str:
        return hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()

    assert digest(write(tmp_path / "same")) == digest(folder)
    assert digest(write(tmp_path / "other", seed=1)) != digest(folder)


def test_an_adapter_changes_the_output_and_differs_by_seed(folder: Path, tmp_path: Path) -> None:
    ids = torch.tensor([[IM_START_ID, *b"user\nhello"]])
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(ids).logits
    logits: list[torch.Tensor] = [base]
    for seed in (0, 1):
        path = write_tiny_adapter(tmp_path / str(seed), folder, rank=4, seed=seed, target_modules=("q_proj", "v_proj"))
        config = json.loads((path / "adapter_config.json").read_text())
        assert (config["r"], sorted(config["target_modules"])) == (4, ["q_proj", "v_proj"])
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        logits.append(PeftModel.from_pretrained(model, path)(ids).logits)
    gaps = [
        (a - b).abs().max().item() for a, b in ((logits[0], logits[1]), (logits[0], logits[2]), (logits[1], logits[2]))
    ]
    assert min(gaps) > 0.1
