"""The model folder's tokenizer: text to ids and back, without transformers."""

from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from collector.errors import UserError
from collector.model_json import read_json
from collector.rendering.piece_memory import PieceMemory

_SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class ChatTokenizer:
    """A tokenizer.json with what the folder's other files say about special and stop tokens."""

    def __init__(
        self, tokenizer: Tokenizer, *, stop_ids: frozenset[int] = frozenset(), names: dict[str, str] | None = None
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.backend = tokenizer
        self._memory = PieceMemory(tokenizer)
        self.names = dict(names or {})
        """bos_token, eos_token and so on, as chat templates see them."""
        self.added = dict(tokenizer.get_added_tokens_decoder())
        self.special_ids = frozenset(index for index, token in self.added.items() if token.special)
        eos = tokenizer.token_to_id(self.names["eos_token"]) if "eos_token" in self.names else None
        self.stop_ids = stop_ids if eos is None else stop_ids | {eos}
        """Ids that end a reply: the generation config's and the tokenizer's eos."""
        self.known_ids: set[int] = set()
        """Ids that were looked up and are the tokenizer's."""
        self.is_byte_level = type(tokenizer.decoder).__name__ == "ByteLevel"

    @classmethod
    def from_folder(cls, folder: Path) -> "ChatTokenizer":
        """Reads tokenizer.json, tokenizer_config.json, special_tokens_map.json and generation_config.json."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise UserError(f"{folder} holds no tokenizer.json; give a Hugging Face model folder with a fast tokenizer")
        try:
            backend = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises no narrower one
            raise UserError(f"{path} is not a tokenizer this version can read: {error}") from error
        names = _special_names(read_json(folder / "special_tokens_map.json"))
        names |= _special_names(read_json(folder / "tokenizer_config.json"))
        stop_ids: set[int] = set()
        for name in ("generation_config.json", "config.json"):
            eos = read_json(folder / name).get("eos_token_id")
            found = cast(list[Any], eos) if isinstance(eos, list) else [eos]
            stop_ids.update(index for index in found if isinstance(index, int))
        return cls(backend, stop_ids=frozenset(stop_ids), names=names)

    def encode(self, text: str) -> list[int]:
        """Ids of a text; special tokens written in it become their ids, and none is added."""
        return self._memory.encode(text)

    def decode(self, ids: list[int]) -> str:
        """The whole text of some ids, special tokens included."""
        return self.backend.decode(ids, skip_special_tokens=False)

    def text_of(self, token_id: int) -> str:
        """How one added token is written, or how any other token decodes alone."""
        token = self.added.get(token_id)
        return token.content if token is not None else self.decode([token_id])

    def size(self) -> int:
        """Number of ids, added tokens included."""
        return self.backend.get_vocab_size(with_added_tokens=True)


def _special_names(settings: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _SPECIAL_NAMES:
        value = settings.get(name)
        text = cast(dict[str, Any], value).get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found
