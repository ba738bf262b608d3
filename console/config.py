"""roundhouse.toml: one section per package, every field with a default."""

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from checks.config import ChecksConfig
from collector.config import CollectorConfig
from collector.errors import UserError
from trainer.config import TrainerConfig
from trainer.engine_config import EngineConfig


class RoundhouseConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    collector: CollectorConfig = CollectorConfig()
    """`[collector]`."""
    engine: EngineConfig = EngineConfig()
    """`[engine]`."""
    trainer: TrainerConfig = TrainerConfig()
    """`[trainer]`."""
    checks: ChecksConfig = ChecksConfig()
    """`[checks]`."""


class Launch(NamedTuple):
    """This process among those that torchrun started together; alone without torchrun."""

    rank: int = 0
    size: int = 1


def by_torchrun() -> bool:
    """Whether torchrun started this process, be it the only one."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch() -> Launch:
    """From the environment that torchrun gives its processes."""
    if not by_torchrun():
        return Launch()
    return Launch(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


DEFAULT_FILE = Path("roundhouse.toml")
"""What is read when no file is named, if it is there."""


def load_config(path: Path | None, *, say: Callable[[str], None] = lambda _: None) -> RoundhouseConfig:
    """Reads the file named, else ./roundhouse.toml; the defaults without either. What is wrong in it is one line.

    `say` is told of a file that nobody named.
    """
    if path is None:
        if not DEFAULT_FILE.exists():
            return RoundhouseConfig()
        path = DEFAULT_FILE
        say(f"settings from {path.absolute()}")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; give the path of a roundhouse.toml") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    try:
        return msgspec.convert(values, RoundhouseConfig)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {_with_keys(str(error), values)}; correct or remove the key") from error


def _with_keys(said: str, values: dict[str, object]) -> str:
    """The error with the names that msgspec leaves out of its path, `[...]`: those without which it would not be."""
    before, sign, path = said.partition("`$")
    names: list[str] = []
    table = values
    for step in re.findall(r"\[\.\.\.\]|\.[^.\[`]+", path):
        keys = [key for key in table if _fails([*names, key], table[key], said)] if step == "[...]" else [step[1:]]
        if not keys or keys[0] not in table:
            return said
        names.append(keys[0])
        below = table[keys[0]]
        table = cast("dict[str, object]", below) if isinstance(below, dict) else {}
    return f"{before}{sign}.{'.'.join(names)}`" if names else said


def _fails(names: list[str], value: object, said: str) -> bool:
    """Whether a file with this alone gives the same error."""
    for name in reversed(names):
        value = {name: value}
    try:
        msgspec.convert(value, RoundhouseConfig)
    except msgspec.ValidationError as error:
        return str(error) == said
    return False
