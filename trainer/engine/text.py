"""Text of sampled ids: stop strings and the `text` field need it, everything else goes by ids."""

from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from collector.engine.wire import Finish, SamplingParams
from collector.model_json import read_json

BROKEN = "\ufffd"
"""What decoding gives for the bytes of an unfinished character."""


class TextCodec:
    """The tokenizer of a model's folder, for decoding only."""

    def __init__(self, tokenizer: Tokenizer, eos_id: int | None) -> None:
        self._tokenizer = tokenizer
        self.eos_id = eos_id
        """The tokenizer's end token, a stop token beside the model's own."""

    @classmethod
    def of(cls, folder: str) -> "TextCodec | None":
        """Reads tokenizer.json; None if the folder has none."""
        file = Path(folder) / "tokenizer.json"
        if not file.is_file():
            return None
        tokenizer = Tokenizer.from_file(str(file))
        eos: Any = read_json(file.with_name("tokenizer_config.json")).get("eos_token")
        content = cast("dict[str, Any]", eos).get("content") if isinstance(eos, dict) else eos
        return cls(tokenizer, tokenizer.token_to_id(content) if isinstance(content, str) else None)

    def decode(self, ids: list[int], *, skip_special_tokens: bool = False) -> str:
        """Text of ids."""
        return self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)


class ReplyText:
    """The text of one reply as it grows: whole characters only, and nothing that a stop string may still take back."""

    def __init__(self, codec: TextCodec, params: SamplingParams) -> None:
        self._codec = codec
        self._params = params
        self._ids: list[int] = []
        self._from = 0
        self._settled = 0
        self._held = ""

    def add(self, ids: list[int], finish: Finish | None) -> str:
        """The text that these ids make certain; with a finish, all that is left."""
        trimmed = finish is not None and isinstance(finish.matched, int) and not self._params.no_stop_trim
        self._ids.extend(ids[:-1] if trimmed else ids)
        self._held += self._settle(final=finish is not None)
        keep = self._uncertain() if finish is None else 0
        if finish is not None and isinstance(finish.matched, str) and not self._params.no_stop_trim:
            self._held = self._held.partition(finish.matched)[0]
        sure, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return sure

    def _settle(self, *, final: bool) -> str:
        skip = self._params.skip_special_tokens
        known = self._codec.decode(self._ids[self._from : self._settled], skip_special_tokens=skip)
        longer = self._codec.decode(self._ids[self._from :], skip_special_tokens=skip)
        if longer.endswith(BROKEN) and not final:
            return ""
        self._from, self._settled = self._settled, len(self._ids)
        return longer[len(known) :]

    def _uncertain(self) -> int:
        if self._params.no_stop_trim:
            return 0
        longest = 0
        for stop in self._params.stop:
            for size in range(1, len(stop)):
                if self._held.endswith(stop[:size]):
                    longest = max(longest, size)
        return longest
