"""A byte-level tokenizer, a random language model of a few hundred kilobytes, and LoRA adapters for it, for tests."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Family = Literal["llama", "qwen2", "qwen3"]

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
"""Tokens beside the 256 bytes, from id 256 on; the id of a byte is its value."""

IM_START_ID = 256 + SPECIAL_TOKENS.index("<|im_start|>")
"""Opens a message."""
EOS_ID = 256 + SPECIAL_TOKENS.index("<|im_end|>")
"""Ends a message: the tokenizer's and the generation config's end token."""
VOCAB_SIZE = 256 + len(SPECIAL_TOKENS)
"""Rows of the embedding; every id has a token."""

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""The tiny model's chat template: it knows neither tools nor reasoning, and adds no system message of its own."""


def write_tiny_model(
    folder: Path, *, family: Family = "llama", seed: int = 0, layers: int = 2, hidden: int = 64, context: int = 2048
) -> Path:
    """Writes a random causal language model with its tokenizer to `folder`; the same arguments give the same files."""
    import torch
    from transformers import GenerationConfig

    folder.mkdir(parents=True, exist_ok=True)
    model = _random_model(family, layers=layers, hidden=hidden, context=context)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                weight.normal_(0.0, _scale(name, weight), generator=generator)
            elif name.endswith("bias"):
                weight.normal_(0.0, 0.1, generator=generator)
    model.generation_config = GenerationConfig(eos_token_id=EOS_ID, pad_token_id=256)
    model.save_pretrained(folder)
    write_byte_tokenizer(folder, context=context)
    return folder


def write_byte_tokenizer(folder: Path, *, context: int = 2048) -> None:
    """Writes `tokenizer.json` and `tokenizer_config.json`: one token a byte, special tokens, the ChatML template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab={letter: byte for byte, letter in enumerate(byte_letters())}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    for token in SPECIAL_TOKENS:
        tokenizer.add_tokens([AddedToken(token, special=token.startswith("<|"), normalized=False)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHATML,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")


def write_tiny_adapter(
    folder: Path,
    model_folder: Path,
    *,
    rank: int = 8,
    seed: int = 0,
    target_modules: Sequence[str] = ("q_proj", "k_proj", "v_proj", "o_proj"),
) -> Path:
    """Writes a LoRA in peft's format whose A and B are both random, so that it changes every output."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(target_modules), task_type="CAUSAL_LM")
    adapted = get_peft_model(base, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_(0.0, 1.0 / math.sqrt(weight.shape[1]), generator=generator)
    adapted.save_pretrained(str(folder))
    return folder


def _random_model(family: Family, *, layers: int, hidden: int, context: int) -> "PreTrainedModel":
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        Qwen2Config,
        Qwen2ForCausalLM,
        Qwen3Config,
        Qwen3ForCausalLM,
    )

    # Four query heads on two key heads, so that grouped attention is exercised.
    shape: dict[str, Any] = {  # Any: the configs take options of many types by keyword
        "vocab_size": VOCAB_SIZE,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": context,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": EOS_ID,
        "pad_token_id": 256,
        "dtype": "float32",
    }
    match family:
        case "llama":
            return LlamaForCausalLM(LlamaConfig(**shape))
        case "qwen2":
            return Qwen2ForCausalLM(Qwen2Config(**shape))
        case "qwen3":
            return Qwen3ForCausalLM(Qwen3Config(**shape, head_dim=hidden // 4))


def _scale(name: str, weight: "torch.Tensor") -> float:
    """Spread that keeps activations near 1 and gives logits a spread near 2, so that the model has preferences."""
    if "embed_tokens" in name:
        return 1.0
    fan_in = 1.0 / math.sqrt(weight.shape[1])
    return 2.0 * fan_in if "lm_head" in name else fan_in


def byte_letters() -> list[str]:
    """The printable letter that byte-level BPE writes for each byte (GPT-2's table), in byte order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]
