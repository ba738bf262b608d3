"""Stand-ins for tokenizers of families whose vocabularies are not at hand: bytes, and the family's own tokens."""

from typing import NamedTuple

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from collector.parsing.detokenizer import BYTE_ALPHABET
from collector.rendering.renderer import Renderer
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.published import QWEN_ADDED, template_source

_GLM = (
    "[gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|> <|endoftext|> <think> </think> <tool_call> "
    "</tool_call> <tool_response> </tool_response> <arg_key> </arg_key> <arg_value> </arg_value> /nothink"
)
_KIMI = (
    "<|im_user|> <|im_assistant|> <|im_system|> <|im_middle|> <|im_end|> <|tool_calls_section_begin|> "
    "<|tool_calls_section_end|> <|tool_call_begin|> <|tool_call_argument_begin|> <|tool_call_end|> <think> </think>"
)
_KIMI_25 = f"{_KIMI} <|media_begin|> <|media_content|> <|media_pad|> <|media_end|>"
_MINIMAX = "]~!b[ ]~b] [e~[ <think> </think> <minimax:tool_call> </minimax:tool_call>"
_LLAMA = "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|end_of_text|> <|eom_id|> <|python_tag|>"


class Known(NamedTuple):
    """A family, a published template of it, and the tokens that the template writes."""

    family: str
    template: str
    tokens: str
    stops: tuple[str, ...]

    def renderer(self) -> Renderer:
        """The template with a tokenizer of bytes."""
        backend = Tokenizer(models.BPE(vocab=dict(BYTE_ALPHABET), merges=[]))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        backend.add_tokens([AddedToken(word, special=True, normalized=False) for word in self.tokens.split()])
        stop_ids = frozenset(backend.token_to_id(stop) for stop in self.stops)
        names = {"eos_token": self.stops[0], "bos_token": self.tokens.split()[0]}
        tokenizer = ChatTokenizer(backend, stop_ids=stop_ids, names=names)
        return Renderer(tokenizer, ChatTemplate(template_source(self.template), names=names))


_IM_END = ("<|im_end|>",)
_QWEN = " ".join(QWEN_ADDED)

KNOWN = [
    Known("qwen3", "Qwen-Qwen3-0.6B.jinja", _QWEN, _IM_END),
    Known("qwen3", "Qwen-Qwen3-4B-Instruct-2507.jinja", _QWEN, _IM_END),
    Known("prime-qwen3", "PrimeIntellect-Qwen3-0.6B.jinja", _QWEN, _IM_END),
    Known("qwen3.5", "Qwen-Qwen3.5-0.8B.jinja", _QWEN, _IM_END),
    Known("qwen3.5", "Qwen3.5-4B.jinja", _QWEN, _IM_END),
    Known("qwen3.6", "Qwen-Qwen3.6-35B-A3B.jinja", _QWEN, _IM_END),
    Known("glm-4.5", "unsloth-GLM-4.5-Air.jinja", _GLM, ("<|user|>", "<|observation|>", "<|endoftext|>")),
    Known("glm-4.5", "GLM-4.6.jinja", _GLM, ("<|user|>", "<|observation|>", "<|endoftext|>")),
    Known("glm-5", "GLM-4.7-Flash.jinja", _GLM, ("<|user|>", "<|observation|>", "<|endoftext|>")),
    Known("kimi-k2", "moonshotai-Kimi-K2-Instruct-0905.jinja", _KIMI, _IM_END),
    Known("kimi-k2.5", "moonshotai-Kimi-K2.5.jinja", _KIMI_25, _IM_END),
    Known("minimax-m2", "MiniMaxAI-MiniMax-M2.5.jinja", _MINIMAX, ("[e~[",)),
    Known("llama-3", "meta-llama-Llama-3.1-8B-Instruct.jinja", _LLAMA, ("<|eot_id|>", "<|eom_id|>")),
    Known("nemotron-3", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", _QWEN, _IM_END),
]
"""DeepSeek V3 and R1 are not among them: no published template here goes on as the package does."""

READING = [known for known in KNOWN if known.family not in ("qwen3", "llama-3")]
"""Those with a way of their own to write tool calls."""


def named(known: Known) -> str:
    """A name for a test."""
    return f"{known.family}: {known.template.removesuffix('.jinja')}"
