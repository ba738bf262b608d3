"""The tokenizer of a store's own base model, where its folder is on this machine and no other was given."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import polars as pl

from checks.measure import Tools
from collector.errors import UserError
from collector.rendering.tokenizer import ChatTokenizer
from trainer.small_model_config import default_cache


class NamedTools(NamedTuple):
    """A tokenizer, and where it is from; None where tokens stay ids."""

    tools: Tools
    name: str | None


def tools_for(given: Tools, turns: pl.DataFrame, *, store: bool) -> NamedTools:
    """What was given; else, in a store, that of the base model that all its turns name, as a folder or as what the
    quick start keeps under that name."""
    if given.tokenizer is not None:
        return NamedTools(given, "--tokenizer")
    names: list[str] = turns["base_model"].drop_nulls().unique().to_list()
    if not store or len(names) != 1:
        return NamedTools(given, None)
    found = _tools_of(names[0])
    return NamedTools(found, names[0] if found.tokenizer is not None else None)


@lru_cache(maxsize=2)
def _tools_of(name: str) -> Tools:
    """Nothing where there is no such folder, or no tokenizer in it that can be read."""
    path = Path(name)
    folder = path if path.is_absolute() else default_cache() / path.name
    if not (folder / "tokenizer.json").is_file():
        return Tools()
    try:
        return Tools(ChatTokenizer.from_folder(folder))
    except UserError:
        return Tools()
