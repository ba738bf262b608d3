"""How large the prefix tree of a log's turns is, against all their tokens; of characters where there is text only."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, cast

import msgspec
import numpy as np
import polars as pl

from checks.log import Batch
from checks.measure import Tools
from checks.measures.prefix_blocks import BLOCK
from checks.measures.prefix_tree import PrefixTree, blocks_of
from checks.ragged import Array, Ragged, ragged

_LONG = 128
"""Mean length from which rows are faster copied one by one than scattered all at once."""
_SCHEMA = {"adapter": pl.String, "unit": pl.String, "turns": pl.Int64, "tokens": pl.Int64, "tree_tokens": pl.Int64}


class DuplicatePrefixes:
    """Builds one tree for each adapter: what is computed under one cannot serve another."""

    name: ClassVar[str] = "duplicate_prefixes"
    turn_columns: ClassVar[tuple[str, ...]] = (
        "adapter",
        "prompt_ids",
        "completion_ids",
        "prompt_text",
        "completion_text",
        "request",
        "response",
    )
    score_columns: ClassVar[tuple[str, ...]] = ()
    needs_tokenizer: ClassVar[bool] = False

    def __init__(self, _: Tools) -> None:
        self._adapters: dict[str | None, int] = {}
        self._ids = PrefixTree()
        self._text: PrefixTree | None = PrefixTree()

    def add(self, batch: Batch) -> None:
        """Grows the trees by the batch's turns."""
        with_ids = batch.turns["prompt_ids"].is_not_null() & batch.turns["completion_ids"].is_not_null()
        turns = batch.turns if with_ids.all() else batch.turns.filter(with_ids)
        if turns.height:
            self._text = None
            parts = (ragged(turns["prompt_ids"]), ragged(turns["completion_ids"]))
            self._ids.add(*_padded(parts), self._keys(turns["adapter"]))
        elif self._text is not None:
            self._add_text(batch.turns)

    def again(self) -> Collection[str]:
        """One pass is enough."""
        return ()

    def add_again(self, batch: Batch) -> None:
        """Never called."""
        raise AssertionError(batch.turns.height)

    def frame(self) -> pl.DataFrame:
        """One row for each adapter: `tokens` of all its turns, `tree_tokens` of them different, in `unit`s."""
        names = {key: adapter for adapter, key in self._adapters.items()}
        unit, tree = ("tokens", self._ids) if self._text is None else ("characters", self._text)
        rows = [(names[size.key], unit, *size[1:]) for size in tree.sizes()]
        return pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort("adapter")

    def _add_text(self, turns: pl.DataFrame) -> None:
        assert self._text is not None
        columns = ("prompt_text", "completion_text", "request", "response")
        texts = [_text(*row) for row in turns.select(columns).iter_rows()]
        known = [text is not None for text in texts]
        if any(known):
            codes = [
                np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
                for text in texts
                if text is not None
            ]
            offsets = np.concatenate([[0], np.cumsum([len(code) for code in codes])])
            whole = Ragged(np.concatenate(codes), offsets, np.ones(len(codes), np.bool_))
            self._text.add(*_padded([whole]), self._keys(turns["adapter"].filter(pl.Series(known))))

    def _keys(self, adapters: pl.Series) -> Array:
        different = adapters.unique().to_list()
        for adapter in different:
            self._adapters.setdefault(adapter, len(self._adapters))
        if len(different) == 1:
            return np.full(len(adapters), self._adapters[different[0]], np.int32)
        return np.array([self._adapters[adapter] for adapter in adapters.to_list()], np.int32)


def _padded(parts: Sequence[Ragged]) -> tuple[Array, Array]:
    """The parts of each row, one after the other, as rows of blocks that begin with it; and the rows' lengths."""
    lengths = np.sum([part.lengths for part in parts], axis=0)
    ends = np.cumsum(blocks_of(lengths)) * BLOCK
    flat = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint32)
    at = ends - blocks_of(lengths) * BLOCK
    for part in parts:
        values = part.values.view(np.uint32) if part.values.dtype == np.int32 else part.values
        if len(values) < _LONG * len(lengths):
            flat[np.arange(len(values)) + np.repeat(at - part.offsets[:-1], part.lengths)] = values
        else:
            offsets = part.offsets.tolist()
            for to, start, end in zip(at.tolist(), offsets, offsets[1:], strict=False):
                flat[to : to + end - start] = values[start:end]
        at = at + part.lengths
    return flat.reshape(-1, BLOCK), lengths


def _text(prompt: str | None, completion: str | None, request: str | None, response: str | None) -> str | None:
    """Prompt and completion of a turn; messages, where there is no prompt, as one line of JSON each."""
    if prompt is not None:
        return prompt + (completion or "")
    messages = None if request is None else msgspec.json.decode(request).get("messages")
    if not isinstance(messages, list):
        return None
    return "".join(_lines(cast(list[Any], messages), response, completion))


# Any: messages as the client sent them.
def _lines(messages: list[Any], response: str | None, completion: str | None) -> Iterator[str]:
    for message in messages:
        yield msgspec.json.encode(message, order="sorted").decode() + "\n"
    if response is not None:
        yield msgspec.json.encode(msgspec.json.decode(response), order="sorted").decode() + "\n"
    elif completion is not None:
        yield completion
