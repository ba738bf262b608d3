"""Whether a folder really holds SmolLM2-135M-Instruct: its length, end token, template and token ids."""

from pathlib import Path

import msgspec

from collector.errors import UserError

VOCABULARY = 49_152
END_TOKEN = "<|im_end|>"
END_ID = 2
EMBEDDING_SHAPE = [VOCABULARY, 576]
TENSORS = 272

RENDERED = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
)
"""The template's rendering of one user message "Hi": it adds a system message of its own."""

SAMPLE_IDS: dict[str, list[int]] = {
    "Hello, world!": [19556, 28, 905, 17],
    "<|im_start|>user\nhi<|im_end|>\n": [1, 4093, 198, 6004, 2, 198],
    "naïve 🙂": [3546, 46494, 47526],
    "a  1,234": [81, 256, 33, 28, 34, 35, 36],
    "def f(x):\n    return x": [1604, 275, 24, 104, 727, 472, 1003, 1792],
}
"""Texts and their ids, by transformers' own reading of the GGUF; the run of spaces before a digit by the published
tokenizer, which splits digits first (llama.cpp's `smollm` pre-tokenizer does the same)."""


class Tensor(msgspec.Struct, frozen=True):
    """One entry of a safetensors header."""

    shape: list[int] = []
    data_offsets: tuple[int, int] = (0, 0)


def check_small_model(folder: Path) -> None:
    """Raises UserError, saying what was found, unless the folder holds the model with its tokenizer and template."""
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise UserError(f"no {name} in {folder}, expected SmolLM2-135M-Instruct as transformers saves it")
    _check_weights(folder / "model.safetensors")
    _check_tokenizer(folder / "tokenizer.json")
    config = _json(folder / "config.json")
    _expect("config.json: eos_token_id", config.get("eos_token_id"), END_ID)
    tokenizer_config = _json(folder / "tokenizer_config.json")
    _expect("tokenizer_config.json: eos_token", tokenizer_config.get("eos_token"), END_TOKEN)
    _check_template(folder, tokenizer_config.get("chat_template"))


def _check_weights(path: Path) -> None:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length) if length < path.stat().st_size else b""
    try:
        tensors = msgspec.json.decode(header, type=dict[str, Tensor])
    except msgspec.MsgspecError as error:
        raise UserError(f"{path} is damaged: its header is not JSON: {error}") from error
    tensors.pop("__metadata__", None)
    _expect("tensors in model.safetensors", len(tensors), TENSORS)
    _expect("shape of the embedding", tensors.get("model.embed_tokens.weight", Tensor()).shape, EMBEDDING_SHAPE)
    end = max(tensor.data_offsets[1] for tensor in tensors.values())
    _expect("bytes of model.safetensors", path.stat().st_size, 8 + length + end)


def _check_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust binding raises a bare Exception
        raise UserError(f"{path} is damaged: {error}") from error
    _expect("tokens in tokenizer.json", tokenizer.get_vocab_size(), VOCABULARY)
    _expect(f"id of {END_TOKEN}", tokenizer.token_to_id(END_TOKEN), END_ID)
    for text, ids in SAMPLE_IDS.items():
        _expect(f"ids of {text!r}", tokenizer.encode(text).ids, ids)


def _check_template(folder: Path, stated: object) -> None:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    own_file = folder / "chat_template.jinja"
    template = own_file.read_text(encoding="utf-8") if own_file.is_file() else stated
    if not isinstance(template, str):
        raise UserError(f"no chat template in {folder}, expected one in tokenizer_config.json or chat_template.jinja")
    compiled = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    text = compiled.render(messages=[{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    _expect("the template's rendering", text, RENDERED)


def _json(path: Path) -> dict[str, object]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise UserError(f"{path} is damaged: {error}") from error


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise UserError(f"{what}: {found!r}, expected {expected!r}; this is not SmolLM2-135M-Instruct")
