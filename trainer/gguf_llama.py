"""A Llama model in a GGUF file, written out as float32 safetensors with its config, tokenizer and template."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collector.errors import UserError

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor
    from tokenizers import Tokenizer

CONTROL_TOKEN = 3
"""GGUF's token type of special tokens; 1 is an ordinary one."""

TENSOR_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""GGUF's name of a tensor to transformers'; a block's number comes before either."""


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Writes the model of a GGUF file to `folder` in the form that transformers and engines load."""
    from gguf import GGUFReader
    from safetensors import numpy as safetensors_numpy

    reader = GGUFReader(gguf)
    if (architecture := _field(reader, "general.architecture")) != "llama":
        raise UserError(f"{gguf}: architecture {architecture!r}, expected 'llama'; give a Llama model")
    heads = {
        "attn_q": int(_field(reader, "llama.attention.head_count")),
        "attn_k": int(_field(reader, "llama.attention.head_count_kv")),
    }
    tensors = {_tensor_name(tensor.name): _weights(tensor, heads) for tensor in reader.tensors}
    safetensors_numpy.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", _config(reader, tied="lm_head.weight" not in tensors))
    end = int(_field(reader, "tokenizer.ggml.eos_token_id"))
    _write_json(folder / "generation_config.json", {"eos_token_id": end, "pad_token_id": end})
    tokenizer = tokenizer_of(reader)
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": tokenizer.id_to_token(end),
        "pad_token": tokenizer.id_to_token(end),
        "model_max_length": int(_field(reader, "llama.context_length")),
        "clean_up_tokenization_spaces": False,
        "chat_template": _field(reader, "tokenizer.chat_template"),
    }
    _write_json(folder / "tokenizer_config.json", config)


def tokenizer_of(reader: "GGUFReader") -> "Tokenizer":
    """The byte-pair tokenizer that the GGUF metadata describe."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if (kind := _field(reader, "tokenizer.ggml.pre")) != "smollm":
        raise UserError(f"pre-tokenizer {kind!r} in the GGUF, expected 'smollm'; give a folder with a tokenizer.json")
    words: list[str] = _field(reader, "tokenizer.ggml.tokens")
    types: list[int] = _field(reader, "tokenizer.ggml.token_type")
    merges: list[str] = _field(reader, "tokenizer.ggml.merges")
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=pairs))
    # Digits come first: a space before a digit then never leaves a run of spaces. transformers' own GGUF path leaves
    # this stage out, and so gives other ids where two spaces precede a digit.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [word for word, kind in zip(words, types, strict=True) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in special])
    return tokenizer


def _config(reader: "GGUFReader", *, tied: bool) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": int(_field(reader, "llama.vocab_size")),
        "hidden_size": int(_field(reader, "llama.embedding_length")),
        "intermediate_size": int(_field(reader, "llama.feed_forward_length")),
        "num_hidden_layers": int(_field(reader, "llama.block_count")),
        "num_attention_heads": int(_field(reader, "llama.attention.head_count")),
        "num_key_value_heads": int(_field(reader, "llama.attention.head_count_kv")),
        "max_position_embeddings": int(_field(reader, "llama.context_length")),
        "rope_theta": float(_field(reader, "llama.rope.freq_base")),
        "rms_norm_eps": float(_field(reader, "llama.attention.layer_norm_rms_epsilon")),
        "tie_word_embeddings": tied,
        "bos_token_id": int(_field(reader, "tokenizer.ggml.bos_token_id")),
        "eos_token_id": int(_field(reader, "tokenizer.ggml.eos_token_id")),
        "pad_token_id": int(_field(reader, "tokenizer.ggml.padding_token_id")),
    }


def _tensor_name(name: str) -> str:
    match name.removesuffix(".weight").split("."):
        case ["blk", block, stem] if stem in TENSOR_NAMES:
            return f"model.layers.{block}.{TENSOR_NAMES[stem]}.weight"
        case [stem] if stem in TENSOR_NAMES:
            return f"{TENSOR_NAMES[stem]}.weight"
        case _:
            raise UserError(f"unknown tensor {name!r} in the GGUF, expected those of a Llama model")


def _weights(tensor: "ReaderTensor", heads: dict[str, int]) -> Any:
    """The tensor in float32 and in transformers' order of rows. Any: gguf and numpy agree on no array type."""
    import numpy as np
    from gguf.quants import dequantize

    weights = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
    count = heads.get(tensor.name.removesuffix(".weight").rpartition(".")[2])
    if count is None:
        return weights
    # GGUF interleaves the two halves of each rotary pair; transformers keeps the halves apart.
    rows, columns = weights.shape
    pairs = weights.reshape(count, rows // count // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def _field(reader: "GGUFReader", name: str) -> Any:  # Any: GGUF values are of many types
    field = reader.get_field(name)
    if field is None:
        raise UserError(f"the GGUF has no {name}, which a Llama model needs; give another file")
    return field.contents()


def _write_json(path: Path, value: dict[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
