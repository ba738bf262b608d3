"""Converting a small GGUF, against transformers' own reading of the same file."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import quantize
from transformers import AutoModelForCausalLM

from collector.errors import UserError
from trainer.gguf_llama import convert_gguf, tokenizer_of
from trainer.tiny_model import byte_letters

HIDDEN, FEED_FORWARD, HEADS, KEY_HEADS, BLOCKS = 64, 96, 4, 2, 2
WORDS = ["<|end|>", "<|start|>", *byte_letters(), "ĠĠ", "he", "hel"]


def write_gguf(path: Path, *, tied: bool, pre: str = "smollm") -> Path:
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(BLOCKS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(WORDS)
    writer.add_token_types([3, 3] + [1] * (len(WORDS) - 2))
    writer.add_token_merges(["Ġ Ġ", "h e", "he l"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_pad_token_id(0)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    random = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        weights = random.standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            writer.add_tensor(name, weights)
        else:
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(name, quantize(weights, kind), raw_dtype=kind)

    add("token_embd.weight", len(WORDS), HIDDEN)
    add("output_norm.weight", HIDDEN)
    if not tied:
        add("output.weight", len(WORDS), HIDDEN)
    key = HIDDEN // HEADS * KEY_HEADS
    for block in range(BLOCKS):
        for name, shape in {
            "attn_q": (HIDDEN, HIDDEN),
            "attn_k": (key, HIDDEN),
            "attn_v": (key, HIDDEN),
            "attn_output": (HIDDEN, HIDDEN),
            "ffn_gate": (FEED_FORWARD, HIDDEN),
            "ffn_up": (FEED_FORWARD, HIDDEN),
            "ffn_down": (HIDDEN, FEED_FORWARD),
            "attn_norm": (HIDDEN,),
            "ffn_norm": (HIDDEN,),
        }.items():
            add(f"blk.{block}.{name}.weight", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("tied", [True, False])
def test_weights_equal_those_that_transformers_reads(tmp_path: Path, tied: bool) -> None:
    gguf = write_gguf(tmp_path / "tiny.gguf", tied=tied)
    convert_gguf(gguf, tmp_path)
    ours = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=gguf.name, dtype=torch.float32)
    assert (ours.config.tie_word_embeddings, ours.generation_config.eos_token_id) == (tied, 0)
    ids = torch.tensor([[1, 70, 80, 90, 100, 2]])
    assert torch.equal(ours(ids).logits, theirs(ids).logits)


def test_the_tokenizer_splits_digits_before_spaces(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(GGUFReader(write_gguf(tmp_path / "tiny.gguf", tied=True)))
    space, byte = WORDS.index("ĠĠ"), WORDS.index
    assert tokenizer.encode("hello").ids == [byte("hel"), byte("l"), byte("o")]
    assert tokenizer.encode("  12").ids == [space, byte("1"), byte("2")]
    assert tokenizer.encode("  a").ids == [byte("Ġ"), byte("Ġ"), byte("a")]
    assert tokenizer.encode("<|start|>é").ids == [1, byte("Ã"), byte("©")]
    assert tokenizer.decode([1, byte("Ã"), byte("©")], skip_special_tokens=False) == "<|start|>é"


def test_an_unknown_pre_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pre-tokenizer 'llama-bpe' in the GGUF, expected 'smollm'"):
        convert_gguf(write_gguf(tmp_path / "tiny.gguf", tied=True, pre="llama-bpe"), tmp_path)
